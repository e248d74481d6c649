//! `/v1/admin/accounts`

pub(crate) mod create;
pub(crate) mod deposit;
