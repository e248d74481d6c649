//! `/v1/admin/events/{eventId}/pace`

pub(crate) mod get;
pub(crate) mod stream;
