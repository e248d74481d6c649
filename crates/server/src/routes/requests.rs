//! `/v1/requests`

pub(crate) mod get;
pub(crate) mod stream;
