//! `/v1/admin/allocations`

pub(crate) mod cancel;
pub(crate) mod cancel_all;
pub(crate) mod count;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod retries;
pub(crate) mod retry;
pub(crate) mod retry_all;
