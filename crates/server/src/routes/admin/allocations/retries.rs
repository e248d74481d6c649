//! `/v1/admin/allocations/retries`

pub(crate) mod get;
pub(crate) mod stop;
