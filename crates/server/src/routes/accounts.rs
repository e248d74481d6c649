//! `/v1/accounts`

pub(crate) mod entries;
pub(crate) mod get;
