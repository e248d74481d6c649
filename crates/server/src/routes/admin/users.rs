//! `/v1/admin/users`

pub(crate) mod activity;
pub(crate) mod put;
