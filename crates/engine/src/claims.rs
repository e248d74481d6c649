//! Claims: the saga's runner.
//!
//! A claim moves through lanes: the house's own, where steps need nothing but the store and many claims go in one
//! transaction, and one for each service outside, so that one which hangs holds up nobody who does not need it. Each
//! step is durable before the next begins; before a call that has an effect, its intent is. Whatever a crash leaves
//! behind is taken up again when its lease ends, by whoever comes first.

mod call;
mod direct;
mod initiate;
mod lane;
mod local;
mod news;
mod operators;
mod port;
mod reads;
mod step;
#[cfg(test)]
mod tests;
mod work;

pub use initiate::Claimed;
pub use port::{Activities, ActivityService, Statuses, UserService};

use crate::allocations::{Deliveries, WALLET};
use crate::clock::millis;
use crate::gate::Gate;
use crate::users::UnknownUsers;
use direct::Direct;
use guerdon_core::Timestamp;
use guerdon_core::claims::{Claim, ClaimId, ClaimStatus, Need, Rules};
use guerdon_store::claims::Stored;
use lane::Lane;
use port::Executor;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// The names of lanes.
pub(crate) const HOUSE: &str = "house";
pub(crate) const AUTH: &str = "auth";
pub(crate) const CONDITIONS: &str = "gameData";
const PROVIDER: &str = "provider:";

/// Conditions that are judged at one time, where their data is in the house.
const JUDGED_AT_ONCE: usize = 64;

/// How claims go.
#[derive(Clone, Copy, Debug)]
pub struct ClaimOptions {
    /// How long a caller waits for the end, unless they say otherwise.
    pub wait: Duration,
    /// How long a claim is left to whoever took it up.
    pub lease: Duration,
    /// How long a claim may go on before it is undone, and as long again until that needs a hand.
    pub timeout: Duration,
    /// Calls of a provider before a grant has failed.
    pub tries: i64,
    /// From a call in vain to the next, the first time.
    pub retry_delay: Duration,
}

/// Services that claims need, where they are not the house's own.
#[derive(Clone, Default)]
pub struct ClaimServices {
    pub users: Option<Arc<dyn UserService>>,
    pub activities: Option<Arc<dyn ActivityService>>,
}

pub(crate) struct Claims {
    pub(crate) options: ClaimOptions,
    unknown_users: UnknownUsers,
    /// Who carries out what a claim needs outside.
    executor: Arc<dyn Executor>,
    /// Whether the registry of the house says who is active.
    users_here: bool,
    lanes: BTreeMap<String, Arc<Lane>>,
    waiting: Mutex<HashMap<ClaimId, oneshot::Sender<Claim>>>,
    stopping: AtomicBool,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Claims {
    pub(crate) fn new(
        options: ClaimOptions,
        unknown_users: UnknownUsers,
        services: ClaimServices,
        deliveries: &Deliveries,
    ) -> Self {
        let mut lanes = BTreeMap::from([(HOUSE.to_owned(), Lane::house())]);
        if let Some(users) = &services.users {
            let gate = Gate::new(AUTH, users.concurrency());
            lanes.insert(AUTH.into(), Lane::reading(AUTH, gate, users.longest()));
        }
        let (most, longest) = match &services.activities {
            Some(activities) => (activities.concurrency(), activities.longest()),
            None => (JUDGED_AT_ONCE, Duration::from_secs(1)),
        };
        lanes.insert(CONDITIONS.into(), Lane::reading(CONDITIONS, Gate::new(CONDITIONS, most), longest));
        let mut providers = BTreeMap::new();
        for (provider, gate) in deliveries.outside() {
            let name = format!("{PROVIDER}{}", provider.name());
            // It is asked, and then called.
            lanes.insert(name.clone(), Lane::calling(&name, gate, provider.timeout() * 2));
            providers.insert(provider.name().to_owned(), provider);
        }
        Self {
            options,
            unknown_users,
            users_here: services.users.is_none(),
            executor: Arc::new(Direct::new(services, providers)),
            lanes,
            waiting: Mutex::default(),
            stopping: AtomicBool::new(false),
        }
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            tries: self.options.tries,
            retry_delay_ms: millis(self.options.retry_delay),
            timeout_ms: millis(self.options.timeout),
        }
    }

    /// Whether a provider is part of the house.
    fn is_here(&self, provider: &str) -> bool {
        provider == WALLET && !self.lanes.contains_key(&format!("{PROVIDER}{WALLET}"))
    }

    fn knows(&self, provider: &str) -> bool {
        self.is_here(provider) || self.lanes.contains_key(&format!("{PROVIDER}{provider}"))
    }

    /// Whose turn it is, none at the end.
    fn lane_of(&self, claim: &Claim) -> Option<String> {
        let of_provider = |index: usize| {
            let provider = claim.progress.rewards.get(index).map_or("", |reward| reward.provider.as_str());
            let name = format!("{PROVIDER}{provider}");
            // Whoever is not there to grant is known at once; to take something back somebody may come yet.
            let granting = matches!(claim.need(), Need::Grant(_));
            if self.is_here(provider) || (granting && !self.lanes.contains_key(&name)) {
                HOUSE.into()
            } else {
                name
            }
        };
        match claim.need() {
            Need::Over => None,
            Need::User if !self.users_here => Some(AUTH.into()),
            Need::Conditions => Some(CONDITIONS.into()),
            Need::Grant(index) | Need::Revoke(index) => Some(of_provider(index)),
            Need::User | Need::Event | Need::Stock | Need::Return | Need::Nothing => Some(HOUSE.into()),
        }
    }

    /// A claim as it is stored until whoever's turn it is takes it up.
    fn waiting_for(&self, claim: Claim, now: Timestamp) -> Stored {
        let waits_for = self.lane_of(&claim);
        let next_at = waits_for.as_ref().map(|_| match claim.progress.not_before {
            Some(at) if at > now => at,
            // It is handed over at once; should nobody hear of it, it is found when this is over.
            _ => now.plus_millis(millis(self.options.lease)),
        });
        let next_at = next_at.map(|at| claim.expires_at.map_or(at, |end| at.min(end.max(now))));
        Stored { claim, waits_for, next_at }
    }

    /// Tells the next lanes, and whoever waits for the end, of claims that were just committed.
    fn hand_over<'a>(&self, moved: impl IntoIterator<Item = &'a Stored>, now: Timestamp) {
        for stored in moved {
            match stored.waits_for.as_deref() {
                None => self.ended(&stored.claim),
                // Of somebody who is not there it is looked after when its time is over.
                Some(name) => {
                    if let Some(lane) = self.lanes.get(name) {
                        lane.hand_over(stored, now);
                    }
                }
            }
        }
    }

    /// Whose end somebody waits for.
    fn awaited(&self) -> Vec<ClaimId> {
        held(&self.waiting).keys().copied().collect()
    }

    fn ended(&self, claim: &Claim) {
        if let Some(waiting) = held(&self.waiting).remove(&claim.id) {
            let _ = waiting.send(claim.clone());
        }
    }

    /// Comes with the claim's end, if that is in this process.
    fn wait_for(self: &Arc<Self>, id: ClaimId) -> Waiting {
        let (sender, end) = oneshot::channel();
        held(&self.waiting).insert(id, sender);
        Waiting { claims: Arc::clone(self), id, end }
    }

    /// Has every lane look at what is due.
    fn ring(&self) {
        for lane in self.lanes.values() {
            lane.ask();
        }
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.ring();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether calls are under way, or ends that are not yet written.
    pub(crate) fn is_busy(&self) -> bool {
        self.lanes.values().any(|lane| lane.is_busy())
    }

    /// The longest that a call takes.
    pub(crate) fn longest_call(&self) -> Duration {
        self.lanes.values().map(|lane| lane.longest).max().unwrap_or_default()
    }

    pub(crate) fn lane_names(&self) -> Vec<String> {
        self.lanes.keys().cloned().collect()
    }

    /// The ways to everybody outside whom claims need.
    pub(crate) fn gates(&self) -> impl Iterator<Item = &Arc<Gate>> {
        self.lanes.values().filter_map(|lane| lane.gate.as_ref())
    }
}

/// Somebody who waits for the end of a claim.
struct Waiting {
    claims: Arc<Claims>,
    id: ClaimId,
    end: oneshot::Receiver<Claim>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        held(&self.claims.waiting).remove(&self.id);
    }
}

/// Whether a status is one that a caller waits beyond.
fn goes_on(status: ClaimStatus) -> bool {
    status.is_pending()
}
