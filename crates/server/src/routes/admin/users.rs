//! `/v1/admin/users`

pub(crate) mod put;
