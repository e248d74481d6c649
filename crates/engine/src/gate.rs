//! The way to a service outside: how many calls at a time, and none while it does not work.
//!
//! Whoever calls a provider goes through the same gate, deliveries and claims alike: what one of them learns the other
//! knows, and together they make no more calls than the provider takes.

use crate::metrics::{EngineMetrics, ServiceLabels};
use guerdon_core::Timestamp;
use guerdon_core::allocations::breaker::Turned;
use guerdon_core::allocations::{Breaker, Outcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How long after its pause somebody who needs a service would have asked it.
const IDLE_MS: i64 = 5_000;

pub(crate) struct Gate {
    name: String,
    most: usize,
    inner: Mutex<Inner>,
    /// Whether somebody whom people wait for found no room.
    hungry: AtomicBool,
    /// Rung when there is room again.
    pub(crate) freed: Notify,
}

#[derive(Default)]
struct Inner {
    breaker: Breaker,
    under_way: usize,
}

/// Whose turn it is at a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Somebody waits for the answer.
    Claims,
    /// Nobody that we know of.
    Looking,
    Deliveries,
}

/// The right to make one call.
pub(crate) struct Permit(Arc<Gate>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.lock().under_way -= 1;
        self.0.freed.notify_waiters();
    }
}

impl Gate {
    pub(crate) fn new(name: &str, most: usize) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            most: most.max(1),
            inner: Mutex::default(),
            hungry: AtomicBool::new(false),
            freed: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to make some calls, at most so many. What is not used is given back by dropping it.
    pub(crate) fn reserve(self: &Arc<Self>, turn: Turn, want: usize, now: Timestamp) -> Vec<Permit> {
        let mut inner = self.lock();
        // Deliveries leave half of it to those who wait.
        let shared = turn == Turn::Deliveries && self.hungry.load(Ordering::Relaxed);
        let most = if shared { self.most.div_ceil(2) } else { self.most };
        let count = inner.breaker.room(now, inner.under_way, most).min(want);
        inner.under_way += count;
        drop(inner);
        if turn != Turn::Deliveries {
            self.hungry.store(turn == Turn::Claims && want > 0 && count == 0, Ordering::Relaxed);
        }
        (0..count).map(|_| Permit(Arc::clone(self))).collect()
    }

    /// Until when it is left alone, if it is.
    pub(crate) fn shut_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.lock().breaker.wakes_at().filter(|until| *until > now)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lock().breaker.is_open()
    }

    /// Whether it is left alone, or has just been and nobody knows yet whether it works. Where nobody needs it any more that is
    /// not found out, and then it counts as well.
    pub(crate) fn is_in_trouble(&self, now: Timestamp) -> bool {
        let inner = self.lock();
        let asked_soon = |until: Timestamp| now.millis_since(until) < IDLE_MS || inner.under_way > 0;
        inner.breaker.is_open() && inner.breaker.wakes_at().is_none_or(asked_soon)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Learns from how a call ended.
    pub(crate) fn note(&self, outcome: &Outcome, now: Timestamp, metrics: &EngineMetrics) {
        let turned = self.lock().breaker.note(outcome, now);
        let service = self.name.as_str();
        match turned {
            Turned::Nothing => return,
            Turned::Opened { until } => {
                let seconds = until.millis_since(now) / 1_000;
                tracing::warn!(service, ?outcome, seconds, "the service is left alone for a while");
            }
            Turned::Paused { until } => {
                let seconds = until.millis_since(now) / 1_000;
                tracing::warn!(service, seconds, "the service asks to be left alone");
            }
            Turned::Closed => tracing::info!(service, "the service works again"),
        }
        let labels = ServiceLabels { service: self.name.clone() };
        metrics.breaker_open.get_or_create(&labels).set(i64::from(self.is_open()));
    }
}

#[cfg(test)]
mod tests {
    use super::{Gate, Turn};
    use crate::metrics::EngineMetrics;
    use guerdon_core::Timestamp;
    use guerdon_core::allocations::Outcome;
    use prometheus_client::registry::Registry;

    #[test]
    fn permits_are_given_back_and_deliveries_leave_room_for_those_who_wait() {
        let (gate, now) = (Gate::new("x", 8), Timestamp::from_millis(1));
        let deliveries = gate.reserve(Turn::Deliveries, 100, now);
        assert_eq!(deliveries.len(), 8);
        assert!(gate.reserve(Turn::Claims, 1, now).is_empty());
        drop(deliveries);
        assert_eq!(gate.reserve(Turn::Deliveries, 100, now).len(), 4, "a claim found no room");
        let claims = gate.reserve(Turn::Claims, 3, now);
        assert_eq!((claims.len(), gate.reserve(Turn::Deliveries, 100, now).len()), (3, 5));
    }

    #[test]
    fn a_service_that_nobody_needs_any_more_is_not_in_trouble_for_ever() {
        let (gate, at) = (Gate::new("x", 8), Timestamp::from_millis);
        let metrics = EngineMetrics::register(&mut Registry::default());
        let wrong = Outcome::Misconfigured { reason: String::new() };
        gate.note(&wrong, at(0), &metrics);
        assert!(gate.is_in_trouble(at(500)) && gate.is_in_trouble(at(3_000)));
        assert!(!gate.is_in_trouble(at(7_000)));
        let probe = gate.reserve(Turn::Claims, 4, at(7_000));
        assert!(probe.len() == 1 && gate.is_in_trouble(at(7_000)));
    }
}
