//! Waiting for a line to move: one look at each watched line and tick, however many people wait or watch its figures.

use super::Summary;
use crate::engine::Engine;
use guerdon_core::EventId;
use guerdon_store::{events, requests};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// What the last look at a watched line found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    moved: Moved,
    /// For everybody who shows the event's figures: they are made once.
    figures: Option<Arc<Summary>>,
}

/// A change of any of these is worth a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    decided_position: i64,
    last_position: i64,
    version: i64,
}

/// Somebody who follows a line. Nothing that happens while they look elsewhere is missed.
#[derive(Clone, Debug)]
pub struct LineFollower {
    line: watch::Receiver<Seen>,
}

impl LineFollower {
    /// Comes back when the line has moved since this was called last, or when the time is up.
    pub async fn moved(&mut self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.line.changed()).await;
    }

    /// The event's figures as of the last look at the line, if there was one.
    pub fn figures(&self) -> Option<Arc<Summary>> {
        self.line.borrow().figures.clone()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<HashMap<EventId, watch::Sender<Seen>>>);

impl Watch {
    pub(crate) fn subscribe(&self, event_id: &EventId) -> watch::Receiver<Seen> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.entry(event_id.clone()).or_insert_with(|| watch::Sender::new(Seen::default())).subscribe()
    }

    /// The events that somebody still waits for.
    fn watched(&self) -> Vec<EventId> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|_, sender| sender.receiver_count() > 0);
        watched.keys().cloned().collect()
    }

    fn note(&self, event_id: &EventId, seen: Seen) {
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(event_id) {
            sender.send_if_modified(|present| {
                let moved = present.moved != seen.moved;
                if moved {
                    *present = seen;
                }
                moved
            });
        }
    }
}

impl Engine {
    /// Follows an event's line from now on.
    pub fn follow_line(&self, event_id: &EventId) -> LineFollower {
        LineFollower { line: self.watch.subscribe(event_id) }
    }

    pub(crate) async fn look_at_watched_lines(&self) {
        let watched = self.watch.watched();
        if watched.is_empty() {
            return;
        }
        let looked = self.read(move |tx| {
            let mut found = Vec::with_capacity(watched.len());
            for event_id in &watched {
                let line = requests::find_line(tx, event_id)?;
                let version = events::find(tx, event_id)?.map_or(0, |event| event.version);
                let (decided_position, last_position) =
                    line.as_ref().map_or((0, 0), |line| (line.decided_position, line.last_position));
                let moved = Moved { decided_position, last_position, version };
                let figures = line.map(|line| Arc::new(Summary::of(line)));
                found.push((event_id.clone(), Seen { moved, figures }));
            }
            Ok(found)
        });
        match looked.await {
            Ok(found) => {
                for (event_id, seen) in found {
                    self.watch.note(&event_id, seen);
                }
            }
            Err(failure) => tracing::debug!(%failure, "the watched lines could not be read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Moved, Seen, Watch};
    use crate::requests::Summary;
    use guerdon_core::EventId;
    use guerdon_core::requests::Line;
    use guerdon_core::requests::line::Tally;
    use std::sync::Arc;

    fn seen(last_position: i64) -> Seen {
        let line = Line {
            event_key: 1,
            last_position,
            decided_position: 0,
            capacity_total: 9,
            capacity_remaining: 9,
            tally: Tally::default(),
        };
        let moved = Moved { last_position, ..Moved::default() };
        Seen { moved, figures: Some(Arc::new(Summary::of(line))) }
    }

    #[test]
    fn one_look_serves_all_who_follow_a_line() {
        let (watch, event) = (Watch::default(), EventId::parse("drop").unwrap());
        let mut followers: Vec<_> = (0..10).map(|_| watch.subscribe(&event)).collect();
        watch.note(&event, seen(5));
        let first = followers[0].borrow_and_update().figures.clone().unwrap();
        assert_eq!(first.queue_depth, 5);
        for follower in &mut followers[1..] {
            assert!(follower.has_changed().unwrap());
            let figures = follower.borrow_and_update().figures.clone().unwrap();
            assert!(Arc::ptr_eq(&first, &figures), "the figures are made once");
        }
        // A look that finds the line where it was wakes nobody.
        watch.note(&event, seen(5));
        assert!(followers.iter().all(|follower| !follower.has_changed().unwrap()));
        // What happens while a follower is busy is there when they look again.
        watch.note(&event, seen(6));
        watch.note(&event, seen(7));
        assert_eq!(followers[3].borrow_and_update().figures.as_ref().unwrap().queue_depth, 7);
        assert_eq!(watch.watched(), std::slice::from_ref(&event));
        drop(followers);
        assert!(watch.watched().is_empty(), "nobody looks for nobody");
    }
}
