//! `/v1/me`

pub(crate) mod accounts;
pub(crate) mod requests;
