//! How often somebody may call: so many times a second, and as many at once, by user and by address. Writing and looking have
//! budgets of their own, so that a page that polls too eagerly does not keep its user from applying.

use crate::problem::Problem;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use guerdon_core::Code;
use guerdon_engine::Stopwatch;
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// In calls per second; 0 is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitOptions {
    pub per_user: u32,
    pub per_address: u32,
    /// Calls of people that are under way at one time; more are turned away before they cost anything.
    pub underway: usize,
}

static RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
static RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

const SHARDS: usize = 64;
/// People and addresses that are kept in mind in each shard.
const KEPT_MAX: usize = 16_384;
/// So many cost nothing to speak of.
const KEPT_MIN: usize = 64;
/// How often a shard that is full of those who just called is looked through, in microseconds.
const LOOK_AGAIN_US: i64 = 10_000;
const SECOND_US: i64 = 1_000_000;

/// What is left of a budget after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    policy: &'static str,
    remaining: u32,
}

/// A call too many; how long until one is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    policy: &'static str,
    per_second: u32,
    wait: Duration,
}

impl Exceeded {
    /// Until one is allowed, in whole seconds.
    fn seconds(self) -> u64 {
        self.wait.as_secs() + u64::from(self.wait.subsec_nanos() > 0)
    }
}

impl From<Exceeded> for Problem {
    fn from(exceeded: Exceeded) -> Self {
        let Exceeded { policy, per_second, .. } = exceeded;
        let detail = format!("nothing was changed; one {policy} may call {per_second} times a second");
        Self { retry_after_s: Some(exceeded.seconds()), ..Self::new(Code::RateLimited, detail) }
    }
}

/// Takes one call from a budget that fills evenly and holds a second's worth. `spent_until` is when all that was taken would
/// have been earned; the new one, or how long it is until there is enough, in microseconds.
fn take(spent_until: i64, now: i64, per_second: u32) -> Result<i64, i64> {
    let cost = SECOND_US / i64::from(per_second.max(1));
    let until = spent_until.max(now) + cost;
    let wait = until - now - SECOND_US.max(cost);
    if wait > 0 { Err(wait) } else { Ok(until) }
}

/// For keys that are hashes already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Hashed>>;

/// The shard of a hash, by other bits than the map's own places.
fn shard_of<T>(shards: &[Mutex<T>], hash: u64) -> MutexGuard<'_, T> {
    let place = usize::try_from(hash >> 32).unwrap_or(0) % SHARDS;
    shards[place].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Those whose budget is not full. Whose is full again is as good as new and is forgotten, soon enough that what has to be
/// kept in mind, which is little even in a surge, stays within the processor's reach.
struct Spenders {
    spent_until: ByHash<i64>,
    /// How many there may be before somebody is forgotten.
    enough: usize,
    looked_at: i64,
}

impl Default for Spenders {
    fn default() -> Self {
        Self { spent_until: HashMap::default(), enough: KEPT_MIN, looked_at: i64::MIN }
    }
}

impl Spenders {
    fn forget(&mut self, now: i64) {
        let full = self.spent_until.len() >= KEPT_MAX && now.saturating_sub(self.looked_at) < LOOK_AGAIN_US;
        if self.spent_until.len() < self.enough || full {
            return;
        }
        self.spent_until.retain(|_, spent_until| *spent_until > now);
        self.enough = (2 * self.spent_until.len()).clamp(KEPT_MIN, KEPT_MAX);
        self.looked_at = now;
    }
}

struct Budget {
    policy: &'static str,
    per_second: u32,
    shards: Box<[Mutex<Spenders>]>,
    told: Told,
}

/// What every answer says of a budget, made once: its policy, and what is left after the first call in a while, which is what
/// nearly everybody in a surge is told.
struct Told {
    policy: HeaderValue,
    after_first: HeaderValue,
}

impl Told {
    fn new(policy: &str, per_second: u32) -> Option<Self> {
        let policy_value = HeaderValue::try_from(format!("\"{policy}\";q={per_second};w=1")).ok()?;
        let after_first = left(policy, per_second.saturating_sub(1), 1)?;
        Some(Self { policy: policy_value, after_first })
    }
}

fn left(policy: &str, remaining: u32, seconds: u64) -> Option<HeaderValue> {
    // Taken as it is, not copied.
    HeaderValue::try_from(format!("\"{policy}\";r={remaining};t={seconds}")).ok()
}

impl Budget {
    fn new(policy: &'static str, per_second: u32) -> Option<Self> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let told = Told::new(policy, per_second)?;
        (per_second > 0).then_some(Self { policy, per_second, shards, told })
    }

    /// As the `RateLimit` headers have it.
    fn tell(&self, spent: Result<Allowance, Exceeded>, headers: &mut HeaderMap) {
        let left = match spent {
            Ok(allowance) if allowance.remaining == self.per_second - 1 => {
                Some(self.told.after_first.clone())
            }
            Ok(allowance) => left(self.policy, allowance.remaining, 1),
            Err(exceeded) => left(self.policy, 0, exceeded.seconds()),
        };
        headers.insert(RATE_LIMIT_POLICY.clone(), self.told.policy.clone());
        if let Some(left) = left {
            headers.insert(RATE_LIMIT.clone(), left);
        }
    }

    fn spend(&self, key: u64, now: i64) -> Result<Allowance, Exceeded> {
        let (policy, per_second) = (self.policy, self.per_second);
        let mut spenders = shard_of(&self.shards, key);
        spenders.forget(now);
        let room = spenders.spent_until.len() < KEPT_MAX;
        let taken = match spenders.spent_until.entry(key) {
            Entry::Occupied(mut spent) => {
                take(*spent.get(), now, per_second).inspect(|until| *spent.get_mut() = *until)
            }
            // A million strangers in one second are not told apart any more; those who were there first still are.
            Entry::Vacant(spent) => take(0, now, per_second).inspect(|until| {
                if room {
                    spent.insert(*until);
                }
            }),
        };
        match taken {
            Ok(until) => {
                let left = (SECOND_US - (until - now)).max(0) * i64::from(per_second) / SECOND_US;
                Ok(Allowance { policy, remaining: u32::try_from(left).unwrap_or(0) })
            }
            Err(wait) => {
                let wait = Duration::from_micros(u64::try_from(wait).unwrap_or(0));
                Err(Exceeded { policy, per_second, wait })
            }
        }
    }
}

/// Which of a user's budgets a call is taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Look,
    Write,
}

impl Kind {
    pub(crate) fn of(method: &axum::http::Method) -> Self {
        if method.is_safe() { Self::Look } else { Self::Write }
    }
}

/// A user, as budgets and places know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserKey(u64);

pub(crate) struct Limits {
    users: Option<Budget>,
    addresses: Option<Budget>,
    underway_max: usize,
    places: Arc<Places>,
    hasher: RandomState,
    started: Stopwatch,
}

impl Limits {
    pub(crate) fn new(options: LimitOptions) -> Self {
        Self {
            users: Budget::new("user", options.per_user),
            addresses: Budget::new("address", options.per_address),
            underway_max: options.underway,
            places: Arc::new(Places {
                taken: AtomicUsize::new(0),
                of_user_max: options.per_user,
                of_users: (0..SHARDS).map(|_| Mutex::default()).collect(),
            }),
            hasher: RandomState::new(),
            started: Stopwatch::start(),
        }
    }

    /// Tells a caller what became of a budget in this call.
    pub(crate) fn tell(&self, spent: Result<Allowance, Exceeded>, headers: &mut HeaderMap) {
        let policy = spent.map_or_else(|exceeded| exceeded.policy, |allowance| allowance.policy);
        let budgets = [&self.users, &self.addresses].into_iter().flatten();
        if let Some(budget) = budgets.into_iter().find(|budget| budget.policy == policy) {
            budget.tell(spent, headers);
        }
    }

    /// Whether anybody has a budget at all.
    pub(crate) fn are_any(&self) -> bool {
        self.users.is_some() || self.addresses.is_some()
    }

    fn now(&self) -> i64 {
        // The first second counts from a full budget.
        i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX / 2) + SECOND_US
    }

    fn spend(&self, budget: Option<&Budget>, key: u64) -> Result<Option<Allowance>, Exceeded> {
        let Some(budget) = budget else { return Ok(None) };
        budget.spend(key, self.now()).map(Some)
    }

    pub(crate) fn key(&self, user: &str) -> UserKey {
        UserKey(self.hasher.hash_one(user))
    }

    pub(crate) fn user(&self, UserKey(key): UserKey, kind: Kind) -> Result<Option<Allowance>, Exceeded> {
        let key = match kind {
            Kind::Look => key,
            Kind::Write => !key,
        };
        self.spend(self.users.as_ref(), key)
    }

    pub(crate) fn address(&self, address: IpAddr) -> Result<Option<Allowance>, Exceeded> {
        // Whoever has one address of IPv6 has as many as there are in its network.
        let network = match address.to_canonical() {
            IpAddr::V4(address) => u128::from(u32::from(address)),
            IpAddr::V6(address) => u128::from(address) >> 64 | 1 << 64,
        };
        self.spend(self.addresses.as_ref(), self.hasher.hash_one(network))
    }

    /// A place among the calls that are under way. One user cannot have more of them at one time than calls in a second:
    /// a few who wait, or stream, could otherwise keep everybody else out.
    pub(crate) fn enter(&self, UserKey(user): UserKey) -> Result<Underway, Full> {
        let place = self.places.take(user).ok_or(Full::OfUser)?;
        if self.places.taken.load(Ordering::Relaxed) > self.underway_max { Err(Full::All) } else { Ok(place) }
    }
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    OfUser,
}

impl From<Full> for Problem {
    fn from(full: Full) -> Self {
        match full {
            Full::All => {
                Self::new(Code::Overloaded, "nothing was changed; too many calls are under way, try again")
            }
            Full::OfUser => {
                let detail = "nothing was changed; too many calls and streams of this user are under way";
                Self { retry_after_s: Some(1), ..Self::new(Code::RateLimited, detail) }
            }
        }
    }
}

struct Places {
    taken: AtomicUsize,
    /// 0 is without limit.
    of_user_max: u32,
    /// How many each user has, as long as it is any.
    of_users: Box<[Mutex<ByHash<u32>>]>,
}

impl Places {
    fn take(self: &Arc<Self>, user: u64) -> Option<Underway> {
        if self.of_user_max > 0 {
            let mut of_users = self.of_user(user);
            let taken = of_users.entry(user).or_default();
            if *taken >= self.of_user_max {
                return None;
            }
            *taken += 1;
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(Underway { places: Arc::clone(self), user, among_all: true })
    }

    fn of_user(&self, user: u64) -> MutexGuard<'_, ByHash<u32>> {
        shard_of(&self.of_users, user)
    }
}

/// A call under way, or a stream; given back when it is done.
pub(crate) struct Underway {
    places: Arc<Places>,
    user: u64,
    /// Whether it counts among everybody's.
    among_all: bool,
}

impl Underway {
    /// The call was answered and goes on as a stream: it still is one of the user's, but thousands who only follow their requests
    /// do not keep others from applying.
    pub(crate) fn streams(mut self) -> Self {
        self.leave_all();
        self
    }

    fn leave_all(&mut self) {
        if std::mem::take(&mut self.among_all) {
            self.places.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.leave_all();
        if self.places.of_user_max > 0 {
            let mut of_users = self.places.of_user(self.user);
            if let Entry::Occupied(mut taken) = of_users.entry(self.user) {
                *taken.get_mut() -= 1;
                if *taken.get() == 0 {
                    taken.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Full, Kind, LimitOptions, Limits, SECOND_US, take};
    use std::net::IpAddr;

    #[test]
    fn a_budget_holds_a_second_and_fills_evenly() {
        // (per second, how many at once, then after so many microseconds, how many more)
        for (per_second, at_once, later_us, more) in [
            (50, 50, 20_000, 1),
            (50, 50, 100_000, 5),
            (50, 50, 10 * SECOND_US, 50),
            (1, 1, SECOND_US, 1),
            (3, 3, 0, 0),
        ] {
            let mut until = 0;
            let mut spend = |now: i64| {
                let mut count = 0;
                while let Ok(next) = take(until, now, per_second) {
                    until = next;
                    count += 1;
                }
                count
            };
            assert_eq!(spend(7 * SECOND_US), at_once, "{per_second} at once");
            assert_eq!(spend(7 * SECOND_US + later_us), more, "{per_second} after {later_us}");
        }
    }

    #[test]
    fn what_is_left_and_how_long_to_wait() {
        let budget = Budget::new("user", 10).unwrap();
        for left in (0..10).rev() {
            assert_eq!(budget.spend(1, SECOND_US).unwrap().remaining, left);
        }
        assert_eq!(budget.spend(1, SECOND_US).unwrap_err().wait.as_millis(), 100);
        assert_eq!(budget.spend(2, SECOND_US).unwrap().remaining, 9, "somebody else's is full");
    }

    #[test]
    fn a_flood_of_strangers_is_forgotten_and_frees_nobody() {
        let budget = Budget::new("address", 2).unwrap();
        assert!(budget.spend(0, SECOND_US).is_ok() && budget.spend(0, SECOND_US).is_ok());
        for stranger in 1..100_000 {
            let _ = budget.spend(stranger, SECOND_US);
        }
        assert!(budget.spend(0, SECOND_US).is_err(), "whoever was known still is");
        let kept = || budget.shards[0].lock().unwrap().spent_until.len();
        assert!(kept() <= super::KEPT_MAX);
        assert!(budget.spend(200_000, 20 * SECOND_US).is_ok());
        assert_eq!(kept(), 1, "the quiet ones are gone");
    }

    #[test]
    fn those_with_a_full_budget_are_soon_forgotten() {
        let budget = Budget::new("user", 50).unwrap();
        // A stranger in each millisecond, each of whom has earned their call again after twenty.
        for stranger in 0..10_000 {
            assert_eq!(
                budget.spend(stranger, SECOND_US + stranger.cast_signed() * 1_000).unwrap().remaining,
                49
            );
            assert!(budget.shards[0].lock().unwrap().spent_until.len() <= super::KEPT_MIN);
        }
    }

    #[test]
    fn writing_and_looking_are_apart_and_networks_together() {
        let limits = Limits::new(LimitOptions { per_user: 1, per_address: 1, underway: 1 });
        assert!(limits.user(limits.key("u"), Kind::Look).is_ok());
        assert!(limits.user(limits.key("u"), Kind::Look).is_err());
        assert!(limits.user(limits.key("u"), Kind::Write).is_ok(), "a budget of its own");
        let address = |text: &str| limits.address(text.parse::<IpAddr>().unwrap());
        assert!(address("2001:db8::1").is_ok());
        assert!(address("2001:db8::2").is_err(), "of the same network");
        assert!(address("2001:db8:0:1::2").is_ok());
        assert!(address("192.0.2.1").is_ok());
        assert!(address("::ffff:192.0.2.1").is_err(), "the same, written otherwise");
        let off = Limits::new(LimitOptions::default());
        assert_eq!(off.user(off.key("u"), Kind::Look), Ok(None));
    }

    #[test]
    fn places_are_given_back() {
        let limits = Limits::new(LimitOptions { underway: 3, per_user: 2, per_address: 0 });
        let first = limits.enter(limits.key("a"));
        let second = limits.enter(limits.key("a"));
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(limits.enter(limits.key("a")).err(), Some(Full::OfUser));
        let third = limits.enter(limits.key("b"));
        assert!(third.is_ok());
        assert_eq!(limits.enter(limits.key("c")).err(), Some(Full::All));
        let streaming = third.map(super::Underway::streams);
        assert!(limits.enter(limits.key("c")).is_ok(), "a stream leaves room for others");
        let another = limits.enter(limits.key("b"));
        assert!(another.is_ok());
        assert_eq!(limits.enter(limits.key("b")).err(), Some(Full::OfUser), "and counts as its user's");
        drop((first, second, streaming, another));
        assert!(limits.enter(limits.key("a")).is_ok());
        assert!(limits.places.of_users.iter().all(|shard| shard.lock().unwrap().is_empty()));
    }
}
