//! `/v1/admin/allocations/retries`

pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod stop;
