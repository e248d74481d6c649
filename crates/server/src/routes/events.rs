//! `/v1/events`

pub(crate) mod apply;
pub(crate) mod draw;
pub(crate) mod get;
pub(crate) mod list;
