//! Events: what an operator sets up, the states it goes through, and what may change when.

pub mod body;
pub mod condition;
pub mod lifecycle;
pub mod settings;
pub mod view;

mod patch;
mod validate;

pub use body::EventBody;
pub use condition::Condition;
pub use lifecycle::{EventChange, EventDecision};
pub use settings::{EventKind, EventSettings, Reward, RewardKind};
pub use view::EventView;

use crate::code::Code;
use crate::id::EventId;
use crate::rejection::Rejection;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventType {
    FirstCome,
    Lottery,
    Claim,
    Attendance,
    Random,
}

impl EventType {
    pub const ALL: [EventType; 5] =
        [Self::FirstCome, Self::Lottery, Self::Claim, Self::Attendance, Self::Random];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstCome => "FIRST_COME",
            Self::Lottery => "LOTTERY",
            Self::Claim => "CLAIM",
            Self::Attendance => "ATTENDANCE",
            Self::Random => "RANDOM",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventStatus {
    Draft,
    Open,
    Closed,
    Announced,
    Cancelled,
}

impl EventStatus {
    pub const ALL: [EventStatus; 5] =
        [Self::Draft, Self::Open, Self::Closed, Self::Announced, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "DRAFT",
            Self::Open => "OPEN",
            Self::Closed => "CLOSED",
            Self::Announced => "ANNOUNCED",
            Self::Cancelled => "CANCELLED",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// Where an event is in its life, with the times that exist in that state and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventState {
    Draft,
    Open { opened_at: Timestamp },
    Closed { opened_at: Timestamp, closed_at: Timestamp },
    Announced { opened_at: Timestamp, closed_at: Timestamp, announced_at: Timestamp },
    Cancelled { opened_at: Option<Timestamp>, closed_at: Option<Timestamp>, cancelled_at: Timestamp },
}

impl EventState {
    pub const fn status(self) -> EventStatus {
        match self {
            Self::Draft => EventStatus::Draft,
            Self::Open { .. } => EventStatus::Open,
            Self::Closed { .. } => EventStatus::Closed,
            Self::Announced { .. } => EventStatus::Announced,
            Self::Cancelled { .. } => EventStatus::Cancelled,
        }
    }

    pub const fn times(self) -> StateTimes {
        let none = StateTimes { opened_at: None, closed_at: None, announced_at: None, cancelled_at: None };
        match self {
            Self::Draft => none,
            Self::Open { opened_at } => StateTimes { opened_at: Some(opened_at), ..none },
            Self::Closed { opened_at, closed_at } => {
                StateTimes { opened_at: Some(opened_at), closed_at: Some(closed_at), ..none }
            }
            Self::Announced { opened_at, closed_at, announced_at } => StateTimes {
                opened_at: Some(opened_at),
                closed_at: Some(closed_at),
                announced_at: Some(announced_at),
                ..none
            },
            Self::Cancelled { opened_at, closed_at, cancelled_at } => {
                StateTimes { opened_at, closed_at, cancelled_at: Some(cancelled_at), ..none }
            }
        }
    }

    /// Puts a state together again from what was stored; `None` when the times do not fit the status.
    pub const fn from_parts(status: EventStatus, times: StateTimes) -> Option<Self> {
        let StateTimes { opened_at, closed_at, announced_at, cancelled_at } = times;
        Some(match (status, opened_at, closed_at, announced_at, cancelled_at) {
            (EventStatus::Draft, None, None, None, None) => Self::Draft,
            (EventStatus::Open, Some(opened_at), None, None, None) => Self::Open { opened_at },
            (EventStatus::Closed, Some(opened_at), Some(closed_at), None, None) => {
                Self::Closed { opened_at, closed_at }
            }
            (EventStatus::Announced, Some(opened_at), Some(closed_at), Some(announced_at), None) => {
                Self::Announced { opened_at, closed_at, announced_at }
            }
            (EventStatus::Cancelled, opened_at, closed_at, None, Some(cancelled_at)) => {
                Self::Cancelled { opened_at, closed_at, cancelled_at }
            }
            _ => return None,
        })
    }
}

/// The times of an event's states, as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTimes {
    pub opened_at: Option<Timestamp>,
    pub closed_at: Option<Timestamp>,
    pub announced_at: Option<Timestamp>,
    pub cancelled_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub id: EventId,
    pub state: EventState,
    pub settings: EventSettings,
    /// What is left of each limited reward, in the order of `settings.rewards`.
    pub remaining_stock: Vec<Option<i64>>,
    /// What is left of the places, once the event has been opened.
    pub capacity_remaining: Option<i64>,
    /// Goes up by one with every change; updates are guarded by it.
    pub version: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl Event {
    pub const fn status(&self) -> EventStatus {
        self.state.status()
    }

    /// Whether people have ever seen it: neither a draft nor one that was cancelled as a draft.
    pub const fn was_public(&self) -> bool {
        self.state.times().opened_at.is_some()
    }
}

/// Whether people can take part now, whatever the event's type.
pub fn check_open(event: &Event, now: Timestamp) -> Result<(), Rejection> {
    let closed = |detail: String| Err(Rejection::new(Code::EventNotOpen, detail));
    if event.status() != EventStatus::Open {
        return closed(format!("the event is {}", event.status().as_str()));
    }
    if now < event.settings.starts_at {
        return closed(format!("the event starts at {}", event.settings.starts_at));
    }
    if now >= event.settings.ends_at {
        return closed("the event has ended".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{EventState, EventStatus};
    use crate::time::Timestamp;

    #[test]
    fn states_survive_storage_and_nonsense_is_refused() {
        let at = Timestamp::from_millis;
        let states = [
            EventState::Draft,
            EventState::Open { opened_at: at(1) },
            EventState::Closed { opened_at: at(1), closed_at: at(2) },
            EventState::Announced { opened_at: at(1), closed_at: at(2), announced_at: at(3) },
            EventState::Cancelled { opened_at: None, closed_at: None, cancelled_at: at(4) },
            EventState::Cancelled { opened_at: Some(at(1)), closed_at: Some(at(2)), cancelled_at: at(4) },
        ];
        for state in states {
            assert_eq!(EventState::from_parts(state.status(), state.times()), Some(state));
        }
        let open = EventState::Open { opened_at: at(1) }.times();
        for status in
            [EventStatus::Draft, EventStatus::Closed, EventStatus::Announced, EventStatus::Cancelled]
        {
            assert_eq!(EventState::from_parts(status, open), None, "{status:?}");
        }
    }
}
