//! Allocations: rewards that somebody has won, on their way through a provider.
//!
//! Delivery is a row that moves through a few states, each by a conditional update under an epoch, so that whoever was
//! given up for dead finds its epoch gone. What a provider's answer means, and where the row goes with it, is decided
//! here.

pub mod answer;
pub mod breaker;
pub mod key;
pub mod view;

pub use answer::{Answer, Outcome, Sent, judge};
pub use breaker::Breaker;

use crate::id::{EventId, RewardId, UserId, uuid_id};
use crate::named::named;
use crate::requests::RequestId;
use crate::time::Timestamp;
use crate::trace::Trace;
use crate::wallet::TransferId;

/// The longest that is kept of what went wrong, in characters.
const MESSAGE_MAX: usize = 500;
/// The longest time between two tries, unless the first one is longer.
const BACKOFF_MAX_MS: i64 = 3_600_000;

uuid_id! {
    /// An allocation's id: derived from what it was won by, and as well ordered.
    AllocationId
}

impl AllocationId {
    /// The one transfer that can pay it out: the store keeps a second one from being made.
    pub fn transfer_id(&self) -> TransferId {
        TransferId::from_bytes(twisted(*self.0.as_bytes()))
    }

    /// The allocation that a transfer pays out, if it is one that does.
    pub fn of_transfer(id: TransferId) -> Self {
        Self::from_bytes(twisted(*id.as_bytes()))
    }
}

fn twisted(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[6] ^= 0x08;
    bytes
}

named! {
    AllocationStatus {
        Pending "PENDING",
        Processing "PROCESSING",
        Success "SUCCESS",
        Failed "FAILED",
        Cancelled "CANCELLED",
    }
}

use AllocationStatus::{Cancelled, Failed, Pending, Processing, Success};

/// Every way from one status to another. The wallet pays in one transaction, so that nobody sees it `PROCESSING`.
pub const MOVES: &[(AllocationStatus, AllocationStatus)] = &[
    (Pending, Processing),
    (Failed, Processing),
    // Taken over after its lease.
    (Processing, Processing),
    (Processing, Success),
    (Processing, Failed),
    (Processing, Cancelled),
    (Pending, Success),
    (Failed, Success),
    (Pending, Failed),
    (Failed, Failed),
    (Pending, Cancelled),
    (Failed, Cancelled),
];

/// What it was won by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Request(RequestId),
    Entry(RequestId),
}

/// What went wrong last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub code: String,
    pub message: String,
}

impl Trouble {
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.into(), message: message.chars().take(MESSAGE_MAX).collect() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    pub id: AllocationId,
    pub event_id: EventId,
    pub member_id: UserId,
    pub cause: Cause,
    pub reward_id: RewardId,
    pub provider: String,
    pub key: String,
    pub status: AllocationStatus,
    /// Tries that failed.
    pub retry_count: i64,
    /// When it is tried again: of one that is being delivered, when its lease ends. None means that it is at its end.
    pub next_retry_at: Option<Timestamp>,
    pub trouble: Option<Trouble>,
    pub transaction_id: Option<String>,
    pub processed_at: Option<Timestamp>,
    /// Counts who took it up.
    pub epoch: i64,
    /// Whether a try may have been applied that nobody heard of.
    pub outcome_unknown: bool,
    pub cancel_requested_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// Where it belongs in a trace.
    pub trace: Option<Trace>,
}

impl Allocation {
    /// Whether nothing will be tried any more, unless an operator wants it.
    pub fn is_final(&self) -> bool {
        self.next_retry_at.is_none()
    }
}

/// How often and how patiently deliveries are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub retry_delay_ms: i64,
    pub max_attempts: i64,
}

impl Rules {
    /// How long to wait after the nth failure: the delay, doubled each time up to an hour, and up to a quarter more by
    /// chance, which spreads many apart. The chance is a number below 1024.
    pub fn backoff_ms(&self, failures: i64, chance: u64) -> i64 {
        let doublings = u32::try_from(failures.clamp(1, 32) - 1).unwrap_or(0);
        let most = self.retry_delay_ms.max(BACKOFF_MAX_MS);
        let whole = self.retry_delay_ms.saturating_mul(1 << doublings).min(most);
        whole + whole / 4 * i64::try_from(chance & 1023).unwrap_or(0) / 1024
    }
}

/// Where a delivery that was tried goes.
///
/// A row in doubt stays so until it was applied or revoked: that the provider knows nothing of the key (`cleared`) lets a
/// refusal be final, but a call may still be on its way, so to cancel it takes a revocation all the same.
pub fn settle(
    mut row: Allocation,
    (outcome, cleared): (&Outcome, bool),
    now: Timestamp,
    rules: &Rules,
    chance: u64,
) -> Allocation {
    let cancelling = row.cancel_requested_at.is_some();
    match outcome {
        Outcome::Applied { transaction_id } => {
            row.status = Success;
            row.transaction_id.clone_from(transaction_id);
            row.processed_at = Some(now);
            row.next_retry_at = None;
            row.outcome_unknown = false;
            row.trouble = cancelling.then(|| {
                Trouble::new("CANCEL_TOO_LATE", "it was applied before the cancellation could take effect")
            });
        }
        Outcome::Revoked => cancel(&mut row, now),
        Outcome::Unknown { reason } => {
            row.outcome_unknown = true;
            fail(&mut row, "OUTCOME_UNKNOWN", reason);
            again(&mut row, now, rules, None, chance);
        }
        Outcome::NotApplied { reason, retry_after_ms } => {
            fail(&mut row, "NOT_APPLIED", reason);
            if cancelling && !row.outcome_unknown {
                cancel(&mut row, now);
            } else if row.retry_count >= rules.max_attempts && !row.outcome_unknown {
                row.next_retry_at = None;
            } else {
                again(&mut row, now, rules, *retry_after_ms, chance);
            }
        }
        Outcome::Misconfigured { reason } => {
            // Nobody's fault but ours: it uses up no try.
            row.status = Failed;
            row.trouble = Some(Trouble::new("PROVIDER_MISCONFIGURED", reason));
            if cancelling && !row.outcome_unknown {
                cancel(&mut row, now);
            } else {
                again(&mut row, now, rules, None, chance);
            }
        }
        Outcome::Refused { reason } => {
            fail(&mut row, "REFUSED", reason);
            if cancelling && !row.outcome_unknown {
                cancel(&mut row, now);
            } else if row.outcome_unknown && (cancelling || !cleared) {
                again(&mut row, now, rules, None, chance);
            } else {
                row.next_retry_at = None;
            }
        }
    }
    row
}

fn fail(row: &mut Allocation, code: &str, reason: &str) {
    row.status = Failed;
    row.retry_count += 1;
    row.trouble = Some(Trouble::new(code, reason));
}

fn again(row: &mut Allocation, now: Timestamp, rules: &Rules, retry_after_ms: Option<i64>, chance: u64) {
    let backoff = rules.backoff_ms(row.retry_count, chance);
    // Whoever is to be cancelled is asked about soon.
    let backoff = if row.cancel_requested_at.is_some() { backoff.min(rules.retry_delay_ms) } else { backoff };
    let asked = retry_after_ms.unwrap_or(0).min(answer::PAUSE_MAX_MS);
    row.next_retry_at = Some(now.plus_millis(asked.max(backoff)));
}

fn cancel(row: &mut Allocation, now: Timestamp) {
    row.status = Cancelled;
    row.next_retry_at = None;
    row.outcome_unknown = false;
    row.processed_at = Some(now);
}

/// An answer that came when somebody else had gone on with the row: what it says about the effect counts, whoever heard it.
pub fn settle_late(mut row: Allocation, outcome: &Outcome, now: Timestamp) -> Option<Allocation> {
    let Outcome::Applied { transaction_id } = outcome else { return None };
    match row.status {
        // Whoever has it will hear the same, and what is delivered is delivered.
        Processing | Success => None,
        Cancelled => {
            row.transaction_id.clone_from(transaction_id);
            let message = "the provider applied it after it was cancelled";
            row.trouble = Some(Trouble::new("APPLIED_AFTER_CANCEL", message));
            Some(row)
        }
        Pending | Failed => {
            let rules = Rules { retry_delay_ms: 0, max_attempts: 0 };
            Some(settle(row, (outcome, false), now, &rules, 0))
        }
    }
}

/// What an operator's wish came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wished {
    /// It is as was wished now.
    Done(Allocation),
    /// It will be, once it is known what became of the call under way.
    Noted(Allocation),
    /// It was so before.
    Already,
    /// It cannot be: it stands where it stands.
    Refused,
}

/// An operator wants it not to be delivered.
pub fn wish_cancelled(mut row: Allocation, now: Timestamp) -> Wished {
    match row.status {
        Success => Wished::Refused,
        Cancelled => Wished::Already,
        Pending | Failed if !row.outcome_unknown => {
            cancel(&mut row, now);
            Wished::Done(row)
        }
        _ if row.cancel_requested_at.is_some() => Wished::Already,
        Pending | Failed => {
            row.cancel_requested_at = Some(now);
            row.next_retry_at = Some(now);
            Wished::Noted(row)
        }
        Processing => {
            row.cancel_requested_at = Some(now);
            Wished::Noted(row)
        }
    }
}

/// An operator wants it tried now, and as often as a new one from then on.
pub fn wish_retried(mut row: Allocation, now: Timestamp) -> Wished {
    match row.status {
        Success | Cancelled => Wished::Refused,
        Processing => Wished::Already,
        Pending | Failed => {
            row.retry_count = 0;
            row.next_retry_at = Some(now);
            Wished::Done(row)
        }
    }
}

#[cfg(test)]
mod tests;
