//! A lane: who is next, and what it does about them.

use super::call::Call;
use super::step::Wanted;
use super::{HOUSE, held};
use crate::gate::Gate;
use guerdon_core::Timestamp;
use guerdon_core::claims::ClaimId;
use guerdon_store::Stopwatch;
use guerdon_store::claims::Stored;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// Claims that a lane keeps in mind; what is more is found when it is due.
const FRESH_MAX: usize = 10_000;

/// What a lane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What needs nothing but the store.
    House,
    /// Asks somebody, which changes nothing: what was handed over is asked about at once.
    Reading,
    /// Has somebody do something: its intent is durable before.
    Calling,
}

pub(crate) struct Lane {
    name: String,
    pub(super) kind: Kind,
    pub(super) gate: Option<Arc<Gate>>,
    pub(super) longest: Duration,
    fresh: Mutex<VecDeque<Fresh>>,
    /// When the next claim is due that was handed over for later, in milliseconds.
    soonest: AtomicI64,
    /// Rung when there is something to do.
    pub(super) bell: Notify,
    asked: AtomicBool,
    /// Calls under way, and ends that are not yet written.
    pub(super) busy: AtomicUsize,
}

/// A claim that was handed over, as it then was.
pub(super) struct Fresh {
    pub(super) id: ClaimId,
    pub(super) epoch: i64,
    /// Until when it is ours alone.
    pub(super) until: Timestamp,
    pub(super) since: Stopwatch,
    /// What is asked about it, where that needs nothing to be written before.
    pub(super) call: Option<Box<Call>>,
}

impl Lane {
    fn new(name: &str, kind: Kind, gate: Option<Arc<Gate>>, longest: Duration) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            kind,
            gate,
            longest,
            fresh: Mutex::default(),
            soonest: AtomicI64::new(i64::MAX),
            bell: Notify::new(),
            asked: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
        })
    }

    pub(super) fn house() -> Arc<Self> {
        Self::new(HOUSE, Kind::House, None, Duration::ZERO)
    }

    pub(super) fn reading(name: &str, gate: Arc<Gate>, longest: Duration) -> Arc<Self> {
        Self::new(name, Kind::Reading, Some(gate), longest)
    }

    pub(super) fn calling(name: &str, gate: Arc<Gate>, longest: Duration) -> Arc<Self> {
        Self::new(name, Kind::Calling, Some(gate), longest)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn hand_over(&self, stored: &Stored, now: Timestamp) {
        let Some(until) = stored.next_at else { return };
        let claim = &stored.claim;
        if claim.progress.not_before.is_some_and(|at| at > now) {
            self.is_due_at(until);
        } else {
            let call = (self.kind == Kind::Reading).then(|| Box::new(Call::about(claim, None)));
            let fresh = Fresh { id: claim.id, epoch: claim.epoch, until, since: Stopwatch::start(), call };
            let mut all = held(&self.fresh);
            if all.len() < FRESH_MAX {
                all.push_back(fresh);
            }
        }
        self.bell.notify_one();
    }

    /// Puts back what could not be taken up, as far as it was handed over.
    pub(super) fn put_back(&self, wanted: &[Wanted], until: Timestamp) {
        let mut all = held(&self.fresh);
        for Wanted { id, epoch } in wanted {
            let Some(epoch) = *epoch else { continue };
            all.push_back(Fresh { id: *id, epoch, until, since: Stopwatch::start(), call: None });
        }
    }

    pub(super) fn is_due_at(&self, at: Timestamp) {
        self.soonest.fetch_min(at.as_millis(), Ordering::Relaxed);
    }

    pub(super) fn soonest(&self) -> Timestamp {
        Timestamp::from_millis(self.soonest.load(Ordering::Relaxed))
    }

    /// Forgets when the next one is due: whoever does looks for it.
    pub(super) fn look_anew(&self) {
        self.soonest.store(i64::MAX, Ordering::Relaxed);
    }

    pub(super) fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
        self.bell.notify_one();
    }

    pub(super) fn was_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) > 0
    }

    pub(super) fn has_fresh(&self) -> bool {
        !held(&self.fresh).is_empty()
    }

    pub(super) fn take_fresh(&self, most: usize) -> Vec<Fresh> {
        let mut fresh = held(&self.fresh);
        let count = most.min(fresh.len());
        fresh.drain(..count).collect()
    }
}
