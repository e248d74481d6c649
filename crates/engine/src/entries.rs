//! Entries: checking in and playing, each decided and written with what it gives in one transaction.

mod attendance;
mod given;
mod random;

pub use attendance::{Calendar, CheckedIn};
pub use random::Played;

use guerdon_core::events::Event;
use guerdon_core::{Code, EventId, Rejection, UserId};
use guerdon_store::{Fault, Tx, entries, events};

/// Applies commands event by event, in the order of the events' ids, and answers in the commands' own order.
fn by_event<C, O>(
    tx: &mut Tx<'_>,
    batch: &[C],
    event_of: impl Fn(&C) -> &EventId,
    apply: impl Fn(&mut Tx<'_>, &[&C]) -> Result<Vec<O>, Fault>,
) -> Result<Vec<O>, Fault> {
    let mut order: Vec<_> = (0..batch.len()).collect();
    order.sort_by_key(|index| event_of(&batch[*index]));
    let mut outcomes: Vec<Option<O>> = batch.iter().map(|_| None).collect();
    for same in order.chunk_by(|a, b| event_of(&batch[*a]) == event_of(&batch[*b])) {
        let people: Vec<_> = same.iter().map(|index| &batch[*index]).collect();
        for (index, outcome) in same.iter().zip(apply(tx, &people)?) {
            outcomes[*index] = Some(outcome);
        }
    }
    outcomes.into_iter().map(|outcome| outcome.ok_or(Fault::Panicked)).collect()
}

/// An event that people have seen, which does not change until the transaction ends.
fn public_event(tx: &mut Tx<'_>, event_id: &EventId) -> Result<Result<Event, Rejection>, Fault> {
    entries::hold_event(tx, event_id)?;
    let unknown = || Rejection::new(Code::EventNotFound, format!("there is no event {event_id}"));
    Ok(events::find(tx, event_id)?.filter(Event::was_public).ok_or_else(unknown))
}

/// Who they are, each once, in the order in which they are held.
fn members<'a>(people: impl Iterator<Item = &'a UserId>) -> Vec<&'a str> {
    let mut members: Vec<_> = people.map(UserId::as_str).collect();
    members.sort_unstable();
    members.dedup();
    members
}
