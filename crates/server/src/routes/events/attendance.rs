//! `/v1/events/{eventId}/attendance`

pub(crate) mod check_in;
pub(crate) mod get;
