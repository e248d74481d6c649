//! A lane for each provider: who is next, how many at a time, and when to look for what is due.

use super::port::Provider;
use super::{AllocationOptions, outside, wallet};
use crate::clock::millis;
use crate::engine::Engine;
use crate::gate::Gate;
use guerdon_core::Timestamp;
use guerdon_core::allocations::{AllocationId, Rules};
use guerdon_store::allocations::moving;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// New allocations that a lane keeps in mind; what is more is found when it is due.
const FRESH_MAX: usize = 10_000;
/// Rows that one look for what is due finds.
pub(super) const BATCH: usize = 100;
/// How long deliveries under way are waited for at the end, beside their own time, and at the most.
const STOP_MARGIN: Duration = Duration::from_secs(1);
const STOP_MAX: Duration = Duration::from_secs(15);
const STOP_LOOK: Duration = Duration::from_millis(10);
/// The provider that is part of the house.
pub(crate) const WALLET: &str = "wallet";

/// All lanes, by the names of their providers.
pub(crate) struct Deliveries {
    pub(super) options: AllocationOptions,
    lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
    /// Whether nothing new is taken up any more.
    stopping: AtomicBool,
}

pub(crate) struct Lane {
    pub(super) name: String,
    /// None for the wallet, and for a name that nobody configured.
    pub(super) provider: Option<Arc<dyn Provider>>,
    fresh: Mutex<VecDeque<AllocationId>>,
    /// Rung when there is something new, or room again.
    pub(super) bell: Notify,
    /// Whether somebody wants it to look for what is due at once.
    asked: AtomicBool,
    /// Calls under way, and ends that are not yet written.
    pub(super) busy: AtomicUsize,
    pub(super) gate: Arc<Gate>,
}

/// For a provider that is not there.
const MISSING_CONCURRENCY: usize = 16;

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Deliveries {
    pub(crate) fn new(options: AllocationOptions, providers: Vec<Arc<dyn Provider>>) -> Self {
        let mut lanes = BTreeMap::from([(WALLET.to_owned(), Arc::new(Lane::new(WALLET, None)))]);
        for provider in providers {
            let name = provider.name().to_owned();
            lanes.insert(name.clone(), Arc::new(Lane::new(&name, Some(provider))));
        }
        Self { options, lanes: Mutex::new(lanes), stopping: AtomicBool::new(false) }
    }

    pub(super) fn rules(&self) -> Rules {
        Rules { retry_delay_ms: millis(self.options.retry_delay), max_attempts: self.options.max_attempts }
    }

    /// Tells the providers' lanes of allocations that were just committed.
    pub(crate) fn hand_over<'a>(&self, won: impl IntoIterator<Item = (&'a str, AllocationId)>) {
        let mut by_provider: BTreeMap<&str, Vec<AllocationId>> = BTreeMap::new();
        for (provider, id) in won {
            by_provider.entry(provider).or_default().push(id);
        }
        for (provider, ids) in by_provider {
            self.fresh(provider, ids);
        }
    }

    fn fresh(&self, provider: &str, ids: Vec<AllocationId>) {
        let Some(lane) = held(&self.lanes).get(provider).map(Arc::clone) else { return };
        let mut fresh = held(&lane.fresh);
        fresh.extend(ids);
        fresh.truncate(FRESH_MAX);
        drop(fresh);
        lane.bell.notify_one();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(super) fn all(&self) -> Vec<Arc<Lane>> {
        held(&self.lanes).values().map(Arc::clone).collect()
    }

    /// The providers outside, each with the way to it.
    pub(crate) fn outside(&self) -> Vec<(Arc<dyn Provider>, Arc<Gate>)> {
        let provider = |lane: Arc<Lane>| Some((Arc::clone(lane.provider.as_ref()?), Arc::clone(&lane.gate)));
        self.all().into_iter().filter_map(provider).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        held(&self.lanes).keys().cloned().collect()
    }

    /// Has every lane look at what is due.
    pub(super) fn ring(&self) {
        for lane in self.all() {
            lane.asked.store(true, Ordering::Relaxed);
            lane.bell.notify_one();
        }
    }

    /// The lane of a name that nobody configured, made when it is needed.
    fn missing(&self, name: &str) -> Option<Arc<Lane>> {
        let mut lanes = held(&self.lanes);
        if lanes.contains_key(name) {
            return None;
        }
        let lane = Arc::new(Lane::new(name, None));
        lanes.insert(name.to_owned(), Arc::clone(&lane));
        Some(lane)
    }
}

impl Lane {
    fn new(name: &str, provider: Option<Arc<dyn Provider>>) -> Self {
        let most = provider.as_ref().map_or(MISSING_CONCURRENCY, |provider| provider.concurrency());
        Self {
            name: name.to_owned(),
            provider,
            fresh: Mutex::default(),
            bell: Notify::new(),
            asked: AtomicBool::new(false),
            busy: AtomicUsize::new(0),
            gate: Gate::new(name, most),
        }
    }

    /// Whether it is to look for what is due at once.
    pub(super) fn was_asked(&self) -> bool {
        self.asked.swap(false, Ordering::Relaxed)
    }

    /// Some of what was just won, at most so many.
    pub(super) fn take_fresh(&self, most: usize) -> Vec<AllocationId> {
        let mut fresh = held(&self.fresh);
        let count = most.min(fresh.len());
        fresh.drain(..count).collect()
    }
}

/// How long a lane that has nothing to do waits unless it is rung.
pub(crate) struct Look {
    next: Timestamp,
}

impl Look {
    pub(crate) fn now() -> Self {
        Self { next: Timestamp::from_millis(0) }
    }

    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next
    }

    /// After a look that found so many of so many that it could have.
    pub(crate) fn looked(&mut self, found: usize, most: usize, now: Timestamp, interval: Duration) {
        // A full batch is followed at once by the next.
        self.next = if found >= most { now } else { now.plus_millis(millis(interval)) };
    }

    /// How long to wait where there is nothing to do.
    pub(crate) fn pause(&self, now: Timestamp) -> Duration {
        pause(self.next, now)
    }
}

pub(crate) fn pause(until: Timestamp, now: Timestamp) -> Duration {
    Duration::from_millis(until.millis_since(now).clamp(1, 60_000).unsigned_abs())
}

impl Engine {
    /// Starts a lane for each provider.
    pub(crate) fn start_deliveries(self: &Arc<Self>) {
        for lane in self.deliveries.all() {
            self.start_lane(lane);
        }
    }

    fn start_lane(self: &Arc<Self>, lane: Arc<Lane>) {
        let engine = Arc::downgrade(self);
        self.spawn_watched("delivery", move || {
            let (engine, lane) = (engine.clone(), Arc::clone(&lane));
            async move {
                if lane.name == WALLET && lane.provider.is_none() {
                    wallet::run(&engine, &lane).await;
                } else {
                    outside::run(&engine, &lane).await;
                }
            }
        });
    }

    /// Takes nothing up any more, and waits until what is under way has ended and is written, within its time.
    pub async fn stop_delivering(&self) {
        self.deliveries.stopping.store(true, Ordering::Relaxed);
        self.claims.stop();
        self.deliveries.ring();
        let lanes = self.deliveries.all();
        let longest =
            lanes.iter().filter_map(|lane| lane.provider.as_ref()).map(|provider| provider.timeout());
        // It is asked and called, and then written.
        let patience = (longest.max().unwrap_or_default() * 2).max(self.claims.longest_call()) + STOP_MARGIN;
        let ended = async {
            while self.claims.is_busy() || lanes.iter().any(|lane| lane.busy.load(Ordering::Relaxed) > 0) {
                tokio::time::sleep(STOP_LOOK).await;
            }
        };
        if tokio::time::timeout(patience.min(STOP_MAX), ended).await.is_err() {
            tracing::warn!("deliveries are left under way; they are taken up again when their lease ends");
        }
    }

    /// Makes lanes for names that nobody configured, so that it is told what their rewards wait for.
    pub(crate) async fn find_missing_providers(self: Arc<Self>) {
        let Ok(names) = self.read(moving::providers).await else { return };
        for name in names {
            if let Some(lane) = self.deliveries.missing(&name) {
                tracing::error!(provider = name, "rewards wait for a provider that is not configured");
                self.start_lane(lane);
            }
        }
    }
}
