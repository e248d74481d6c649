//! Redis as the gate and the log: who asked is kept there until the store has it.

use super::port::{Entry, Take, Waiting};
use super::{Coupons, Issuer, confirm, held as lock, news, take_of};
use crate::clock::millis;
use crate::engine::Engine;
use crate::entropy::Entropy;
use crate::failpoint;
use crate::failure::Failure;
use guerdon_core::coupons::{Coupon, CouponResult, State, UserCoupon, UserCouponId, check_issuing, refusal};
use guerdon_core::idempotency::Advice;
use guerdon_core::{Code, CouponId, Rejection, Timestamp, UserId};
use guerdon_store::coupons::queue::{self, Kind, Task};
use guerdon_store::coupons::{counting, held};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Tx, each};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Entries that are stored in one transaction.
const BATCH: usize = 300;
/// How often all streams are looked at for what others left behind.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(200);
/// Promises that are looked at in one go.
const LOOKED_FOR_LOST: usize = 2_000;
/// Rounds of one coupon before others have their turn.
const ROUNDS_MAX: usize = 4;
/// Promises that this process remembers; beyond that it cannot tell which ones Redis lost.
const ACCEPTED_MAX: usize = 200_000;

/// A promise that was made here, and is not known to be kept.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub(super) coupon_id: CouponId,
    pub(super) user_id: UserId,
    pub(super) at: Timestamp,
}

impl Coupons {
    fn promise(&self, coupon: &Coupon, take: &Take) {
        let mut accepted = lock(&self.accepted);
        if accepted.len() < ACCEPTED_MAX {
            let (coupon_id, user_id) = (coupon.id.clone(), take.user_id.clone());
            accepted.insert(take.id, Accepted { coupon_id, user_id, at: take.at });
        }
    }
}

impl Engine {
    /// Has a wish counted and kept by Redis.
    pub(super) async fn ask_counter(
        self: &Arc<Self>,
        coupon: &Arc<Coupon>,
        take: Take,
    ) -> Result<(UserCoupon, bool), Failure> {
        if let Err(rejection) = check_issuing(coupon, take.at) {
            // What was asked for in time is still what it was.
            let before = self.coupon_under_key(coupon, &take.user_id, &take.key).await?;
            let refused = || Failure::from(Advice::EitherKey.on(rejection));
            return before.map(|held| (held, true)).ok_or_else(refused);
        }
        failpoint::at("Redis is asked");
        let full = || Failure::from(Fault::Busy);
        let pending = self.tell(coupon, take.clone()).ok_or_else(full)?;
        let Some((_, counted)) = pending.await.unwrap_or(None) else {
            let detail =
                "Redis, which counts the coupons, cannot be asked just now; try again with the same key";
            return Err(Rejection::new(Code::IssuerUnavailable, detail).into());
        };
        failpoint::at("Redis has answered");
        match counted.result {
            CouponResult::Issued if counted.id == take.id => {
                self.coupons.promise(coupon, &take);
                lock(&self.coupons.fresh).insert(coupon.id.clone());
                self.coupons.stream_bell.notify_one();
                Ok((pending_of(coupon, &take), false))
            }
            // The same key before.
            CouponResult::Issued => {
                let before = self.read(move |tx| held::find(tx, counted.id)).await?;
                let waiting = || pending_of(coupon, &Take { id: counted.id, ..take.clone() });
                Ok((before.unwrap_or_else(waiting), true))
            }
            why => Err(Advice::EitherKey.on(refusal(coupon, why)).into()),
        }
    }

    /// Stores entries of one coupon's log, has those counted again that were counted before Redis was counted anew, and
    /// takes all of them from the log.
    pub(super) async fn store_issued(
        self: &Arc<Self>,
        coupon: &Arc<Coupon>,
        entries: Vec<Entry>,
    ) -> Result<Kept, Failure> {
        let wishes = entries.into_iter().map(|entry| (entry, CouponResult::Issued)).collect();
        let mut stored = self.store_wishes(coupon, wishes, false).await?;
        failpoint::at("coupons were stored");
        if !stored.again.is_empty() {
            let again = std::mem::take(&mut stored.again);
            self.put_right(coupon).await;
            let take = |entry: &Entry| take_of(coupon, entry.id, &entry.user_id, &entry.key, entry.at);
            let takes: Vec<_> = again.iter().map(take).collect();
            let away = || Fault::Unavailable("Redis cannot be asked".into());
            // To the log as well: should we die now, it is found there.
            let (epoch, counted) = self.count(coupon, &takes, true).await.ok_or_else(away)?;
            let wishes = again.into_iter().zip(counted);
            let wishes = wishes.map(|(entry, counted)| (Entry { epoch, ..entry }, counted.result)).collect();
            let second = self.store_wishes(coupon, wishes, false).await?;
            stored.kept.issued += second.kept.issued;
            stored.kept.surplus = stored.kept.surplus.or(second.kept.surplus);
            stored.done.extend(second.done);
            // Counted anew once more meanwhile: what is left is still in the log, and taken over later.
        }
        self.let_go(coupon, &stored).await;
        Ok(stored.kept)
    }

    /// What is stored is no promise any more, and leaves the log.
    pub(super) async fn let_go(&self, coupon: &Coupon, stored: &Stored) {
        {
            let mut promises = lock(&self.coupons.accepted);
            for (id, _) in &stored.done {
                promises.remove(id);
            }
        }
        let Some(counter) = &self.coupons.counter else { return };
        if let Err(away) = counter.settle(&coupon.id, &stored.done, Duration::ZERO).await {
            tracing::debug!(%away, "Redis keeps what the store has; it is told again");
        }
    }

    pub(super) async fn store_wishes(
        &self,
        coupon: &Arc<Coupon>,
        wishes: Vec<(Entry, CouponResult)>,
        recounting: bool,
    ) -> Result<Stored, Failure> {
        let (coupons, publishing) = (Arc::clone(&self.coupons), self.intake().publishing);
        let coupon = Arc::clone(coupon);
        self.commit_patiently(StoreIssued { coupon, wishes, recounting, coupons, publishing }).await
    }

    /// An issue that is nowhere but in Redis.
    pub(super) async fn waiting_coupon(
        &self,
        coupon: &Arc<Coupon>,
        id: UserCouponId,
    ) -> Result<Option<UserCoupon>, Failure> {
        let Some(counter) = self.coupons.counter.clone() else { return Ok(None) };
        if self.coupons.options.issuer != Issuer::RedisStream {
            return Ok(None);
        }
        let unavailable = |_| {
            let detail = "Redis may know of it and cannot be asked just now; try again";
            Rejection::new(Code::IssuerUnavailable, detail)
        };
        let found = counter.waiting(&coupon.id, id).await.map_err(unavailable)?;
        Ok(found.map(|Waiting { user_id, key, at }| UserCoupon {
            id,
            coupon_id: coupon.id.clone(),
            user_id,
            key,
            version: 0,
            requested_at: at,
            state: State::Pending,
        }))
    }

    /// Finds promises of this process that are neither in the store nor in Redis: those are lost, and named.
    pub(crate) async fn look_for_lost_coupons(self: Arc<Self>) {
        let Some(counter) = self.coupons.counter.clone() else { return };
        let before = self.now().plus_millis(-millis(self.coupons.options.lease));
        // A part at a time, all of them in turn.
        let due: BTreeMap<_, _> = {
            let accepted = lock(&self.coupons.accepted);
            let mut seen = lock(&self.coupons.looked_for_lost);
            let after = seen.take().map_or(Bound::Unbounded, Bound::Excluded);
            let due = accepted.range((after, Bound::Unbounded)).filter(|(_, promise)| promise.at <= before);
            let due: BTreeMap<_, _> =
                due.take(LOOKED_FOR_LOST).map(|(id, promise)| (*id, promise.clone())).collect();
            *seen = due.keys().next_back().copied();
            due
        };
        if due.is_empty() {
            return;
        }
        let ids: Vec<_> = due.keys().copied().collect();
        let Ok(found) = self.read(move |tx| held::find_many(tx, &ids)).await else { return };
        let mut settled: BTreeSet<_> = found.iter().map(|held| held.id).collect();
        for (id, promise) in due {
            if settled.contains(&id) {
                continue;
            }
            match counter.waiting(&promise.coupon_id, id).await {
                // Redis is not there to be asked, or has it still.
                Err(_) | Ok(Some(_)) => continue,
                Ok(None) => {}
            }
            // It may have been stored between the two looks.
            match self.read(move |tx| held::find(tx, id)).await {
                Err(_) => continue,
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.metrics.coupons_lost.inc();
                    let (coupon, user) = (&promise.coupon_id, &promise.user_id);
                    tracing::error!(user_coupon_id = %id, %coupon, %user, "Redis lost an issue that was accepted");
                }
            }
            settled.insert(id);
        }
        let mut accepted = lock(&self.coupons.accepted);
        for id in settled {
            accepted.remove(&id);
        }
    }
}

fn pending_of(coupon: &Coupon, take: &Take) -> UserCoupon {
    UserCoupon {
        id: take.id,
        coupon_id: coupon.id.clone(),
        user_id: take.user_id.clone(),
        key: take.key.clone(),
        version: 0,
        requested_at: take.at,
        state: State::Pending,
    }
}

/// Takes entries from the logs, for as long as the engine is there.
pub(super) async fn run(engine: &Weak<Engine>) {
    let mut next_look = Timestamp::from_millis(0);
    let mut unwritten: BTreeMap<CouponId, Vec<Entry>> = BTreeMap::new();
    loop {
        let Some(strong) = engine.upgrade() else { return };
        let now = strong.now();
        let mut wanted = std::mem::take(&mut *lock(&strong.coupons.fresh));
        wanted.extend(unwritten.keys().cloned());
        let mut failed = false;
        for coupon_id in wanted {
            let kept = unwritten.remove(&coupon_id).unwrap_or_default();
            match consume(&strong, &coupon_id, kept, false).await {
                Ok(true) => {}
                Ok(false) => drop(lock(&strong.coupons.fresh).insert(coupon_id)),
                Err(left) => {
                    failed = true;
                    if !left.is_empty() {
                        unwritten.insert(coupon_id, left);
                    }
                }
            }
        }
        if now >= next_look {
            next_look = now.plus_millis(millis(LOOK_INTERVAL));
            failed |= !look_at_all(&strong, &mut unwritten).await;
        }
        let coupons = Arc::clone(&strong.coupons);
        drop(strong);
        if failed {
            tokio::time::sleep(RETRY).await;
        } else if lock(&coupons.fresh).is_empty() {
            tokio::select! {
                () = coupons.stream_bell.notified() => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }
}

/// Looks into every log for what others left behind.
async fn look_at_all(engine: &Arc<Engine>, unwritten: &mut BTreeMap<CouponId, Vec<Entry>>) -> bool {
    let Some(counter) = engine.coupons.counter.clone() else { return true };
    let Ok(live) = engine.live_coupons().await else { return false };
    let mut well = true;
    for coupon in live.into_iter().filter(|coupon| !unwritten.contains_key(&coupon.id)).collect::<Vec<_>>() {
        match counter.log(&coupon.id, 1).await {
            // Nothing there: whether it has to be counted anew is found out by whoever asks for one.
            Ok(entries) if entries.is_empty() => continue,
            Ok(_) => {}
            Err(_) => {
                well = false;
                continue;
            }
        }
        match consume(engine, &coupon.id, Vec::new(), true).await {
            Ok(true) => {}
            Ok(false) => drop(lock(&engine.coupons.fresh).insert(coupon.id.clone())),
            Err(left) if left.is_empty() => well = false,
            Err(left) => drop(unwritten.insert(coupon.id.clone(), left)),
        }
    }
    well
}

/// Stores what is in a coupon's log and nobody else has, in a few rounds; whether that was all. What is left in hand, where
/// that could not be stored.
async fn consume(
    engine: &Arc<Engine>,
    coupon_id: &CouponId,
    mut entries: Vec<Entry>,
    mut takes_over: bool,
) -> Result<bool, Vec<Entry>> {
    let Some(counter) = engine.coupons.counter.clone() else { return Ok(true) };
    let Ok(coupon) = engine.coupon(coupon_id).await else { return Err(entries) };
    let (worker, lease) = (engine.worker_id(), engine.coupons.options.lease);
    for _ in 0..ROUNDS_MAX {
        if entries.is_empty() {
            // What others left behind comes first.
            let left_behind = std::mem::take(&mut takes_over);
            let read = if left_behind {
                counter.take_over(coupon_id, worker, lease, BATCH).await
            } else {
                counter.read(coupon_id, worker, BATCH).await
            };
            entries = match read {
                Ok(Some(entries)) => entries,
                // Another one than before: find out what it knows.
                Ok(None) if engine.put_right(&coupon).await => continue,
                Ok(None) => return Err(Vec::new()),
                Err(away) => {
                    tracing::debug!(%away, "the log of coupons cannot be read");
                    return Err(Vec::new());
                }
            };
            match (entries.is_empty(), left_behind) {
                (true, true) => continue,
                (true, false) => return Ok(true),
                (false, _) => failpoint::at("coupons were read"),
            }
        }
        match engine.store_issued(&coupon, entries.clone()).await {
            Ok(kept) => {
                entries.clear();
                if let Some(epoch) = kept.surplus {
                    engine.have_counted_anew(coupon_id, epoch).await;
                }
            }
            Err(failure) => {
                tracing::warn!(coupon = %coupon_id, %failure, "coupons are stored later");
                return Err(entries);
            }
        }
    }
    Ok(false)
}

struct StoreIssued {
    coupon: Arc<Coupon>,
    wishes: Vec<(Entry, CouponResult)>,
    /// Whether Redis is being counted: then nothing of this is counted there yet.
    recounting: bool,
    coupons: Arc<Coupons>,
    publishing: Publishing,
}

#[derive(Default)]
pub(super) struct Stored {
    /// What is in the store, by its id and what the log calls it.
    done: Vec<(UserCouponId, String)>,
    /// Counted in another epoch.
    again: Vec<Entry>,
    pub(super) kept: Kept,
    moved: Vec<UserCouponId>,
}

/// What came of entries that were stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    pub(super) issued: i64,
    /// In which epoch the store refused what was counted elsewhere: then that count is wrong.
    pub(super) surplus: Option<i64>,
}

impl Command for StoreIssued {
    type Output = Stored;
    const NAME: &'static str = "store_coupons";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Stored>, Fault> {
        let stored = each(batch, |store| store.run(tx))?;
        failpoint::at("coupons are stored, before the commit");
        Ok(stored)
    }

    fn committed(done: &[(&Self, &Stored)]) {
        for (store, stored) in done {
            store.coupons.moved(stored.moved.iter().copied());
        }
    }
}

impl StoreIssued {
    fn run(&self, tx: &mut Tx<'_>) -> Result<Stored, Fault> {
        let coupon = &self.coupon;
        let missing = || Fault::Inconsistent(format!("{} is not counted", coupon.id));
        let count = counting::lock(tx, &coupon.id)?.ok_or_else(missing)?;
        let ids: Vec<_> = self.wishes.iter().map(|(entry, _)| entry.id).collect();
        let there: BTreeSet<_> = held::find_many(tx, &ids)?.into_iter().map(|held| held.id).collect();
        let wanted: Vec<_> =
            self.wishes.iter().map(|(entry, _)| (entry.user_id.as_str(), entry.key.as_str())).collect();
        let known = held::of_users(tx, &coupon.id, &wanted)?;
        let mut stored = Stored::default();
        let mut wishes: Vec<(UserCoupon, CouponResult)> = Vec::new();
        let mut returned = Vec::new();
        let mut seen = BTreeSet::new();
        for (entry, result) in &self.wishes {
            let twice = !seen.insert(entry.id);
            let same_key = |held: &UserCoupon| {
                held.coupon_id == coupon.id && held.user_id == entry.user_id && held.key == entry.key
            };
            let stands = known.get(entry.user_id.as_str()).is_some_and(|all| all.iter().any(same_key));
            if twice || there.contains(&entry.id) {
                stored.done.push((entry.id, entry.entry.clone()));
            } else if stands || wishes.iter().any(|(wish, _)| same_key(wish)) {
                // Redis did not know that something stands under this key, or was barred: what it counted goes back.
                stored.done.push((entry.id, entry.entry.clone()));
                if *result == CouponResult::Issued && entry.epoch == count.epoch && !self.recounting {
                    returned.push(Task {
                        message: *Entropy.request_id(tx.now()).as_bytes(),
                        id: entry.id,
                        coupon_id: coupon.id.clone(),
                        user_id: entry.user_id.clone(),
                        kind: Kind::GiveBack { epoch: count.epoch },
                        trace: None,
                    });
                }
            } else if entry.epoch == count.epoch {
                stored.done.push((entry.id, entry.entry.clone()));
                wishes.push((wish(coupon, entry), *result));
            } else {
                stored.again.push(entry.clone());
            }
        }
        let decided = confirm::decide_counted(coupon, &count, known, &wishes, tx.now());
        confirm::write_new(tx, coupon, &decided.all)?;
        queue::append(tx, &returned)?;
        news::tell(tx, self.publishing, &decided.all)?;
        let issued = decided.all.iter().filter(|held| held.status().is_issued()).count();
        stored.kept.issued = i64::try_from(issued).unwrap_or(i64::MAX);
        stored.kept.surplus = decided.surplus.then_some(count.epoch).filter(|_| !self.recounting);
        stored.moved = decided.all.iter().map(|held| held.id).collect();
        Ok(stored)
    }
}

fn wish(coupon: &Coupon, entry: &Entry) -> UserCoupon {
    UserCoupon {
        id: entry.id,
        coupon_id: coupon.id.clone(),
        user_id: entry.user_id.clone(),
        key: entry.key.clone(),
        version: 0,
        requested_at: entry.at,
        state: State::Pending,
    }
}
