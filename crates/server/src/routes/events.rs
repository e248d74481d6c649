//! `/v1/events`

pub(crate) mod apply;
pub(crate) mod attendance;
pub(crate) mod draw;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod odds;
pub(crate) mod plays;
