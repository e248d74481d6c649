//! The states of an event and the moves between them, and the one function that decides every change.

use super::body::EventBody;
use super::settings::{EventKind, EventSettings};
use super::{Event, EventState, EventStatus, StateTimes, patch, validate};
use crate::audit::Action;
use crate::code::Code;
use crate::fields::FieldError;
use crate::id::EventId;
use crate::rejection::Rejection;
use crate::time::Timestamp;

/// What can be done to an event's status: by an operator, and by a lottery's draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Open,
    Close,
    Cancel,
    /// The end of a lottery's draw.
    Announce,
}

impl Move {
    pub const ALL: [Move; 4] = [Self::Open, Self::Close, Self::Cancel, Self::Announce];

    const fn verb(self) -> &'static str {
        match self {
            Self::Open => "opened",
            Self::Close => "closed",
            Self::Cancel => "cancelled",
            Self::Announce => "announced",
        }
    }
}

/// Every legal move; any other is refused.
pub const MOVES: &[(EventStatus, Move, EventStatus)] = &[
    (EventStatus::Draft, Move::Open, EventStatus::Open),
    (EventStatus::Draft, Move::Cancel, EventStatus::Cancelled),
    (EventStatus::Open, Move::Close, EventStatus::Closed),
    (EventStatus::Open, Move::Cancel, EventStatus::Cancelled),
    (EventStatus::Closed, Move::Cancel, EventStatus::Cancelled),
    (EventStatus::Closed, Move::Announce, EventStatus::Announced),
];

/// A change to one event, as it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum EventChange {
    Create(Box<NewEvent>),
    Patch(Box<EventBody>),
    Move(Move),
}

/// An event that has been validated and is yet to be stored.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    pub id: EventId,
    pub settings: EventSettings,
}

impl NewEvent {
    pub fn validate(body: EventBody) -> Result<Self, Rejection> {
        let (id, settings) = validate::draft(body)?;
        Ok(Self { id, settings })
    }
}

/// What is to be written: the event as it will be, and what the audit log calls it.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDecision {
    pub event: Event,
    pub action: Action,
    /// Whether the list of rewards has to be written again.
    pub rewards_changed: bool,
}

/// Decides a change against the event as it is now. Nothing else changes an event.
pub fn decide(
    present: Option<&Event>,
    change: &EventChange,
    now: Timestamp,
) -> Result<EventDecision, Rejection> {
    match (present, change) {
        (None, EventChange::Create(new)) => Ok(create(new, now)),
        (Some(event), EventChange::Create(_)) => {
            Err(Rejection::new(Code::EventExists, format!("the event {} exists already", event.id)))
        }
        (None, _) => Err(Rejection::new(Code::EventNotFound, "there is no event with this id")),
        (Some(event), EventChange::Patch(body)) => patched(event, body, now),
        (Some(event), EventChange::Move(step)) => moved(event, *step, now),
    }
}

fn create(new: &NewEvent, now: Timestamp) -> EventDecision {
    let event = Event {
        id: new.id.clone(),
        state: EventState::Draft,
        remaining_stock: full_stock(&new.settings),
        settings: new.settings.clone(),
        capacity_remaining: None,
        version: 1,
        created_at: now,
        updated_at: now,
    };
    EventDecision { event, action: Action::EventCreated, rewards_changed: true }
}

fn full_stock(settings: &EventSettings) -> Vec<Option<i64>> {
    settings.rewards.iter().map(|reward| reward.total_stock).collect()
}

fn patched(event: &Event, body: &EventBody, now: Timestamp) -> Result<EventDecision, Rejection> {
    let settings = match event.status() {
        EventStatus::Draft => patch::draft(&event.settings, body.clone())?,
        EventStatus::Open => patch::open(&event.settings, body.clone(), now)?,
        status => {
            let detail =
                format!("the event is {}; only a DRAFT or an OPEN event can be changed", status.as_str());
            return Err(Rejection::new(Code::EventTransitionRefused, detail));
        }
    };
    let rewards_changed = settings.rewards != event.settings.rewards;
    let remaining_stock = if rewards_changed { full_stock(&settings) } else { event.remaining_stock.clone() };
    let event = Event { settings, remaining_stock, ..next(event, now) };
    Ok(EventDecision { event, action: Action::EventPatched, rewards_changed })
}

/// The same event, one version later.
fn next(event: &Event, now: Timestamp) -> Event {
    Event { version: event.version + 1, updated_at: now, ..event.clone() }
}

fn moved(event: &Event, step: Move, now: Timestamp) -> Result<EventDecision, Rejection> {
    let from = event.status();
    if !MOVES.iter().any(|(status, legal, _)| *status == from && *legal == step) {
        let detail = format!("the event is {} and cannot be {}", from.as_str(), step.verb());
        return Err(Rejection::new(Code::EventTransitionRefused, detail));
    }
    let mut capacity_remaining = event.capacity_remaining;
    let (state, action) = match (event.state, step) {
        (_, Move::Open) => {
            check_ready(event, now)?;
            capacity_remaining = event.settings.kind.capacity_total();
            (EventState::Open { opened_at: now }, Action::EventOpened)
        }
        (EventState::Open { opened_at }, Move::Close) => {
            (EventState::Closed { opened_at, closed_at: now }, Action::EventClosed)
        }
        (EventState::Closed { opened_at, closed_at }, Move::Announce) => {
            (EventState::Announced { opened_at, closed_at, announced_at: now }, Action::EventAnnounced)
        }
        _ => {
            let StateTimes { opened_at, closed_at, .. } = event.state.times();
            (EventState::Cancelled { opened_at, closed_at, cancelled_at: now }, Action::EventCancelled)
        }
    };
    let event = Event { state, capacity_remaining, ..next(event, now) };
    Ok(EventDecision { event, action, rewards_changed: false })
}

/// What must hold before people can take part.
fn check_ready(event: &Event, now: Timestamp) -> Result<(), Rejection> {
    let settings = &event.settings;
    let mut problems = Vec::new();
    let mut refuse = |path: String, reason: String| problems.push(FieldError { path, reason });
    if settings.ends_at <= now {
        refuse("endsAt".into(), "has passed".into());
    }
    if let EventKind::Lottery { lottery_cutoff_at, .. } = settings.kind
        && lottery_cutoff_at <= now
    {
        refuse("lotteryCutoffAt".into(), "has passed".into());
    }
    if let Some(capacity) = settings.kind.capacity_total() {
        for (index, reward) in settings.rewards.iter().enumerate() {
            let needed = capacity.saturating_mul(reward.quantity);
            if reward.total_stock.is_some_and(|stock| stock < needed) {
                let reason = format!("must be at least capacityTotal × quantity = {needed}");
                refuse(format!("rewards[{index}].totalStock"), reason);
            }
        }
    }
    match problems.first() {
        None => Ok(()),
        Some(first) => {
            let detail = format!("the event cannot be opened: {} {}", first.path, first.reason);
            Err(Rejection::with_fields(Code::EventNotReady, detail, problems))
        }
    }
}

#[cfg(test)]
mod tests;
