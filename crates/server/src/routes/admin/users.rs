//! `/v1/admin/users`

pub(crate) mod activity;
pub(crate) mod coupons;
pub(crate) mod list;
pub(crate) mod put;
pub(crate) mod requests;
