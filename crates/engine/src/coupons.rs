//! Coupons: issued by the store alone, or with Redis as the gate in front of it.
//!
//! Whoever counts, the store has the last word: a coupon is confirmed under the count's lock, within what there is and in
//! a place that no other has, and only if it was counted in the count's present epoch. What Redis lost or remembers wrongly
//! can make people wait or send them away; it cannot give a coupon too many.

mod confirm;
mod drift;
mod expiry;
mod holders;
mod intake;
mod moves;
mod news;
mod operators;
mod port;
mod provider;
mod reads;
mod recount;
mod stream;
mod teller;
mod turns;
mod worker;

pub use drift::{Compared, Comparison};
pub use intake::IssuedCoupon;
pub use port::{Away, Begins, Counted, Counter, CouponCounter, Entry, Reads, Take, Taken, Tells, Waiting};
pub(crate) use provider::CouponProvider;

use crate::engine::{Engine, WATCH_INTERVAL};
use crate::failure::Failure;
use crate::metrics::IssueLabels;
use crate::quiet::Looked;
use guerdon_core::coupons::{Coupon, UserCouponId};
use guerdon_core::{Code, CouponId, Rejection, Timestamp, UserId};
use guerdon_store::{Engine as Database, coupons};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use stream::Accepted;
use teller::Teller;
use tokio::sync::{Notify, watch};
use turns::Turns;

/// Who counts coupons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issuer {
    /// The store, in the transaction that issues.
    Store,
    /// Redis, after the store has written down who asked.
    RedisOutbox,
    /// Redis, which also keeps who asked until the store has it.
    RedisStream,
}

impl Issuer {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::RedisOutbox => "redis-outbox",
            Self::RedisStream => "redis-stream",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Store, Self::RedisOutbox, Self::RedisStream].into_iter().find(|one| one.as_str() == text)
    }
}

/// How coupons are issued.
#[derive(Clone, Copy, Debug)]
pub struct CouponOptions {
    pub issuer: Issuer,
    /// How long a worker keeps what it took up.
    pub lease: Duration,
}

/// Coupons that are kept in mind; beyond that they are read again.
const KNOWN_MAX: usize = 10_000;
/// In leases.
const REMEMBERED: u32 = 6;
const EXPIRY_INTERVAL: Duration = Duration::from_secs(5);
const LEFTOVERS_INTERVAL: Duration = Duration::from_secs(1);
const DRIFT_INTERVAL: Duration = Duration::from_secs(2);
/// How long after its end something can still become of a coupon.
const OVER_MS: i64 = 86_400_000;

pub(crate) struct Coupons {
    pub(crate) options: CouponOptions,
    pub(crate) counter: Option<Arc<dyn CouponCounter>>,
    /// A coupon does not change once it is made.
    known: RwLock<HashMap<CouponId, Arc<Coupon>>>,
    numbers: RwLock<HashMap<i64, CouponId>>,
    turns: Turns,
    awaited: Mutex<HashMap<UserCouponId, watch::Sender<u64>>>,
    /// Rung when there is something to count.
    bell: Notify,
    /// Rung when there is something in a stream.
    stream_bell: Notify,
    /// Coupons whose streams have something new.
    fresh: Mutex<BTreeSet<CouponId>>,
    /// What was promised here and is not known to be stored.
    accepted: Mutex<BTreeMap<UserCouponId, Accepted>>,
    /// Up to where they were looked at.
    looked_for_lost: Mutex<Option<UserCouponId>>,
    /// How the index of who has which was at the last look.
    looked: Looked,
    teller: Teller,
    /// Coupons that Redis and the store did not agree about at the last looks, and at how many.
    drifting: Mutex<HashMap<CouponId, i64>>,
    /// One at a time counts a coupon anew.
    recounting: Mutex<HashMap<CouponId, Arc<tokio::sync::Mutex<()>>>>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Coupons {
    pub(crate) fn new(options: CouponOptions, counter: Option<Arc<dyn CouponCounter>>) -> Self {
        Self {
            options,
            counter,
            known: RwLock::default(),
            numbers: RwLock::default(),
            turns: Turns::default(),
            awaited: Mutex::default(),
            bell: Notify::new(),
            stream_bell: Notify::new(),
            fresh: Mutex::default(),
            accepted: Mutex::default(),
            looked_for_lost: Mutex::default(),
            looked: Looked::default(),
            teller: Teller::default(),
            drifting: Mutex::default(),
            recounting: Mutex::default(),
        }
    }

    /// How long Redis knows a message that is settled: longer than anybody comes back with it who was given up for dead.
    fn remember(&self) -> Duration {
        self.options.lease * REMEMBERED
    }

    fn known(&self, id: &CouponId) -> Option<Arc<Coupon>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(id).map(Arc::clone)
    }

    fn know(&self, coupon: Coupon) -> Arc<Coupon> {
        let coupon = Arc::new(coupon);
        let mut numbers = self.numbers.write().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.clear();
            numbers.clear();
        }
        numbers.insert(coupon.number, coupon.id.clone());
        known.insert(coupon.id.clone(), Arc::clone(&coupon));
        coupon
    }

    /// Tells those who wait that something became of these.
    fn moved(&self, ids: impl IntoIterator<Item = UserCouponId>) {
        let awaited = held(&self.awaited);
        if awaited.is_empty() {
            return;
        }
        for id in ids {
            if let Some(sender) = awaited.get(&id) {
                sender.send_modify(|count| *count += 1);
            }
        }
    }

    /// Comes with every change of a user coupon that this process hears of.
    fn watch(&self, id: UserCouponId) -> watch::Receiver<u64> {
        held(&self.awaited).entry(id).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// Whom somebody still waits for.
    fn awaited(&self) -> Vec<UserCouponId> {
        let mut awaited = held(&self.awaited);
        awaited.retain(|_, sender| sender.receiver_count() > 0);
        awaited.keys().copied().collect()
    }
}

impl Engine {
    /// Starts what counts, confirms and ends coupons.
    pub(crate) fn start_coupons(self: &Arc<Self>) {
        let engine = Arc::downgrade(self);
        self.spawn_watched("coupon_worker", move || {
            let engine = engine.clone();
            async move { worker::run(&engine).await }
        });
        self.every("coupons_expiry", EXPIRY_INTERVAL, Self::expire_coupons);
        if self.store().engine() == Database::Postgres || self.coupons.counter.is_some() {
            self.every("coupons_watch", WATCH_INTERVAL, |engine| async move {
                engine.look_at_awaited_coupons().await;
            });
        }
        if self.coupons.counter.is_none() {
            return;
        }
        self.every("coupons_leftovers", LEFTOVERS_INTERVAL, Self::settle_leftovers);
        self.every("coupons_drift", DRIFT_INTERVAL, Self::look_at_drift);
        if self.coupons.options.issuer == Issuer::RedisStream {
            let engine = Arc::downgrade(self);
            self.spawn_watched("coupon_stream", move || {
                let engine = engine.clone();
                async move { stream::run(&engine).await }
            });
            self.every("coupons_lost", LEFTOVERS_INTERVAL, Self::look_for_lost_coupons);
        }
    }

    fn count_issue(&self, result: &'static str, duplicate: bool) {
        if !duplicate {
            let issuer = self.coupons.options.issuer.as_str();
            self.metrics.coupons_asked.get_or_create(&IssueLabels { issuer, result }).inc();
        }
    }

    /// A coupon by its id.
    pub async fn coupon(&self, id: &CouponId) -> Result<Arc<Coupon>, Failure> {
        if let Some(coupon) = self.coupons.known(id) {
            return Ok(coupon);
        }
        let wanted = id.clone();
        let found = self.read(move |tx| coupons::find(tx, &wanted)).await?;
        let missing = || Rejection::new(Code::CouponNotFound, format!("there is no coupon {id}"));
        Ok(self.coupons.know(found.ok_or_else(missing)?))
    }

    /// A coupon by the number that is in the ids of what is issued of it.
    async fn coupon_by_number(&self, number: i64) -> Result<Option<Arc<Coupon>>, Failure> {
        let known = self.coupons.numbers.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned();
        if let Some(id) = known {
            return self.coupon(&id).await.map(Some);
        }
        let found = self.read(move |tx| coupons::by_number(tx, number)).await?;
        Ok(found.map(|coupon| self.coupons.know(coupon)))
    }

    /// Coupons that are issued, or were until a day ago.
    async fn live_coupons(&self) -> Result<Vec<Arc<Coupon>>, Failure> {
        const PAGE: usize = 500;
        let since = self.now().plus_millis(-OVER_MS);
        let mut all: Vec<Arc<Coupon>> = Vec::new();
        loop {
            let after = all.last().map_or(String::new(), |coupon| coupon.id.to_string());
            let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
            let page = self.read(move |tx| coupons::live(tx, &after, since, limit)).await?;
            let full = page.len() == PAGE;
            all.extend(page.into_iter().map(|coupon| self.coupons.know(coupon)));
            if !full {
                return Ok(all);
            }
        }
    }
}

/// Under what a reward is issued: no client can choose a key with a blank in it.
fn key_of_grant(key: &str) -> String {
    format!("grant {key}")
}

/// What Redis is told about somebody's wish.
fn take_of(coupon: &Coupon, id: UserCouponId, user: &UserId, key: &str, at: Timestamp) -> Take {
    Take {
        coupon_id: coupon.id.clone(),
        limit: coupon.per_user_limit,
        forget_at: coupon.valid_until.plus_millis(OVER_MS),
        id,
        user_id: user.clone(),
        key: key.to_owned(),
        at,
    }
}
