//! `/v1/me`

pub(crate) mod accounts;
pub(crate) mod allocations;
pub(crate) mod requests;
