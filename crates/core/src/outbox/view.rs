//! The outbox as operators see it.

use super::{Message, MessageId, MessageStatus};
use crate::fields::FieldErrors;
use crate::rejection::Rejection;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A message for others.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutboxEventView {
    pub event_id: String,
    pub aggregate_type: String,
    pub aggregate_id: String,
    pub event_type: String,
    /// Orders the messages about one aggregate.
    pub sequence: i64,
    #[schema(value_type = Object)]
    pub payload: Box<RawValue>,
    pub status: MessageStatus,
    /// How often it was refused.
    pub attempts: i64,
    #[schema(value_type = i64)]
    pub created_at: crate::Timestamp,
    /// Why it was refused the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Before which it is not tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub next_attempt_at: Option<crate::Timestamp>,
}

/// A message and where it stands.
#[derive(Clone, Debug)]
pub struct Stored {
    pub message: Message,
    pub status: MessageStatus,
    pub last_error: Option<String>,
    pub next_attempt_at: Option<crate::Timestamp>,
}

impl OutboxEventView {
    pub fn of(stored: Stored) -> Self {
        let Stored { message, status, last_error, next_attempt_at } = stored;
        Self {
            event_id: message.id.to_string(),
            aggregate_type: message.aggregate_type,
            aggregate_id: message.aggregate_id,
            event_type: message.event_type,
            sequence: message.sequence,
            payload: RawValue::from_string(message.payload).unwrap_or_else(|_| RawValue::NULL.to_owned()),
            status,
            attempts: message.attempts,
            created_at: message.created_at,
            last_error,
            next_attempt_at,
        }
    }
}

/// Which messages are sent again: those of one status between two, both included.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplayBody {
    /// The first one's id; the first there is unless set.
    #[serde(default)]
    from: Option<String>,
    /// The last one's id; the last there is unless set.
    #[serde(default)]
    to: Option<String>,
    /// `DEAD` unless set; or `SENT`.
    #[serde(default)]
    status: Option<MessageStatus>,
}

impl ReplayBody {
    /// The first, the last, and whether the dead are meant rather than those that were sent.
    pub fn validate(self) -> Result<(MessageId, MessageId, bool), Rejection> {
        let mut errors = FieldErrors::default();
        let mut id = |path: &str, text: Option<String>, default: u8| match text {
            None => MessageId::from_bytes([default; 16]),
            Some(text) => MessageId::parse(&text).unwrap_or_else(|| {
                errors.refuse(path, "must be the id of a message");
                MessageId::from_bytes([default; 16])
            }),
        };
        let (from, to) = (id("from", self.from, 0), id("to", self.to, 0xff));
        if from > to {
            errors.refuse("to", "must not come before `from`");
        }
        let dead = match self.status {
            None | Some(MessageStatus::Dead) => true,
            Some(MessageStatus::Sent) => false,
            Some(MessageStatus::New | MessageStatus::Sending) => {
                errors.refuse("status", "must be DEAD or SENT: others are on their way");
                false
            }
        };
        errors.into_result().map(|()| (from, to, dead))
    }
}

#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replayed {
    /// How many are sent again.
    pub replayed: u64,
    /// Where to go on when there are more.
    pub next: Option<String>,
}
