//! Waiting for a line to move: one look at each watched line and tick, however many people wait.

use crate::engine::Engine;
use guerdon_core::EventId;
use guerdon_store::{events, requests};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// What is watched: a change of any of these is worth a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    decided_position: i64,
    last_position: i64,
    version: i64,
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
            sender.send_if_modified(|present| std::mem::replace(present, seen) != seen);
        }
    }
}

impl Engine {
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
                    line.map_or((0, 0), |line| (line.decided_position, line.last_position));
                found.push((event_id.clone(), Seen { decided_position, last_position, version }));
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
