//! `/v1/admin`

pub(crate) mod accounts;
pub(crate) mod allocations;
pub(crate) mod audit;
pub(crate) mod audit_log;
pub(crate) mod claims;
pub(crate) mod coupons;
pub(crate) mod events;
pub(crate) mod outbox;
pub(crate) mod requests;
pub(crate) mod search;
pub(crate) mod user_coupons;
pub(crate) mod users;
