//! `/v1/me`

pub(crate) mod accounts;
pub(crate) mod allocations;
pub(crate) mod claims;
pub(crate) mod coupons;
pub(crate) mod requests;
