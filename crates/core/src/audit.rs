//! The audit log: every admin change, who made it, and what it was before and after.

use crate::id::UserId;
use crate::time::Timestamp;
use serde_json::Value;

/// Who changes something, and in which call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub user_id: UserId,
    pub request_id: String,
}

/// What was done, in the words of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    EventCreated,
    EventPatched,
    EventOpened,
    EventClosed,
    EventCancelled,
    UserStatusSet,
}

impl Action {
    pub const ALL: [Action; 6] = [
        Self::EventCreated,
        Self::EventPatched,
        Self::EventOpened,
        Self::EventClosed,
        Self::EventCancelled,
        Self::UserStatusSet,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventCreated => "EVENT_CREATED",
            Self::EventPatched => "EVENT_PATCHED",
            Self::EventOpened => "EVENT_OPENED",
            Self::EventClosed => "EVENT_CLOSED",
            Self::EventCancelled => "EVENT_CANCELLED",
            Self::UserStatusSet => "USER_STATUS_SET",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }

    /// What kind of thing the target is.
    pub const fn target_type(self) -> &'static str {
        match self {
            Self::UserStatusSet => "USER",
            _ => "EVENT",
        }
    }
}

/// A line of the log that is yet to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub actor: Actor,
    pub action: Action,
    pub target_id: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
}

/// A line of the log as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditRecord {
    pub sequence: i64,
    pub entry: AuditEntry,
    /// How much text it took to store what was before and after.
    pub stored_bytes: usize,
}

impl AuditRecord {
    pub fn bytes(&self) -> usize {
        self.stored_bytes
    }
}
