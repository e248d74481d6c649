//! The wallet: accounts, transfers, and the ledger.

pub mod accounts;
pub(crate) mod at_once;
pub mod ledger;
pub mod transfers;
