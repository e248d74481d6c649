//! Counting Redis anew, from the store: after it lost what it knew, or was replaced by one that knows less.
//!
//! The store's epoch is raised first: from then on nothing is confirmed that was counted before. Then Redis is told that it
//! is being counted, what its log still holds goes to the store, it learns who has one, and only then how many are left.

use super::{Issuer, Take, held as lock, take_of};
use crate::clock::millis;
use crate::engine::Engine;
use crate::failpoint;
use crate::failure::Failure;
use guerdon_core::coupons::{Count, Coupon, CouponResult, UserCoupon};
use guerdon_core::{CouponId, Timestamp};
use guerdon_store::coupons::{self, counting, held};
use guerdon_store::{Command, Fault, Priority, Stopwatch, Tx, each};
use std::sync::Arc;
use std::time::Duration;

/// Users that Redis learns of in one call.
const CHUNK: usize = 500;

/// Why it was not counted, or not to the end.
enum Broken {
    /// Somebody else does it, or has.
    Theirs,
    Away(String),
    Store(Failure),
}

impl From<super::Away> for Broken {
    fn from(away: super::Away) -> Self {
        Self::Away(away.0)
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Store(failure)
    }
}

/// How long is waited for a coupon to be counted anew; it goes on by itself.
const PATIENCE: Duration = Duration::from_secs(2);

impl Engine {
    /// Does what is needed after an answer that was no count, or one of another epoch; whether it is worth asking again at
    /// once.
    pub(super) async fn put_right(self: &Arc<Self>, coupon: &Arc<Coupon>) -> bool {
        let one = {
            let mut all = lock(&self.coupons.recounting);
            Arc::clone(all.entry(coupon.id.clone()).or_default())
        };
        // Whoever waited for another to do it asks again first.
        let Ok(held) = Arc::clone(&one).try_lock_owned() else {
            return tokio::time::timeout(PATIENCE, one.lock()).await.is_ok();
        };
        let (engine, coupon) = (Arc::clone(self), Arc::clone(coupon));
        let counting = tokio::spawn(async move {
            let _held = held;
            engine.look_and_count(&coupon).await.map_err(|broken| match broken {
                Broken::Theirs => {}
                Broken::Away(reason) => {
                    tracing::warn!(coupon = %coupon.id, reason, "Redis cannot be counted now");
                }
                Broken::Store(failure) => {
                    tracing::warn!(coupon = %coupon.id, %failure, "Redis cannot be counted now");
                }
            })
        });
        matches!(tokio::time::timeout(PATIENCE, counting).await, Ok(Ok(Ok(()))))
    }

    async fn look_and_count(self: &Arc<Self>, coupon: &Arc<Coupon>) -> Result<(), Broken> {
        let Some(counter) = self.coupons.counter.clone() else { return Err(Broken::Theirs) };
        // With another issuer Redis has to know other things.
        let issuer = self.coupons.options.issuer.as_str();
        let instance = format!("{issuer} {}", counter.meet(&coupon.id).await?);
        let (count, seen) = (self.count_of(&coupon.id).await?, counter.look(&coupon.id).await?);
        // It only forgot what it was taught, or somebody has counted it by now.
        let sound = count.instance.as_deref() == Some(instance.as_str()) && seen.epoch == Some(count.epoch);
        if !sound {
            self.count_anew(coupon, &count, seen.marked, &instance).await?;
        }
        counter.trust(&coupon.id);
        Ok(())
    }

    pub(super) async fn count_of(&self, id: &CouponId) -> Result<Count, Failure> {
        let wanted = id.clone();
        let found = self.read_first(move |tx| coupons::with_count(tx, &wanted)).await?;
        Ok(found
            .map(|(_, count)| count)
            .ok_or_else(|| Fault::Inconsistent(format!("{id} is not counted")))?)
    }

    async fn count_anew(
        self: &Arc<Self>,
        coupon: &Arc<Coupon>,
        before: &Count,
        marked: i64,
        instance: &str,
    ) -> Result<(), Broken> {
        let Some(counter) = self.coupons.counter.clone() else { return Err(Broken::Theirs) };
        let started = Stopwatch::start();
        let lease_ms = millis(self.coupons.options.lease);
        let begin = Recount {
            coupon_id: coupon.id.clone(),
            worker: self.worker_id().to_owned(),
            step: Step::Begin { in_place_of: before.epoch, marked, lease_ms },
        };
        let Some(count) = self.commit(begin).await? else { return Err(Broken::Theirs) };
        let epoch = count.epoch;
        failpoint::at("Redis is about to be counted");
        if before.instance.is_some() || before.epoch > 0 {
            tracing::warn!(coupon = %coupon.id, epoch, issued = count.issued, "Redis is counted anew, from the store");
        }
        if !counter.begin(&coupon.id, epoch).await? {
            return Err(Broken::Theirs);
        }
        let issued = count.issued + self.drain(coupon, epoch).await?;
        let mut after: Vec<u8> = Vec::new();
        loop {
            let (id, from) = (coupon.id.clone(), after.clone());
            let limit = i64::try_from(CHUNK).unwrap_or(i64::MAX);
            let page = self.read_first(move |tx| held::walk(tx, &id, &from, limit)).await?;
            let Some(last) = page.last() else { break };
            after = last.id.as_bytes().to_vec();
            // Where Redis knows the keys, it has to know those of the others too.
            let keys = self.coupons.options.issuer == Issuer::RedisStream;
            let holders: Vec<_> = page
                .iter()
                .filter(|held| keys || held.status().is_issued())
                .map(|held| (holder(coupon, held, keys), held.status().is_issued()))
                .collect();
            if !holders.is_empty() && !counter.learn(epoch, &holders).await? {
                return Err(Broken::Theirs);
            }
            self.go_on_counting(&coupon.id, epoch, lease_ms).await?;
        }
        if !counter.publish(&coupon.id, epoch, coupon.total_quantity - issued).await? {
            return Err(Broken::Theirs);
        }
        let end = Recount {
            coupon_id: coupon.id.clone(),
            worker: self.worker_id().to_owned(),
            step: Step::End { epoch, instance: instance.to_owned() },
        };
        self.commit(end).await?;
        self.metrics.coupon_recounts.inc();
        let millis = started.elapsed().as_millis();
        tracing::info!(coupon = %coupon.id, epoch, issued, millis, "Redis is counted");
        Ok(())
    }

    async fn go_on_counting(&self, id: &CouponId, epoch: i64, lease_ms: i64) -> Result<(), Broken> {
        let worker = self.worker_id().to_owned();
        let renew = Recount { coupon_id: id.clone(), worker, step: Step::Renew { epoch, lease_ms } };
        match self.commit(renew).await? {
            Some(_) => Ok(()),
            None => Err(Broken::Theirs),
        }
    }

    /// Stores what is in the log, in its order: it was promised before whoever comes next. How many were issued of it.
    async fn drain(self: &Arc<Self>, coupon: &Arc<Coupon>, epoch: i64) -> Result<i64, Broken> {
        let Some(counter) = self.coupons.counter.clone() else { return Ok(0) };
        let lease_ms = millis(self.coupons.options.lease);
        let mut issued = 0;
        loop {
            let mut entries = counter.log(&coupon.id, CHUNK).await?;
            if entries.is_empty() {
                return Ok(issued);
            }
            for entry in &mut entries {
                entry.epoch = epoch;
            }
            let wishes = entries.into_iter().map(|entry| (entry, CouponResult::Issued)).collect();
            let stored = self.store_wishes(coupon, wishes, true).await?;
            self.let_go(coupon, &stored).await;
            issued += stored.kept.issued;
            self.go_on_counting(&coupon.id, epoch, lease_ms).await?;
        }
    }
}

fn holder(coupon: &Coupon, held: &UserCoupon, keys: bool) -> Take {
    take_of(coupon, held.id, &held.user_id, if keys { &held.key } else { "" }, held.requested_at)
}

struct Recount {
    coupon_id: CouponId,
    worker: String,
    step: Step,
}

enum Step {
    Begin { in_place_of: i64, marked: i64, lease_ms: i64 },
    Renew { epoch: i64, lease_ms: i64 },
    End { epoch: i64, instance: String },
}

impl Command for Recount {
    /// How the count stands, if it is this worker's to count.
    type Output = Option<Count>;
    const NAME: &'static str = "recount_coupon";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        each(batch, |recount| recount.run(tx))
    }
}

impl Recount {
    fn run(&self, tx: &mut Tx<'_>) -> Result<Option<Count>, Fault> {
        let (id, worker) = (&self.coupon_id, self.worker.as_str());
        let until = |tx: &Tx<'_>, lease_ms: i64| -> Timestamp { tx.now().plus_millis(lease_ms) };
        let ours = match &self.step {
            Step::Begin { in_place_of, marked, lease_ms } => {
                let until = until(tx, *lease_ms);
                counting::begin(tx, id, worker, (*in_place_of, *marked), until)?
            }
            Step::Renew { epoch, lease_ms } => {
                let until = until(tx, *lease_ms);
                counting::renew(tx, id, *epoch, worker, until)?
            }
            Step::End { epoch, instance } => counting::end(tx, id, *epoch, worker, instance)?,
        };
        // Of the very moment at which the epoch was raised.
        if ours { counting::lock(tx, id) } else { Ok(None) }
    }
}
