//! Requests: applying to a first-come or lottery event, and the line that people stand in.

pub mod line;
pub mod view;

pub use line::{EVENT_KEY_MAX, LINE_BITS, Line, LineKey};
pub use view::RequestView;

use crate::code::Code;
use crate::events::{Event, EventKind, EventType, check_open};
use crate::id::{EventId, UserId, uuid_id};
use crate::named::named;
use crate::rejection::Rejection;
use crate::time::Timestamp;
use uuid::Uuid;

uuid_id! {
    /// A request's id: time-ordered, so that indexes append. Where a UUID of version 7 has random bits, it has the place in
    /// line, which is as unique; so a request is found by its id without an index.
    RequestId
}

impl RequestId {
    /// The id of whoever takes this place at this time.
    pub fn at(key: LineKey, now: Timestamp) -> Self {
        let mut bytes = [0; 16];
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        bytes[6] = 0x70;
        bytes[8..].copy_from_slice(&(key.raw() & PLACE | i64::MIN).to_be_bytes());
        Self::from_bytes(bytes)
    }

    /// The place that the id was made for, if it was made for one. Whether anybody stands there the table tells.
    pub fn place(&self) -> Option<LineKey> {
        let bytes = self.0.as_bytes();
        let (head, place) = bytes.split_last_chunk::<8>()?;
        (head[6] == 0x70 && head[7] == 0).then(|| LineKey::from_raw(i64::from_be_bytes(*place) & PLACE))
    }

    /// The id of something that a request causes exactly once: the same again when the request is decided again, and
    /// as well ordered as the request's own.
    #[must_use]
    pub fn derived(&self, purpose: u16) -> Self {
        let mut bytes = *self.0.as_bytes();
        let [high, low] = purpose.wrapping_add(1).to_be_bytes();
        bytes[6] ^= high & 0x0f;
        bytes[7] ^= low;
        Self(Uuid::from_bytes(bytes))
    }
}

/// The bits of an id that hold a place.
const PLACE: i64 = (1 << 62) - 1;

named! {
    RequestStatus {
        Received "RECEIVED",
        Queued "QUEUED",
        Processing "PROCESSING",
        Succeeded "SUCCEEDED",
        Rejected "REJECTED",
        FailedFinal "FAILED_FINAL",
    }
}

named! {
    /// What a front end shows.
    UiResult {
        Pending "PENDING",
        Success "SUCCESS",
        Rejected "REJECTED",
        Failed "FAILED",
    }
}

named! {
    /// How a request ended.
    ResultCode {
        Success "SUCCESS",
        RejectedCapacity "REJECTED_CAPACITY",
        RejectedDuplicate "REJECTED_DUPLICATE",
        RejectedLotteryLose "REJECTED_LOTTERY_LOSE",
        RejectedEventCancelled "REJECTED_EVENT_CANCELLED",
        FailedIngestEnqueue "FAILED_INGEST_ENQUEUE",
        FailedWorker "FAILED_WORKER",
        FailedValidation "FAILED_VALIDATION",
        FailedSerde "FAILED_SERDE",
    }
}

named! {
    FailureClass {
        Retryable "RETRYABLE",
        NonRetryable "NON_RETRYABLE",
    }
}

/// Every legal move of a request. Where several fall into one transaction they are passed through inside it.
pub const MOVES: &[(RequestStatus, RequestStatus)] = &[
    (RequestStatus::Received, RequestStatus::Queued),
    (RequestStatus::Queued, RequestStatus::Processing),
    (RequestStatus::Processing, RequestStatus::Succeeded),
    (RequestStatus::Processing, RequestStatus::Rejected),
    (RequestStatus::Processing, RequestStatus::FailedFinal),
];

impl ResultCode {
    pub const fn status(self) -> RequestStatus {
        match self {
            Self::Success => RequestStatus::Succeeded,
            Self::RejectedCapacity
            | Self::RejectedDuplicate
            | Self::RejectedLotteryLose
            | Self::RejectedEventCancelled => RequestStatus::Rejected,
            Self::FailedIngestEnqueue | Self::FailedWorker | Self::FailedValidation | Self::FailedSerde => {
                RequestStatus::FailedFinal
            }
        }
    }

    /// How it is stored: 0 is in line.
    pub const fn number(self) -> i64 {
        match self {
            Self::Success => 1,
            Self::RejectedCapacity => 2,
            Self::RejectedDuplicate => 3,
            Self::RejectedLotteryLose => 4,
            Self::RejectedEventCancelled => 5,
            Self::FailedIngestEnqueue => 6,
            Self::FailedWorker => 7,
            Self::FailedValidation => 8,
            Self::FailedSerde => 9,
        }
    }

    pub fn from_number(number: i64) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.number() == number)
    }
}

/// Where a request stands, with the fields that exist there and no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestState {
    Queued,
    Finished { result: ResultCode, started_at: Timestamp, finished_at: Timestamp },
}

impl RequestState {
    pub const fn status(&self) -> RequestStatus {
        match self {
            Self::Queued => RequestStatus::Queued,
            Self::Finished { result, .. } => result.status(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub id: RequestId,
    pub event_id: EventId,
    pub user_id: UserId,
    pub event_type: EventType,
    /// The place in the event's line, from 1 without gaps.
    pub position: i64,
    pub requested_at: Timestamp,
    /// When it was durably in line.
    pub queued_at: Timestamp,
    pub state: RequestState,
}

/// Whether an event takes applications now.
pub fn admit(event: &Event, now: Timestamp) -> Result<(), Rejection> {
    let cutoff = match event.settings.kind {
        EventKind::FirstCome { .. } => None,
        EventKind::Lottery { lottery_cutoff_at, .. } => Some(lottery_cutoff_at),
        EventKind::Claim { .. } | EventKind::Attendance { .. } | EventKind::Random { .. } => {
            let kind = event.settings.kind.event_type().as_str();
            let detail =
                format!("the event is of type {kind}; only FIRST_COME and LOTTERY events take requests");
            return Err(Rejection::new(Code::EventWrongType, detail));
        }
    };
    check_open(event, now)?;
    match cutoff {
        Some(cutoff) if now >= cutoff => {
            Err(Rejection::new(Code::EventNotOpen, "the lottery's entries have closed"))
        }
        _ => Ok(()),
    }
}

/// What becomes of people who join a line where this many places are left: the first ones in, in their order.
pub fn decide(event_type: EventType, capacity_remaining: i64, joining: usize) -> Vec<Option<ResultCode>> {
    let places = usize::try_from(capacity_remaining).unwrap_or(0);
    (0..joining)
        .map(|index| match event_type {
            EventType::FirstCome if index < places => Some(ResultCode::Success),
            EventType::FirstCome => Some(ResultCode::RejectedCapacity),
            // A lottery decides when it is drawn.
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests;
