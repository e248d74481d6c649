//! `/v1/coupons`

pub(crate) mod issue;
