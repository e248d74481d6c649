//! Acceptance: lock the line, see who is new, number them, decide, and write all of it in one transaction.
//!
//! The line's lock is exclusive, on PostgreSQL across processes: whoever holds it numbers the people that it lets in,
//! so positions have no gaps, nobody is accepted beside a closing, and a place in line is decided when it is taken.

use super::{Applied, Intake, news};
use guerdon_core::events::{Event, Reward};
use guerdon_core::requests::{Line, LineKey, Request, RequestId, RequestState, ResultCode, admit, decide};
use guerdon_core::{Code, EventId, Rejection, Timestamp, UserId};
use guerdon_store::allocations::{self, NewAllocation};
use guerdon_store::requests::{self, RequestRow};
use guerdon_store::{Command, Fault, Priority, Tx, events};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Submit {
    pub(super) event_id: EventId,
    pub(super) user_id: UserId,
    pub(super) requested_at: Timestamp,
    pub(super) intake: Arc<Intake>,
}

type Outcome = Result<Applied, Rejection>;

impl Command for Submit {
    type Output = Outcome;
    const NAME: &'static str = "submit";
    const PRIORITY: Priority = Priority::Intake;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Outcome>, Fault> {
        if let Some(first) = batch.first() {
            // One alone may be undone by itself, and with it what it carries.
            let index = &first.intake.index;
            let carried = if batch.len() > 1 { batch.len() * index.haste() } else { 0 };
            index.carry(tx, carried)?;
        }
        let mut order: Vec<_> = (0..batch.len()).collect();
        order.sort_by_key(|index| &batch[*index].event_id);
        let mut outcomes: Vec<Option<Outcome>> = batch.iter().map(|_| None).collect();
        for same in order.chunk_by(|a, b| batch[*a].event_id == batch[*b].event_id) {
            let people: Vec<_> = same.iter().map(|index| &batch[*index]).collect();
            for (index, outcome) in same.iter().zip(accept(tx, &people)?) {
                outcomes[*index] = Some(outcome);
            }
        }
        outcomes.into_iter().map(|outcome| outcome.ok_or(Fault::Panicked)).collect()
    }

    fn committed(done: &[(&Self, &Outcome)]) {
        let Some((first, _)) = done.first() else { return };
        let joined = done.iter().filter_map(|(submit, outcome)| match outcome {
            Ok(Applied { request, duplicate: false, event_key, .. }) => {
                Some((LineKey::new(*event_key, request.position), &submit.user_id))
            }
            _ => None,
        });
        first.intake.index.joined(joined);
    }
}

/// Lets people into one event's line, in the order in which they came.
fn accept(tx: &mut Tx<'_>, people: &[&Submit]) -> Result<Vec<Outcome>, Fault> {
    let event_id = &people[0].event_id;
    requests::lock_line(tx, event_id)?;
    let Some(event) = events::find(tx, event_id)?.filter(Event::was_public) else {
        let unknown = || Rejection::new(Code::EventNotFound, format!("there is no event {event_id}"));
        return Ok(people.iter().map(|_| Err(unknown())).collect());
    };
    let admission = admit(&event, tx.now());
    let Some(mut line) = requests::find_line(tx, event_id)? else {
        let closed = || Rejection::new(Code::EventNotOpen, "the event was never open");
        let rejection = admission.err().unwrap_or_else(closed);
        return Ok(people.iter().map(|_| Err(rejection.clone())).collect());
    };
    let mut places = find_places(tx, &event, &line, people)?;
    match admission {
        Ok(()) => join(tx, &event, &mut line, people, &mut places)?,
        Err(rejection) => refuse_newcomers(&mut places, &rejection),
    }
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(places.len());
    for place in places {
        outcomes.push(match place {
            Place::Joined(applied) | Place::Known(applied) => Ok(applied),
            Place::Refused(rejection) => Err(rejection),
            Place::SameAs(first) => outcomes
                .get(first)
                .cloned()
                .unwrap_or_else(|| Err(undecided()))
                .map(|applied| Applied { duplicate: true, ..applied }),
            Place::New => Err(undecided()),
        });
    }
    Ok(outcomes)
}

fn undecided() -> Rejection {
    Rejection::new(Code::InternalError, "an application was left undecided")
}

/// Where somebody stands, or what became of their try.
enum Place {
    New,
    /// Joined in this very group.
    Joined(Applied),
    /// Stood there before.
    Known(Applied),
    /// Tries for a second time in this group; the index of the first.
    SameAs(usize),
    Refused(Rejection),
}

fn find_places(tx: &mut Tx<'_>, event: &Event, line: &Line, people: &[&Submit]) -> Result<Vec<Place>, Fault> {
    let users: Vec<_> = people.iter().map(|person| &person.user_id).collect();
    let known = requests::standing(tx, &people[0].intake.index, line.event_key, &users)?;
    let mut first_tries: HashMap<&str, usize> = HashMap::with_capacity(people.len());
    let mut places = Vec::with_capacity(people.len());
    for (index, (person, row)) in people.iter().zip(known).enumerate() {
        places.push(match (row, first_tries.get(person.user_id.as_str())) {
            (Some(row), _) => Place::Known(applied(event, line, row, true)),
            (None, Some(first)) => Place::SameAs(*first),
            (None, None) => {
                first_tries.insert(person.user_id.as_str(), index);
                Place::New
            }
        });
    }
    Ok(places)
}

fn refuse_newcomers(places: &mut [Place], rejection: &Rejection) {
    for place in places.iter_mut().filter(|place| matches!(place, Place::New)) {
        *place = Place::Refused(rejection.clone());
    }
}

/// Numbers and decides the newcomers and writes everything that follows from it.
fn join(
    tx: &mut Tx<'_>,
    event: &Event,
    line: &mut Line,
    people: &[&Submit],
    places: &mut [Place],
) -> Result<(), Fault> {
    let now = tx.now();
    let newcomers: Vec<_> = places
        .iter()
        .enumerate()
        .filter(|(_, place)| matches!(place, Place::New))
        .map(|(index, _)| index)
        .collect();
    if newcomers.is_empty() {
        return Ok(());
    }
    let results = decide(event.settings.kind.event_type(), line.capacity_remaining, newcomers.len());
    let mut rows = Vec::with_capacity(newcomers.len());
    for (index, result) in newcomers.iter().zip(results) {
        let person = people[*index];
        line.last_position += 1;
        let state = match result {
            None => RequestState::Queued,
            Some(result) => {
                line.decided_position = line.last_position;
                line.tally.add(result, person.requested_at, now);
                line.capacity_remaining -= i64::from(result == ResultCode::Success);
                RequestState::Finished { result, started_at: now, finished_at: now }
            }
        };
        let key = LineKey::new(line.event_key, line.last_position);
        rows.push(RequestRow {
            key,
            id: RequestId::at(key, now),
            user_id: person.user_id.clone(),
            requested_at: person.requested_at,
            queued_at: now,
            state,
        });
    }
    requests::insert(tx, now, &rows)?;
    requests::update_line(tx, line)?;
    let intake = &people[0].intake;
    news::tell(tx, &event.id, intake.publishing, &rows)?;
    reward(tx, event, intake, &rows)?;
    if people.len() == 1 {
        intake.index.joins(tx, rows[0].key, &rows[0].user_id);
    }
    for (index, row) in newcomers.into_iter().zip(rows) {
        places[index] = Place::Joined(applied(event, line, row, false));
    }
    Ok(())
}

/// Gives each winner what the event gives, and takes it from the stock.
fn reward(tx: &mut Tx<'_>, event: &Event, intake: &Intake, rows: &[RequestRow]) -> Result<(), Fault> {
    let won = |row: &&RequestRow| row.state.status() == ResultCode::Success.status();
    let winners: Vec<_> = rows.iter().filter(won).collect();
    if winners.is_empty() {
        return Ok(());
    }
    let now = tx.now();
    for (ordinal, reward) in (1_u16..).zip(&event.settings.rewards) {
        let mut allocations: Vec<_> =
            winners.iter().map(|row| allocation(event, reward, ordinal, row)).collect();
        allocations.sort_by(|a, b| a.idempotency_key.cmp(&b.idempotency_key));
        let next_retry_at = now.plus_millis(intake.allocations_lease_ms);
        allocations::insert(tx, &event.id, &reward.id, now, next_retry_at, &allocations)?;
        if reward.total_stock.is_some() {
            let count = i64::try_from(winners.len()).unwrap_or(i64::MAX).saturating_mul(reward.quantity);
            if !allocations::take_stock(tx, &event.id, &reward.id, count)? {
                let text = format!("the stock of {} in {} is short of its winners", reward.id, event.id);
                return Err(Fault::Inconsistent(text));
            }
        }
    }
    Ok(())
}

fn allocation<'a>(event: &Event, reward: &Reward, ordinal: u16, row: &'a RequestRow) -> NewAllocation<'a> {
    NewAllocation {
        id: *row.id.derived(ordinal).as_bytes(),
        member_id: row.user_id.as_str(),
        request_id: row.id.as_bytes(),
        idempotency_key: format!("req-{}-{}-{}", event.id, row.user_id, reward.id),
    }
}

fn applied(event: &Event, line: &Line, row: RequestRow, duplicate: bool) -> Applied {
    Applied {
        request: Request {
            id: row.id,
            event_id: event.id.clone(),
            user_id: row.user_id,
            event_type: event.settings.kind.event_type(),
            position: row.key.position(),
            requested_at: row.requested_at,
            queued_at: row.queued_at,
            state: row.state,
        },
        duplicate,
        decided_position: line.decided_position,
        event_key: line.event_key,
    }
}
