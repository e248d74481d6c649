//! The wallet: accounts, transfers, and the ledger.

pub mod accounts;
pub mod ledger;
pub mod transfers;
