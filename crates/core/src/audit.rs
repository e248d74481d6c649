//! The audit log: every admin change, who made it, and what it was before and after.

use crate::hash::{Bytes, Hash};
use crate::id::UserId;
use crate::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Who changes something, and in which call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    pub user_id: UserId,
    pub request_id: String,
}

impl Actor {
    /// What happens by itself: a lottery's cutoff and its announcement.
    pub fn itself() -> Self {
        let user_id = UserId::parse("guerdon").expect("a name like anybody's");
        Self { user_id, request_id: String::new() }
    }
}

/// What was done, in the words of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    EventCreated,
    EventPatched,
    EventOpened,
    EventClosed,
    EventCancelled,
    EventDrawn,
    EventAnnounced,
    UserStatusSet,
    AccountOpened,
    AccountDeposited,
    TransferRefunded,
    MessagesReplayed,
    SinkEnabled,
    AllocationRetried,
    AllocationCancelled,
    AllocationsRetried,
    AllocationsCancelled,
    ClaimRetried,
    ClaimResolved,
    UserActivitySet,
    CouponCreated,
    UserCouponRevoked,
}

impl Action {
    pub const ALL: [Action; 22] = [
        Self::EventCreated,
        Self::EventPatched,
        Self::EventOpened,
        Self::EventClosed,
        Self::EventCancelled,
        Self::EventDrawn,
        Self::EventAnnounced,
        Self::UserStatusSet,
        Self::AccountOpened,
        Self::AccountDeposited,
        Self::TransferRefunded,
        Self::MessagesReplayed,
        Self::SinkEnabled,
        Self::AllocationRetried,
        Self::AllocationCancelled,
        Self::AllocationsRetried,
        Self::AllocationsCancelled,
        Self::ClaimRetried,
        Self::ClaimResolved,
        Self::UserActivitySet,
        Self::CouponCreated,
        Self::UserCouponRevoked,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EventCreated => "EVENT_CREATED",
            Self::EventPatched => "EVENT_PATCHED",
            Self::EventOpened => "EVENT_OPENED",
            Self::EventClosed => "EVENT_CLOSED",
            Self::EventCancelled => "EVENT_CANCELLED",
            Self::EventDrawn => "EVENT_DRAWN",
            Self::EventAnnounced => "EVENT_ANNOUNCED",
            Self::UserStatusSet => "USER_STATUS_SET",
            Self::AccountOpened => "ACCOUNT_OPENED",
            Self::AccountDeposited => "ACCOUNT_DEPOSITED",
            Self::TransferRefunded => "TRANSFER_REFUNDED",
            Self::MessagesReplayed => "MESSAGES_REPLAYED",
            Self::SinkEnabled => "SINK_ENABLED",
            Self::AllocationRetried => "ALLOCATION_RETRIED",
            Self::AllocationCancelled => "ALLOCATION_CANCELLED",
            Self::AllocationsRetried => "ALLOCATIONS_RETRIED",
            Self::AllocationsCancelled => "ALLOCATIONS_CANCELLED",
            Self::ClaimRetried => "CLAIM_RETRIED",
            Self::ClaimResolved => "CLAIM_RESOLVED",
            Self::UserActivitySet => "USER_ACTIVITY_SET",
            Self::CouponCreated => "COUPON_CREATED",
            Self::UserCouponRevoked => "USER_COUPON_REVOKED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }

    /// What kind of thing the target is.
    pub const fn target_type(self) -> &'static str {
        match self {
            Self::UserStatusSet => "USER",
            Self::AccountOpened | Self::AccountDeposited => "ACCOUNT",
            Self::TransferRefunded => "TRANSFER",
            Self::MessagesReplayed => "MESSAGE",
            Self::SinkEnabled => "SINK",
            Self::AllocationRetried | Self::AllocationCancelled => "ALLOCATION",
            Self::AllocationsRetried | Self::AllocationsCancelled => "RETRY",
            Self::ClaimRetried | Self::ClaimResolved => "CLAIM",
            Self::UserActivitySet => "USER_ACTIVITY",
            Self::CouponCreated => "COUPON",
            Self::UserCouponRevoked => "USER_COUPON",
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

/// A line as its hash is taken of it: every column, in its stored form.
#[derive(Clone, Copy, Debug)]
pub struct StoredLine<'a> {
    pub sequence: i64,
    pub at: Timestamp,
    pub actor: &'a str,
    pub request_id: &'a str,
    pub action: &'a str,
    pub target_type: &'a str,
    pub target_id: &'a str,
    pub before: Option<&'a str>,
    pub after: Option<&'a str>,
}

/// What the first line of the log follows.
pub const BEFORE_THE_FIRST: Hash = Hash::from_bytes([0; 32]);

/// Binds a line to all lines before it: nothing can be changed, left out or put between without a trace.
pub fn chained(previous: &Hash, line: StoredLine<'_>) -> Hash {
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let optional = |bytes: Bytes, text: Option<&str>| match text {
        None => bytes.byte(0),
        Some(text) => bytes.byte(1).text(text),
    };
    let bytes = Bytes::new()
        .text("guerdon.audit-log.v1")
        .raw(previous.as_bytes())
        .number(number(line.sequence))
        .number(number(line.at.as_millis()))
        .text(line.actor)
        .text(line.request_id)
        .text(line.action)
        .text(line.target_type)
        .text(line.target_id);
    optional(optional(bytes, line.before), line.after).hash()
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

/// What an audit of everything that is stored found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Report {
    pub ok: bool,
    pub checks: Vec<Check>,
}

/// One promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Check {
    pub name: &'static str,
    pub ok: bool,
    /// How many things were looked at.
    pub checked: u64,
    /// What must hold, or how often it does not.
    pub detail: String,
    /// Where it does not hold; the first twenty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::{BEFORE_THE_FIRST, StoredLine, chained};
    use crate::time::Timestamp;

    #[test]
    fn every_column_counts() {
        let line = StoredLine {
            sequence: 1,
            at: Timestamp::from_millis(2),
            actor: "op",
            request_id: "r",
            action: "EVENT_OPENED",
            target_type: "EVENT",
            target_id: "e",
            before: None,
            after: Some("{}"),
        };
        let hash = chained(&BEFORE_THE_FIRST, line);
        let others = [
            StoredLine { sequence: 2, ..line },
            StoredLine { at: Timestamp::from_millis(3), ..line },
            StoredLine { actor: "o", request_id: "pr", ..line },
            StoredLine { request_id: "", ..line },
            StoredLine { action: "EVENT_CLOSED", ..line },
            StoredLine { target_type: "USER", ..line },
            StoredLine { target_id: "f", ..line },
            StoredLine { before: Some(""), ..line },
            StoredLine { after: None, ..line },
            StoredLine { before: Some("{}"), after: None, ..line },
        ];
        for other in others {
            assert_ne!(chained(&BEFORE_THE_FIRST, other), hash, "{other:?}");
        }
        assert_ne!(chained(&hash, line), hash, "what came before");
    }
}
