//! `/v1/admin/requests`

pub(crate) mod get;
