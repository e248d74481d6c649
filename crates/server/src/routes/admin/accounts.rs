//! `/v1/admin/accounts`

pub(crate) mod create;
pub(crate) mod deposit;
pub(crate) mod list;
