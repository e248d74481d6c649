//! `/v1/admin/user-coupons`

pub(crate) mod revoke;
