//! `/v1/users`

pub(crate) mod status;
