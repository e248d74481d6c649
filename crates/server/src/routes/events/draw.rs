//! `/v1/events/{eventId}/draw`

pub(crate) mod document;
pub(crate) mod get;
pub(crate) mod proof;
