//! How fast events without a line go: one look at all that are watched, however many people watch.

use crate::engine::{Engine, STORE_TIMEOUT};
use crate::failure::Failure;
use guerdon_core::events::EventType;
use guerdon_core::pace::{Pace, Span};
use guerdon_core::{Code, EventId, Rejection};
use guerdon_store::{Fault, pace};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// The most rows of a look: more than five seconds of any surge that one process has been seen to take in.
const ROWS_MAX: i64 = 65_536;

#[derive(Debug)]
struct Watched {
    of_claims: bool,
    pace: watch::Sender<Pace>,
}

#[derive(Debug, Default)]
pub(crate) struct Paces(Mutex<HashMap<EventId, Watched>>);

impl Paces {
    fn subscribe(&self, event_id: &EventId, of_claims: bool) -> watch::Receiver<Pace> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Watched { of_claims, pace: watch::Sender::new(Pace::default()) };
        watched.entry(event_id.clone()).or_insert_with(new).pace.subscribe()
    }

    /// The events that somebody still watches, and what is known of them.
    fn watched(&self) -> Vec<(EventId, bool, Pace)> {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|_, event| event.pace.receiver_count() > 0);
        let known =
            |(id, event): (&EventId, &Watched)| (id.clone(), event.of_claims, event.pace.borrow().clone());
        watched.iter().map(known).collect()
    }

    fn note(&self, event_id: &EventId, pace: Pace) {
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(event) = watched.get(event_id) {
            event.pace.send_if_modified(|known| {
                let changed = *known != pace;
                *known = pace;
                changed
            });
        }
    }
}

impl Engine {
    /// An event's pace, for as long as the receiver is kept. It is not known at first.
    pub async fn follow_pace(&self, event_id: &EventId) -> Result<watch::Receiver<Pace>, Failure> {
        let event = self.event(event_id).await?;
        let of_claims = match event.settings.kind.event_type() {
            EventType::Claim => true,
            EventType::Attendance | EventType::Random => false,
            EventType::FirstCome | EventType::Lottery => {
                let detail = "an event with a line has its figures in its summary";
                return Err(Rejection::new(Code::EventWrongType, detail).into());
            }
        };
        Ok(self.paces.subscribe(event_id, of_claims))
    }

    /// An event's pace, as the next look finds it where nobody watches.
    pub async fn pace(&self, event_id: &EventId) -> Result<Pace, Failure> {
        let mut watched = self.follow_pace(event_id).await?;
        let known = tokio::time::timeout(STORE_TIMEOUT, watched.wait_for(Pace::is_known)).await;
        match known {
            Ok(Ok(pace)) => Ok(pace.clone()),
            Ok(Err(_)) => Err(Fault::Stopping.into()),
            Err(_) => Err(Fault::TimedOut("the pace could not be read".into()).into()),
        }
    }

    pub(crate) async fn look_at_paces(&self) {
        let now = self.now();
        let due = self.paces.watched().into_iter().filter_map(|(event_id, of_claims, pace)| {
            let span = pace.next(now);
            // The next second is not over yet.
            (!pace.reaches(span)).then_some((event_id, of_claims, pace, span))
        });
        let mut due: Vec<_> = due.collect();
        if due.is_empty() {
            return;
        }
        let wanted: Vec<_> =
            due.iter().map(|(id, of_claims, _, span)| (id.clone(), *of_claims, *span)).collect();
        let looked = self.read(move |tx| {
            let mut found = Vec::with_capacity(wanted.len());
            let of_entries = wanted.iter().filter(|(_, of_claims, _)| !of_claims);
            let all = of_entries.map(|(_, _, span)| *span).reduce(Span::and);
            let entries = all.map(|span| pace::entries(tx, span, ROWS_MAX)).transpose()?;
            for (event_id, of_claims, span) in &wanted {
                found.push(match &entries {
                    _ if *of_claims => pace::claims(tx, event_id, *span, ROWS_MAX)?,
                    Some((by_event, whole_from)) => {
                        (by_event.get(event_id.as_str()).cloned().unwrap_or_default(), *whole_from)
                    }
                    None => (Vec::new(), span.from),
                });
            }
            Ok(found)
        });
        match looked.await {
            Ok(found) => {
                for ((event_id, _, pace, span), (found, whole_from)) in due.iter_mut().zip(found) {
                    pace.take(*span, whole_from, &found);
                    self.paces.note(event_id, std::mem::take(pace));
                }
            }
            Err(failure) => tracing::debug!(%failure, "the paces of events could not be read"),
        }
    }
}
