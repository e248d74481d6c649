//! `/v1/admin/claims`

pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod resolve;
pub(crate) mod retry;
