//! `/v1/transfers`

pub(crate) mod create;
pub(crate) mod get;
pub(crate) mod refund;
