//! What a provider's answer means.

use crate::time::Timestamp;

/// How a call of a provider ended, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It answered.
    Status {
        status: u16,
        transaction_id: Option<String>,
        retry_after_ms: Option<i64>,
    },
    /// Nobody was there: nothing was sent.
    Refused {
        reason: String,
    },
    /// Something was sent, and the connection was lost.
    Lost {
        reason: String,
    },
    TimedOut,
    /// It will never be given, for a reason that is known.
    Never {
        reason: String,
    },
    /// There is no such provider in our settings.
    Missing,
}

/// What is asked of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Grant,
    /// Take it back, or never give it: where that is known, it was not applied and never will be.
    Revoke,
}

/// What is known after a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Applied {
        transaction_id: Option<String>,
    },
    /// Asked again under the same key.
    Unknown {
        reason: String,
    },
    NotApplied {
        reason: String,
        retry_after_ms: Option<i64>,
    },
    /// The provider does not know us, or we call it wrongly.
    Misconfigured {
        reason: String,
    },
    /// No retry would mend it.
    Refused {
        reason: String,
    },
    /// It was taken back, or will never be given.
    Revoked,
}

impl Outcome {
    /// Why what was wanted did not happen, if it did not.
    pub fn failure(&self) -> Option<String> {
        match self {
            Self::Applied { .. } | Self::Revoked => None,
            Self::Unknown { reason }
            | Self::NotApplied { reason, .. }
            | Self::Misconfigured { reason }
            | Self::Refused { reason } => Some(reason.clone()),
        }
    }
}

/// The outcome table.
pub fn judge(sent: Sent, answer: Answer) -> Outcome {
    let (status, transaction_id, retry_after_ms) = match answer {
        Answer::Status { status, transaction_id, retry_after_ms } => (status, transaction_id, retry_after_ms),
        Answer::Refused { reason } => return Outcome::NotApplied { reason, retry_after_ms: None },
        Answer::Lost { reason } => return Outcome::Unknown { reason },
        Answer::Never { reason } => return Outcome::Refused { reason },
        Answer::TimedOut => return Outcome::Unknown { reason: "no answer in time".into() },
        Answer::Missing => {
            return Outcome::Misconfigured { reason: "no provider of this name is configured".into() };
        }
    };
    let reason = format!("it answered {status}");
    match (status, sent) {
        (200..=299, Sent::Revoke) => Outcome::Revoked,
        (200..=299, Sent::Grant) => Outcome::Applied { transaction_id },
        (409, Sent::Grant) if transaction_id.is_some() => Outcome::Applied { transaction_id },
        (429 | 408 | 425, _) => Outcome::NotApplied { reason, retry_after_ms },
        (401 | 403 | 404 | 405, _) => Outcome::Misconfigured { reason },
        (400 | 410 | 422, Sent::Grant) => Outcome::Refused { reason },
        // 409 without an id, 5xx, and what nobody agreed on: asked again, which does no harm under the same key.
        _ => Outcome::Unknown { reason },
    }
}

/// What a look at a key has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Applied {
        transaction_id: Option<String>,
    },
    NotApplied,
    /// The provider has no such call.
    CannotTell,
    /// It could not be asked.
    Failed(Answer),
}

/// The longest that a provider can ask to be left alone: more is a mistake.
pub const PAUSE_MAX_MS: i64 = 3_600_000;

/// How long a provider wants to be left alone, from what its answer says.
pub fn pause_until(outcome: &Outcome, now: Timestamp) -> Option<Timestamp> {
    match outcome {
        Outcome::NotApplied { retry_after_ms: Some(millis), .. } => {
            Some(now.plus_millis((*millis).clamp(0, PAUSE_MAX_MS)))
        }
        _ => None,
    }
}
