//! Has Redis count what was written down, and writes down what it said.
//!
//! A message is leased before Redis is asked, and the coupon, the count and the message are written in one transaction
//! afterwards. Redis knows a message that it has counted; so whatever dies in between, the next worker asks again, hears
//! the same, and writes it down.

use super::{Counted, Coupons, Issuer, Take, Taken, confirm, news, take_of};
use crate::clock::millis;
use crate::engine::Engine;
use crate::entropy::Entropy;
use crate::failpoint;
use crate::failure::Failure;
use guerdon_core::coupons::{Coupon, CouponResult, UserCoupon, UserCouponId, UserCouponStatus};
use guerdon_core::{CouponId, Timestamp};
use guerdon_store::coupons::queue::{self, Kind, Task};
use guerdon_store::coupons::{self, counting, held};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Stopwatch, Tx, each};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Messages that are taken up in one transaction.
const BATCH: usize = 400;
/// Messages that are looked at in one go.
const LOOKED_AT: usize = 2_000;
/// How long a coupon that could not be counted is passed over.
const LEFT_ALONE: Duration = Duration::from_secs(1);
/// How often is looked for what nobody was told of.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// Between two tries while Redis or the store is away.
const RETRY: Duration = Duration::from_millis(200);
/// How long is waited for a coupon to be counted anew.
const PUT_RIGHT_MAX: Duration = Duration::from_secs(2);
/// And how often is looked whether it is.
const BUILDING: Duration = Duration::from_millis(20);

/// What is known about a message.
#[derive(Clone, Debug)]
enum Verdict {
    Counted {
        result: CouponResult,
        epoch: i64,
    },
    /// There is nobody else who counts.
    ByStore,
    /// One less was counted, or that does not matter any more.
    GivenBack,
    /// Nobody could be asked.
    Unknown,
}

/// Where the worker is, and whom it leaves alone.
#[derive(Default)]
struct Work {
    /// Up to where the queue was looked at.
    after: Vec<u8>,
    /// Coupons that could not be counted, and until when they are passed over.
    away: HashMap<CouponId, Timestamp>,
}

pub(super) async fn run(engine: &Weak<Engine>) {
    let mut work = Work::default();
    loop {
        let Some(strong) = engine.upgrade() else { return };
        let pause = work.turn(&strong).await;
        let coupons = Arc::clone(&strong.coupons);
        drop(strong);
        if let Some(pause) = pause {
            tokio::select! {
                () = coupons.bell.notified(), if pause == LOOK_INTERVAL => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

impl Work {
    /// What is next, without those whose coupon is left alone: a backlog of one coupon holds up no other. Whether the end
    /// was reached.
    async fn find(&mut self, engine: &Engine) -> Result<(Vec<[u8; 16]>, bool), Failure> {
        let now = engine.now();
        self.away.retain(|_, until| *until > now);
        let (after, limit) = (self.after.clone(), i64::try_from(LOOKED_AT).unwrap_or(i64::MAX));
        let page = engine.read_first(move |tx| queue::peek(tx, &after, now, limit)).await?;
        let mut wanted = Vec::new();
        let mut last = None;
        for task in &page {
            if wanted.len() == BATCH {
                break;
            }
            last = Some(task.message);
            if !self.away.contains_key(&task.coupon_id) {
                wanted.push(task.message);
            }
        }
        let ended = page.len() < LOOKED_AT && last == page.last().map(|task| task.message);
        self.after = if ended { Vec::new() } else { last.map(Vec::from).unwrap_or_default() };
        Ok((wanted, ended))
    }

    /// Does some of what there is to do; how long to wait then, if at all.
    async fn turn(&mut self, engine: &Arc<Engine>) -> Option<Duration> {
        let lease_ms = millis(engine.coupons.options.lease);
        let until = engine.now().plus_millis(lease_ms);
        let (messages, ended) = match self.find(engine).await {
            Ok(found) => found,
            Err(failure) => {
                tracing::debug!(%failure, "coupons are counted later");
                return Some(RETRY);
            }
        };
        if messages.is_empty() {
            return ended.then_some(LOOK_INTERVAL);
        }
        let take = TakeUp { messages, worker: engine.worker_id().to_owned(), lease_ms };
        let tasks = match engine.commit_patiently(take).await {
            Ok(tasks) => tasks,
            Err(failure) => {
                tracing::debug!(%failure, "coupons are counted later");
                return Some(RETRY);
            }
        };
        failpoint::at("coupons were taken up");
        let judged = engine.judge(tasks, until).await;
        failpoint::at("coupons were counted");
        let unknown = judged.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Unknown));
        let alone_until = engine.now().plus_millis(millis(LEFT_ALONE));
        self.away.extend(unknown.map(|(task, _)| (task.coupon_id.clone(), alone_until)));
        let confirm = Confirm {
            judged,
            worker: engine.worker_id().to_owned(),
            coupons: Arc::clone(&engine.coupons),
            publishing: engine.intake().publishing,
        };
        match engine.commit_patiently(confirm).await {
            Ok(confirmed) => {
                failpoint::at("coupons were confirmed");
                let stale = engine.settle_confirmed(confirmed).await;
                if stale {
                    return Some(RETRY);
                }
                ended.then_some(Duration::ZERO)
            }
            Err(failure) => {
                // What was taken up is due again when its lease ends.
                tracing::warn!(%failure, "coupons are confirmed later");
                Some(RETRY)
            }
        }
    }
}

impl Engine {
    /// Asks whoever counts about each message.
    async fn judge(self: &Arc<Self>, tasks: Vec<Task>, until: Timestamp) -> Vec<(Task, Verdict)> {
        let Some(counter) = self.coupons.counter.clone() else {
            let here = |task: Task| {
                let verdict = if task.kind == Kind::Take { Verdict::ByStore } else { Verdict::GivenBack };
                (task, verdict)
            };
            return tasks.into_iter().map(here).collect();
        };
        let mut by_coupon: BTreeMap<CouponId, (Vec<Task>, Vec<Task>)> = BTreeMap::new();
        for task in tasks {
            let (takes, returns) = by_coupon.entry(task.coupon_id.clone()).or_default();
            if task.kind == Kind::Take { takes.push(task) } else { returns.push(task) }
        }
        let mut judged = Vec::new();
        for (coupon_id, (takes, returns)) in by_coupon {
            let Ok(coupon) = self.coupon(&coupon_id).await else {
                let all = takes.into_iter().chain(returns);
                judged.extend(all.map(|task| (task, Verdict::Unknown)));
                continue;
            };
            // Somebody else may have it by now.
            if self.now() >= until {
                let all = takes.into_iter().chain(returns);
                judged.extend(all.map(|task| (task, Verdict::Unknown)));
                continue;
            }
            let mut answers = true;
            for task in returns {
                let Kind::GiveBack { epoch } = task.kind else { continue };
                let now = self.now();
                // After one that was not answered, nobody is asked about the same coupon.
                answers &= now < until;
                if answers {
                    let told = counter.give_back(&coupon_id, epoch, task.id, &task.user_id, now).await;
                    answers = matches!(told, Ok(Taken::Counted { .. }));
                    if !answers && told.is_ok() {
                        self.put_right(&coupon).await;
                    }
                }
                judged.push((task, if answers { Verdict::GivenBack } else { Verdict::Unknown }));
            }
            if !answers || self.now() >= until {
                judged.extend(takes.into_iter().map(|task| (task, Verdict::Unknown)));
                continue;
            }
            judged.extend(self.judge_takes(&coupon, takes).await);
        }
        judged
    }

    async fn judge_takes(self: &Arc<Self>, coupon: &Arc<Coupon>, tasks: Vec<Task>) -> Vec<(Task, Verdict)> {
        let now = self.now();
        let takes: Vec<_> =
            tasks.iter().map(|task| take_of(coupon, task.id, &task.user_id, "", now)).collect();
        match self.count(coupon, &takes, false).await {
            Some((epoch, counted)) => tasks
                .into_iter()
                .zip(counted)
                .map(|(task, counted)| (task, Verdict::Counted { result: counted.result, epoch }))
                .collect(),
            None => tasks.into_iter().map(|task| (task, Verdict::Unknown)).collect(),
        }
    }

    /// Has wishes for one coupon counted, and the count put right before where that is needed; none where nobody answers.
    pub(super) async fn count(
        self: &Arc<Self>,
        coupon: &Arc<Coupon>,
        takes: &[Take],
        log: bool,
    ) -> Option<(i64, Vec<Counted>)> {
        let counter = self.coupons.counter.clone()?;
        let started = Stopwatch::start();
        loop {
            match counter.take(takes, log).await {
                Ok(Taken::Counted { epoch, all }) if all.len() == takes.len() => return Some((epoch, all)),
                Ok(Taken::Counted { .. }) => {
                    tracing::error!(coupon = %coupon.id, "Redis answered the wrong number of wishes");
                    return None;
                }
                Ok(_) if started.elapsed() > PUT_RIGHT_MAX => return None,
                Ok(_) => {
                    if !self.put_right(coupon).await {
                        tokio::time::sleep(BUILDING).await;
                    }
                }
                Err(away) => {
                    tracing::debug!(coupon = %coupon.id, %away, "whoever counts cannot be asked");
                    return None;
                }
            }
        }
    }

    /// Tells Redis that the store has what it counted, and sees to coupons that it counts wrongly; whether there were any.
    async fn settle_confirmed(self: &Arc<Self>, confirmed: Confirmed) -> bool {
        let Some(counter) = &self.coupons.counter else { return false };
        for (coupon_id, done) in &confirmed.settled {
            let done: Vec<_> = done.iter().map(|id| (*id, String::new())).collect();
            // What is not settled now is found later.
            if let Err(away) = counter.settle(coupon_id, &done, self.coupons.remember()).await {
                tracing::debug!(%away, "Redis keeps what it need not know any more");
            }
        }
        for (coupon_id, epoch) in &confirmed.surplus {
            self.have_counted_anew(coupon_id, *epoch).await;
        }
        for coupon_id in &confirmed.stale {
            if let Ok(coupon) = self.coupon(coupon_id).await {
                self.put_right(&coupon).await;
            }
        }
        !confirmed.stale.is_empty()
    }

    /// Has a coupon counted anew whose count is known to be wrong.
    pub(super) async fn have_counted_anew(&self, coupon_id: &CouponId, epoch: i64) {
        let Some(counter) = &self.coupons.counter else { return };
        tracing::error!(coupon = %coupon_id, "Redis counted what the store refuses; it is counted anew");
        if let Err(away) = counter.forget(coupon_id, epoch).await {
            tracing::debug!(%away, "Redis is counted anew later");
        }
    }

    /// Settles what a worker that died had confirmed.
    pub(crate) async fn settle_leftovers(self: Arc<Self>) {
        let Some(counter) = self.coupons.counter.clone() else { return };
        let Ok(live) = self.live_coupons().await else { return };
        let before = self.now().plus_millis(-millis(self.coupons.options.lease));
        for coupon in live {
            // What a stream holds from when it was the log is stored by counting anew.
            let stream = self.coupons.options.issuer == Issuer::RedisStream;
            if !stream && counter.log(&coupon.id, 1).await.is_ok_and(|entries| !entries.is_empty()) {
                self.put_right(&coupon).await;
            }
            let Ok(ids) = counter.unsettled(&coupon.id, before, BATCH).await else { continue };
            if ids.is_empty() {
                continue;
            }
            let wanted = ids.clone();
            let Ok(found) = self.read(move |tx| held::find_many(tx, &wanted)).await else { continue };
            let decided = found.iter().filter(|held| !held.state.is_pending());
            let done: Vec<_> = decided.map(|held| (held.id, String::new())).collect();
            let settled = counter.settle(&coupon.id, &done, self.coupons.remember()).await;
            if !done.is_empty() && settled.is_ok() {
                tracing::info!(coupon = %coupon.id, count = done.len(), "what a worker left behind is settled");
            }
        }
    }
}

struct TakeUp {
    messages: Vec<[u8; 16]>,
    worker: String,
    lease_ms: i64,
}

impl Command for TakeUp {
    type Output = Vec<Task>;
    const NAME: &'static str = "take_up_coupons";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;
    /// A lease that is lost is one that nobody had.
    const DURABLE: bool = false;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Vec<Task>>, Fault> {
        each(batch, |take| {
            let until = tx.now().plus_millis(take.lease_ms);
            queue::take(tx, &take.messages, &take.worker, until)
        })
    }
}

struct Confirm {
    judged: Vec<(Task, Verdict)>,
    worker: String,
    coupons: Arc<Coupons>,
    publishing: Publishing,
}

#[derive(Default)]
struct Confirmed {
    /// What Redis need not know any more, by coupon.
    settled: BTreeMap<CouponId, Vec<UserCouponId>>,
    moved: Vec<UserCouponId>,
    /// Coupons of which the store refused what Redis had counted.
    surplus: BTreeMap<CouponId, i64>,
    /// Coupons that Redis counted in another epoch than the store's.
    stale: BTreeSet<CouponId>,
}

impl Command for Confirm {
    type Output = Confirmed;
    const NAME: &'static str = "confirm_coupons";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Confirmed>, Fault> {
        let confirmed = each(batch, |confirm| confirm.run(tx))?;
        failpoint::at("coupons are confirmed, before the commit");
        Ok(confirmed)
    }

    fn committed(done: &[(&Self, &Confirmed)]) {
        for (confirm, confirmed) in done {
            confirm.coupons.moved(confirmed.moved.iter().copied());
        }
    }
}

impl Confirm {
    fn run(&self, tx: &mut Tx<'_>) -> Result<Confirmed, Fault> {
        let mut confirmed = Confirmed::default();
        let messages: Vec<_> = self.judged.iter().map(|(task, _)| task.message).collect();
        // What somebody else has taken up since is theirs.
        let ours: BTreeSet<_> = queue::hold(tx, &messages, &self.worker)?.into_iter().collect();
        let (mut done, mut again, mut returned) = (Vec::new(), Vec::new(), Vec::new());
        let mut by_coupon: BTreeMap<&CouponId, Vec<(&Task, &Verdict)>> = BTreeMap::new();
        for (task, verdict) in self.judged.iter().filter(|(task, _)| ours.contains(&task.message)) {
            match verdict {
                Verdict::Unknown => again.push(task.message),
                Verdict::GivenBack => {
                    done.push(task.message);
                    confirmed.settled.entry(task.coupon_id.clone()).or_default().push(task.id);
                    if self.coupons.counter.is_none() {
                        // Nobody told Redis.
                        by_coupon.entry(&task.coupon_id).or_default();
                    }
                }
                Verdict::Counted { .. } | Verdict::ByStore => {
                    by_coupon.entry(&task.coupon_id).or_default().push((task, verdict));
                }
            }
        }
        for (coupon_id, tasks) in by_coupon {
            let missing = || Fault::Inconsistent(format!("{coupon_id} is not counted"));
            let count = counting::lock(tx, coupon_id)?.ok_or_else(missing)?;
            let coupon = coupons::find(tx, coupon_id)?.ok_or_else(missing)?;
            let ids: Vec<_> = tasks.iter().map(|(task, _)| task.id).collect();
            let rows: HashMap<_, _> = held::lock(tx, &ids)?.into_iter().map(|held| (held.id, held)).collect();
            let mut wishes: Vec<(UserCoupon, CouponResult)> = Vec::new();
            for (task, verdict) in tasks {
                let result = match verdict {
                    // Counted before Redis was counted anew: it is asked again.
                    Verdict::Counted { epoch, .. } if *epoch != count.epoch => {
                        again.push(task.message);
                        confirmed.stale.insert(coupon_id.clone());
                        continue;
                    }
                    Verdict::Counted { result, .. } => *result,
                    _ => CouponResult::Issued,
                };
                done.push(task.message);
                confirmed.settled.entry(coupon_id.clone()).or_default().push(task.id);
                match rows.get(&task.id) {
                    Some(row) if row.state.is_pending() => {
                        tx.follow(&row.id, task.trace);
                        wishes.push((row.clone(), result));
                    }
                    // Taken back before it was decided: what Redis has just counted goes back too.
                    Some(row)
                        if row.status() == UserCouponStatus::Revoked && result == CouponResult::Issued =>
                    {
                        returned.push(Task {
                            message: *Entropy.request_id(tx.now()).as_bytes(),
                            kind: Kind::GiveBack { epoch: count.epoch },
                            ..(*task).clone()
                        });
                    }
                    _ => {}
                }
            }
            if self.coupons.counter.is_none() {
                counting::disown(tx, coupon_id, &count)?;
            }
            let counted = wishes.iter().filter(|(_, result)| *result == CouponResult::Issued);
            let wanted: Vec<_> =
                counted.map(|(held, _)| (held.user_id.as_str(), held.key.as_str())).collect();
            let known = held::of_users(tx, coupon_id, &wanted)?;
            let decided = confirm::decide_counted(&coupon, &count, known, &wishes, tx.now());
            held::update(tx, &decided.all)?;
            confirm::count(tx, &coupon, &decided.all)?;
            news::tell(tx, self.publishing, &decided.all)?;
            confirmed.moved.extend(decided.all.iter().map(|held| held.id));
            if decided.surplus && self.coupons.counter.is_some() {
                confirmed.surplus.insert(coupon_id.clone(), count.epoch);
            }
        }
        queue::done(tx, &done, &self.worker)?;
        let not_before = tx.now().plus_millis(millis(RETRY));
        queue::release(tx, &again, &self.worker, not_before)?;
        if self.coupons.counter.is_some() {
            queue::append(tx, &returned)?;
        }
        Ok(confirmed)
    }
}
