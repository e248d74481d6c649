//! `/v1/coupons`

pub(crate) mod get;
pub(crate) mod issue;
