//! Acceptance: lock the line, see who is new, number them, decide, and write all of it in one transaction.
//!
//! The line's lock is exclusive, on PostgreSQL across processes: whoever holds it numbers the people that it lets in,
//! so positions have no gaps, nobody is accepted beside a closing, and a place in line is decided when it is taken.

use super::rewards::{Won, reward};
use super::{Applied, Intake, Lottery, news};
use crate::draws::shown::{announce_to, receipt};
use guerdon_core::events::{Event, EventType};
use guerdon_core::requests::{Line, LineKey, RequestId, RequestState, ResultCode, admit, decide};
use guerdon_core::{Code, EventId, Rejection, Timestamp, Trace, UserId};
use guerdon_store::requests::{self, RequestRow};
use guerdon_store::{Command, Fault, Priority, Tx, draws, events};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Submit {
    pub(super) event_id: EventId,
    pub(super) user_id: UserId,
    pub(super) requested_at: Timestamp,
    pub(super) intake: Arc<Intake>,
    pub(super) trace: Option<Trace>,
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
        let winners = done.iter().filter_map(|(_, outcome)| outcome.as_ref().ok());
        let winners = winners.filter(|applied| !applied.duplicate);
        first.intake.deliveries.hand_over(winners.flat_map(|applied| applied.won.by(applied.request.id)));
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
    if event.settings.kind.event_type() == EventType::Lottery {
        show_lottery(tx, event, &mut outcomes)?;
    }
    Ok(outcomes)
}

/// Adds what a lottery shows: each entry's receipt, and how it ended once that was announced.
fn show_lottery(tx: &mut Tx<'_>, event: Event, outcomes: &mut [Outcome]) -> Result<(), Fault> {
    let draw = draws::find(tx, &event.id)?;
    let event = Arc::new(event);
    let mut states = Vec::new();
    for applied in outcomes.iter_mut().filter_map(|outcome| outcome.as_mut().ok()) {
        let request = &mut applied.request;
        let receipt = draw.as_ref().map(|row| receipt(&row.draw, request));
        applied.lottery = Some(Lottery { event: Arc::clone(&event), receipt });
        states.push((LineKey::new(applied.event_key, request.position), &mut request.state));
    }
    announce_to(tx, &event, states)
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
        let id = RequestId::at(key, now);
        tx.follow(&id, person.trace);
        rows.push(RequestRow {
            key,
            id,
            user_id: person.user_id.clone(),
            requested_at: person.requested_at,
            queued_at: now,
            state,
        });
    }
    requests::insert(tx, now, &rows)?;
    requests::update_line(tx, line)?;
    let intake = &people[0].intake;
    news::tell(tx, intake.publishing, &rows)?;
    let won = reward(tx, event, intake, &rows)?;
    if people.len() == 1 {
        intake.index.joins(tx, rows[0].key, &rows[0].user_id);
    }
    for (index, row) in newcomers.into_iter().zip(rows) {
        let won =
            if row.state.status() == ResultCode::Success.status() { won.clone() } else { Won::default() };
        places[index] = Place::Joined(Applied { won, ..applied(event, line, row, false) });
    }
    Ok(())
}

fn applied(event: &Event, line: &Line, row: RequestRow, duplicate: bool) -> Applied {
    Applied {
        request: row.into_request(event),
        duplicate,
        decided_position: line.decided_position,
        lottery: None,
        event_key: line.event_key,
        won: Won::default(),
    }
}
