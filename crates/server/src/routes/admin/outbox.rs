//! `/v1/admin/outbox`

pub(crate) mod enable;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod replay;
pub(crate) mod replay_range;
pub(crate) mod sink;
