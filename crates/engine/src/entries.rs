//! Entries: checking in and playing, each decided and written with what it gives in one transaction.

mod attendance;
mod given;
mod random;

pub use attendance::{Calendar, CheckedIn};
pub use random::{Played, Plays};

use guerdon_core::events::Event;
use guerdon_core::{Code, EventId, Rejection, UserId};
use guerdon_store::{Fault, Tx, entries, events};

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
