//! `/v1/admin/coupons`

pub(crate) mod create;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod user_coupons;
