//! `/v1/claims`

pub(crate) mod get;
