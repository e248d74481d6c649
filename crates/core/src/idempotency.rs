//! Idempotency keys: the same call again is the same call once, and gets the same answer.
//!
//! A key is claimed in a transaction of its own, the work is done in another, and that one also stores the answer: it
//! can only do so for as long as the claim still stands. Every claim has an epoch, so a worker that was given up for
//! dead and comes back finds its epoch gone. The lease of a claim is one thing, how long an answer is kept another.

use crate::code::Code;
use crate::hash::Hash;
use crate::id::{IdempotencyKey, UserId};
use crate::named::named;
use crate::rejection::Rejection;
use crate::time::Timestamp;
use serde::Serialize;
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

named! {
    /// What a key is for; the same text may be used for different things.
    Scope {
        Transfer "TRANSFER",
        Deposit "DEPOSIT",
        Refund "REFUND",
    }
}

impl Scope {
    /// Whether we hand out its keys; otherwise clients choose them.
    pub const fn is_issued(self) -> bool {
        matches!(self, Self::Transfer)
    }

    /// What becomes of work that was not finished within its lease. A key of ours is spent, by the watchdog; a key of
    /// the client's is taken over by whoever brings it next.
    pub const fn is_taken_over(self) -> bool {
        !self.is_issued()
    }
}

/// A key, whose it is and what for: unique. Ordered as rows are locked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    pub key: IdempotencyKey,
    pub client: UserId,
    pub scope: Scope,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} for {}", self.key, self.client, self.scope.as_str())
    }
}

/// An answer as it was given: replayed byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAnswer {
    pub status: u16,
    pub body: Arc<str>,
}

/// What the caller reads for as long as somebody is at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct InProgress {
    pub status: &'static str,
}

impl InProgress {
    pub const VIEW: Self = Self { status: "IN_PROGRESS" };
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Until when an unclaimed key can be claimed.
    pub expires_at: Timestamp,
    /// Counts the claims.
    pub epoch: i64,
    pub state: KeyState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// Issued, and never used.
    Unclaimed,
    Claimed(Claimed),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Of the request that it was claimed for.
    pub fingerprint: Hash,
    /// The id of what the work makes: fixed by the first claim, so that no later one can make it twice.
    pub resource: [u8; 16],
    pub progress: Progress,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Whoever works on it has to be done by then.
    Working {
        deadline: Timestamp,
    },
    Finished(StoredAnswer),
}

/// What a call that brings a key has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The work, under this epoch; what it makes has an id already if somebody began it before.
    Begin { epoch: i64, resource: Option<[u8; 16]> },
    /// Nothing: somebody is at it.
    Wait,
    /// Nothing: this was answered.
    Replay(StoredAnswer),
}

/// Decides what a call does that brings a key, from what is known of the key.
pub fn step(
    name: &KeyName,
    record: Option<&Record>,
    fingerprint: &Hash,
    now: Timestamp,
) -> Result<Step, Rejection> {
    let Some(record) = record else {
        return if name.scope.is_issued() {
            let detail = "ask for one with POST /v1/idempotency-keys; nothing was done";
            Err(Advice::NewKey.on(Rejection::new(Code::IdempotencyKeyNotFound, detail)))
        } else {
            Ok(Step::Begin { epoch: 1, resource: None })
        };
    };
    let epoch = record.epoch + 1;
    let claimed = match &record.state {
        KeyState::Unclaimed if now >= record.expires_at => {
            let detail = format!("it could be used until {}; nothing was done", record.expires_at);
            return Err(Advice::NewKey.on(Rejection::new(Code::IdempotencyKeyExpired, detail)));
        }
        KeyState::Unclaimed => return Ok(Step::Begin { epoch, resource: None }),
        KeyState::Claimed(claimed) => claimed,
    };
    if claimed.fingerprint != *fingerprint {
        let detail = "the first request with this key had another body; this one was not carried out";
        return Err(Advice::NewKey.on(Rejection::new(Code::IdempotencyHashMismatch, detail)));
    }
    Ok(match &claimed.progress {
        Progress::Finished(answer) => Step::Replay(answer.clone()),
        Progress::Working { deadline } if name.scope.is_taken_over() && now >= *deadline => {
            Step::Begin { epoch, resource: Some(claimed.resource) }
        }
        Progress::Working { .. } => Step::Wait,
    })
}

/// What the client may do after a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The key is as good as before, and nothing was done under it.
    EitherKey,
    /// It may have been done, or still be: only the same key finds out without doing it twice.
    SameKey,
    /// Nothing was done and nothing will be; the same key would only say so again.
    NewKey,
}

impl Advice {
    /// Says so in the problem that the client reads.
    #[must_use]
    pub fn on(self, rejection: Rejection) -> Rejection {
        let (same, new) = self.answers();
        rejection.saying("retryWithSameKey", same).saying("safeNewKey", new)
    }

    pub const fn answers(self) -> (bool, bool) {
        match self {
            Self::EitherKey => (true, true),
            Self::SameKey => (true, false),
            Self::NewKey => (false, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Claimed, KeyName, KeyState, Progress, Record, Scope, Step, StoredAnswer, step};
    use crate::hash::Hash;
    use crate::id::{IdempotencyKey, UserId};
    use crate::time::Timestamp;

    const BODY: Hash = Hash::from_bytes([1; 32]);
    const OTHER: Hash = Hash::from_bytes([2; 32]);
    const RESOURCE: [u8; 16] = [7; 16];

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    /// Expires at 100; a claim's lease ends at 200.
    fn record(state: &str) -> Option<Record> {
        let answer = |status| Progress::Finished(StoredAnswer { status, body: "said".into() });
        let progress = match state {
            "unknown" => return None,
            "unclaimed" => return Some(Record { expires_at: at(100), epoch: 0, state: KeyState::Unclaimed }),
            "working" => Progress::Working { deadline: at(200) },
            "succeeded" => answer(200),
            _ => answer(422),
        };
        let claimed = Claimed { fingerprint: BODY, resource: RESOURCE, progress };
        Some(Record { expires_at: at(100), epoch: 1, state: KeyState::Claimed(claimed) })
    }

    #[test]
    fn what_a_call_with_a_key_does() {
        let begin = |epoch, resource| Ok(Step::Begin { epoch, resource });
        let replay = |status| Ok(Step::Replay(StoredAnswer { status, body: "said".into() }));
        for (scope, state, body, now, outcome) in [
            (Scope::Transfer, "unknown", BODY, 1, Err("IDEMPOTENCY_KEY_NOT_FOUND")),
            (Scope::Transfer, "unclaimed", BODY, 99, begin(1, None)),
            (Scope::Transfer, "unclaimed", BODY, 100, Err("IDEMPOTENCY_KEY_EXPIRED")),
            (Scope::Transfer, "working", BODY, 50, Ok(Step::Wait)),
            (Scope::Transfer, "working", OTHER, 50, Err("IDEMPOTENCY_HASH_MISMATCH")),
            (Scope::Transfer, "working", BODY, 150, Ok(Step::Wait)),
            (Scope::Transfer, "working", BODY, 500, Ok(Step::Wait)),
            (Scope::Transfer, "succeeded", BODY, 50, replay(200)),
            (Scope::Transfer, "succeeded", BODY, 500, replay(200)),
            (Scope::Transfer, "succeeded", OTHER, 50, Err("IDEMPOTENCY_HASH_MISMATCH")),
            (Scope::Transfer, "failed", BODY, 500, replay(422)),
            (Scope::Transfer, "failed", OTHER, 500, Err("IDEMPOTENCY_HASH_MISMATCH")),
            (Scope::Deposit, "unknown", BODY, 1, begin(1, None)),
            (Scope::Deposit, "working", BODY, 199, Ok(Step::Wait)),
            (Scope::Deposit, "working", BODY, 200, begin(2, Some(RESOURCE))),
            (Scope::Deposit, "working", OTHER, 200, Err("IDEMPOTENCY_HASH_MISMATCH")),
            (Scope::Deposit, "succeeded", BODY, 500, replay(200)),
            (Scope::Refund, "working", BODY, 200, begin(2, Some(RESOURCE))),
            (Scope::Refund, "failed", BODY, 500, replay(422)),
        ] {
            let name = KeyName {
                key: IdempotencyKey::parse("k").unwrap(),
                client: UserId::parse("u").unwrap(),
                scope,
            };
            let found = step(&name, record(state).as_ref(), &body, at(now));
            let found = found.map_err(|rejection| rejection.code.as_str());
            assert_eq!(found, outcome, "{scope:?} {state} at {now}");
        }
    }
}
