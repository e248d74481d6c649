//! `/v1/me`

pub(crate) mod requests;
