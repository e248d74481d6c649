//! Events: every change as one command, and the reads.

use crate::clock::Clock;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use crate::trace;
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::draw::{Draw, Secret};
use guerdon_core::events::lifecycle::{Move, NewEvent, decide};
use guerdon_core::events::{
    Event, EventBody, EventChange, EventDecision, EventKind, EventStatus, EventType, EventView,
};
use guerdon_core::requests::RequestId;
use guerdon_core::{Code, EventId, Rejection, Timestamp, Trace};
use guerdon_store::outbox::{self, OutboxEvent, Publishing};
use guerdon_store::{Command, Fault, Priority, Tx, audit_log, draws, events, requests};
use serde_json::Value;
use std::sync::Arc;

/// The place of an event in a list: the time that orders it, and its id.
type Place = (Timestamp, String);

/// Which events an operator lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub status: Option<EventStatus>,
    pub kind: Option<EventType>,
}

/// Pages that one which is filtered by type looks through before it comes back short.
const PAGES_MAX: usize = 10;

impl Engine {
    pub async fn create_event(&self, actor: Actor, body: EventBody) -> Result<Event, Failure> {
        let new = NewEvent::validate(body)?;
        self.change_event(actor, new.id.clone(), EventChange::Create(Box::new(new))).await
    }

    pub async fn patch_event(&self, actor: Actor, id: EventId, body: EventBody) -> Result<Event, Failure> {
        self.change_event(actor, id, EventChange::Patch(Box::new(body))).await
    }

    pub async fn move_event(&self, actor: Actor, id: EventId, step: Move) -> Result<Event, Failure> {
        self.change_event(actor, id, EventChange::Move(step)).await
    }

    async fn change_event(&self, actor: Actor, id: EventId, change: EventChange) -> Result<Event, Failure> {
        let (outbox_id, publishing) = (self.new_request_id(), self.intake().publishing);
        let secrets =
            (change == EventChange::Move(Move::Open)).then(|| (self.new_secret(), self.new_secret()));
        let clock = self.clock_handle();
        let command = ChangeEvent {
            id,
            actor,
            change,
            at: self.now(),
            clock,
            outbox_id,
            publishing,
            secrets,
            trace: trace::current(),
        };
        Ok(self.commit(command).await??)
    }

    pub async fn event(&self, id: &EventId) -> Result<Event, Failure> {
        let wanted = id.clone();
        let found = self.read(move |tx| events::find(tx, &wanted)).await?;
        found.ok_or_else(|| not_found(id).into())
    }

    /// An event as people see it: a draft does not exist for them.
    pub async fn public_event(&self, id: &EventId) -> Result<Event, Failure> {
        let event = self.event(id).await?;
        if event.was_public() { Ok(event) } else { Err(not_found(id).into()) }
    }

    /// Open events that have not ended, the first to start first.
    pub async fn open_events(&self, request: PageRequest<Place>) -> Result<Page<Event, Place>, Failure> {
        self.events_of_status(EventStatus::Open, Some(self.now()), request).await
    }

    /// All events, the newest first; those of one status in the order of their start. A page that is filtered by type may come
    /// back short.
    pub async fn events(
        &self,
        filter: EventFilter,
        mut request: PageRequest<Place>,
    ) -> Result<Page<Event, Place>, Failure> {
        let mut items = Vec::new();
        for _ in 0..PAGES_MAX {
            let page = self.events_of_any_type(filter, request.clone()).await?;
            let fits =
                |event: &Event| filter.kind.is_none_or(|kind| event.settings.kind.event_type() == kind);
            items.extend(page.items.into_iter().filter(fits));
            request.after = page.next;
            if request.after.is_none() || filter.kind.is_none() || !items.is_empty() {
                break;
            }
        }
        Ok(Page { items, next: request.after })
    }

    async fn events_of_any_type(
        &self,
        filter: EventFilter,
        request: PageRequest<Place>,
    ) -> Result<Page<Event, Place>, Failure> {
        if let Some(status) = filter.status {
            return self.events_of_status(status, None, request).await;
        }
        let (rows, before) = (request.rows(), request.after.clone());
        let found = self.read(move |tx| events::list_newest(tx, before.as_ref(), rows)).await?;
        Ok(request.page(found, |event| (event.created_at, event.id.to_string())))
    }

    async fn events_of_status(
        &self,
        status: EventStatus,
        ending_after: Option<Timestamp>,
        request: PageRequest<Place>,
    ) -> Result<Page<Event, Place>, Failure> {
        let (rows, after) = (request.rows(), request.after.clone());
        let found = self
            .read(move |tx| events::list_by_status(tx, status, ending_after, after.as_ref(), rows))
            .await?;
        Ok(request.page(found, |event| (event.settings.starts_at, event.id.to_string())))
    }
}

fn not_found(id: &EventId) -> Rejection {
    Rejection::new(Code::EventNotFound, format!("there is no event {id}"))
}

struct ChangeEvent {
    id: EventId,
    actor: Actor,
    change: EventChange,
    at: Timestamp,
    clock: Arc<Clock>,
    outbox_id: RequestId,
    publishing: Publishing,
    /// The seed and the salts' key of a draw, should this open one.
    secrets: Option<(Secret, Secret)>,
    trace: Option<Trace>,
}

impl Command for ChangeEvent {
    type Output = Result<Event, Rejection>;
    const NAME: &'static str = "change_event";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        // Rows are locked in the order of their ids, whatever the order of arrival: two processes never wait for
        // each other in a circle. Changes to one event keep the order in which they came.
        let mut order: Vec<_> = (0..batch.len()).collect();
        order.sort_by_key(|index| &batch[*index].id);
        let mut outcomes: Vec<Option<Self::Output>> = batch.iter().map(|_| None).collect();
        let mut lines = Vec::with_capacity(batch.len());
        for index in order {
            let command = &batch[index];
            // Whoever is being let in comes before this change or after it, never beside it.
            requests::lock_line(tx, &command.id)?;
            let present = events::lock(tx, &command.id)?;
            // Read again now that the event is held: new odds come into force after every play that could not know them.
            let now = command.at.max(command.clock.now());
            outcomes[index] = Some(match decide(present.as_ref(), &command.change, now) {
                Err(rejection) => Err(rejection),
                Ok(decision) => {
                    let line = command.line(present.as_ref(), &decision)?;
                    if write(tx, present.is_none(), &decision)? {
                        command.cause(tx, &decision)?;
                        lines.push(line);
                        Ok(decision.event)
                    } else {
                        // Another process was faster between our look and our insert.
                        let detail = format!("the event {} exists already", command.id);
                        Err(Rejection::new(Code::EventExists, detail))
                    }
                }
            });
        }
        audit_log::append(tx, &lines)?;
        outcomes.into_iter().map(|outcome| outcome.ok_or(Fault::Panicked)).collect()
    }
}

/// False when the event was to be new and is not.
fn write(tx: &mut Tx<'_>, new: bool, decision: &EventDecision) -> Result<bool, Fault> {
    if new {
        return events::insert(tx, &decision.event);
    }
    if events::update(tx, &decision.event, decision.rewards_changed)? {
        return Ok(true);
    }
    Err(Fault::Inconsistent(format!("the event {} changed while it was locked", decision.event.id)))
}

impl ChangeEvent {
    /// What follows from a change: a line to stand in once the event opens, a lottery's draw, and the news for others.
    fn cause(&self, tx: &mut Tx<'_>, decision: &EventDecision) -> Result<(), Fault> {
        let event = &decision.event;
        if decision.action == Action::EventOpened
            && let Some(capacity_total) = event.settings.kind.capacity_total()
        {
            requests::open_line(tx, &event.id, capacity_total)?;
        }
        if let EventKind::Lottery { lottery_cutoff_at, public_nonce_source, .. } = &event.settings.kind {
            match (decision.action, &self.secrets) {
                (Action::EventOpened, Some((seed, salt_key))) => {
                    let draw = Draw::open(event, seed.clone(), salt_key.clone())
                        .ok_or_else(|| Fault::Inconsistent(format!("{} has no draw", event.id)))?;
                    draws::open(tx, &draw, *lottery_cutoff_at, public_nonce_source.is_some())?;
                }
                (Action::EventCancelled, _) => draws::end_void(tx, &event.id)?,
                _ => {}
            }
        }
        tx.follow(&decision.event.id, self.trace);
        tell(tx, decision, self.at, self.outbox_id, self.publishing)
    }

    fn line(&self, before: Option<&Event>, decision: &EventDecision) -> Result<AuditEntry, Fault> {
        audit_line(self.actor.clone(), self.at, before, decision)
    }
}

/// Moves an event that is locked and that nobody asked to move, in the moment of the transaction; the last thing in it.
pub(crate) fn move_by_itself(
    tx: &mut Tx<'_>,
    event: &Event,
    step: Move,
    outbox_id: RequestId,
    publishing: Publishing,
) -> Result<(), Fault> {
    let now = tx.now();
    let refused = |rejection: Rejection| Fault::Inconsistent(format!("{}: {}", event.id, rejection.detail));
    let decision = decide(Some(event), &EventChange::Move(step), now).map_err(refused)?;
    write(tx, false, &decision)?;
    tell(tx, &decision, now, outbox_id, publishing)?;
    audit_log::append(tx, &[audit_line(Actor::itself(), now, Some(event), &decision)?])
}

/// The news of an event's status, for others.
fn tell(
    tx: &mut Tx<'_>,
    decision: &EventDecision,
    at: Timestamp,
    outbox_id: RequestId,
    publishing: Publishing,
) -> Result<(), Fault> {
    use Action::{EventAnnounced, EventCancelled, EventClosed, EventOpened};
    if !matches!(decision.action, EventOpened | EventClosed | EventCancelled | EventAnnounced) {
        return Ok(());
    }
    let event = &decision.event;
    let event_type = decision.action.as_str();
    let batch = outbox::Batch { aggregate_type: "EVENT", event_type, created_at: at, publishing };
    let payload = serde_json::to_string(&EventView::of(event, at))
        .map_err(|error| Fault::Inconsistent(error.to_string()))?;
    let news = OutboxEvent {
        id: *outbox_id.as_bytes(),
        sequence: event.version,
        aggregate_id: event.id.to_string(),
        payload,
    };
    outbox::append(tx, batch, &[news])
}

fn audit_line(
    actor: Actor,
    at: Timestamp,
    before: Option<&Event>,
    decision: &EventDecision,
) -> Result<AuditEntry, Fault> {
    let snapshot = |event: &Event| -> Result<Value, Fault> {
        serde_json::to_value(EventView::of(event, at)).map_err(|error| Fault::Inconsistent(error.to_string()))
    };
    Ok(AuditEntry {
        at,
        actor,
        action: decision.action,
        target_id: decision.event.id.to_string(),
        before: before.map(snapshot).transpose()?,
        after: Some(snapshot(&decision.event)?),
    })
}
