//! Delivery through a provider outside: taken up under a lease, called, and written down, step by step.

use super::lane::{BATCH, Lane, Look, pause};
use super::news;
use super::port::{Grant, Provider, Revocation};
use crate::clock::millis;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::gate::{Permit, Turn};
use crate::metrics::{DeliveryLabels, ProviderLabels};
use crate::trace::{self, OpenSpan, SpanKind};
use guerdon_core::allocations::answer::Found;
use guerdon_core::allocations::{
    Allocation, AllocationId, AllocationStatus, Answer, Outcome, Rules, Sent, judge, key, settle, settle_late,
};
use guerdon_core::events::{Event, RewardKind};
use guerdon_core::{EventId, RewardId, Timestamp, UserId};
use guerdon_store::allocations::{give_back, moving};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Stopwatch, Tx, each, events};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// What is settled and taken up in one transaction.
const STEP_MAX: usize = 256;
/// How long to wait while there is no room.
const FULL: Duration = Duration::from_secs(1);
/// Between two tries to write down what became of calls, while the store is away.
const RETRY: Duration = Duration::from_millis(100);

/// How a call ended.
#[derive(Clone, Debug)]
struct Ended {
    id: AllocationId,
    epoch: i64,
    outcome: Outcome,
    /// Whether the provider said that nothing was applied under the key before.
    cleared: bool,
}

/// Works for as long as the engine is there.
pub(super) async fn run(engine: &Weak<Engine>, lane: &Arc<Lane>) {
    let (finished, mut ended) = mpsc::unbounded_channel::<Ended>();
    let mut under_way = 0_usize;
    let (mut look, mut heal) = (Look::now(), Look::now());
    let mut turn = 0_u32;
    let mut unwritten: Vec<Ended> = Vec::new();
    loop {
        let Some(strong) = engine.upgrade() else { return };
        while unwritten.len() < STEP_MAX
            && let Ok(one) = ended.try_recv()
        {
            under_way -= 1;
            lane.gate.note(&one.outcome, strong.now(), &strong.metrics);
            unwritten.push(one);
        }
        if lane.was_asked() {
            look = Look::now();
        }
        let now = strong.now();
        let most = if strong.deliveries.is_stopping() { 0 } else { STEP_MAX };
        let mut permits = lane.gate.reserve(Turn::Deliveries, most, now);
        let room = permits.len();
        if heal.is_due(now) {
            heal_lapsed(&strong, lane, &mut heal).await;
        }
        turn = turn.wrapping_add(1);
        // Now and then what is due comes first, however many are new.
        let fresh = if look.is_due(now) && turn.is_multiple_of(4) { 0 } else { room };
        let wanted = find_work(&strong, lane, (room, fresh), &mut look).await;
        // What is not needed is somebody else's.
        permits.truncate(wanted.len());
        lane.busy.store(under_way + unwritten.len() + wanted.len(), Ordering::Relaxed);
        if unwritten.is_empty() && wanted.is_empty() {
            drop(permits);
            let pause = match lane.gate.shut_until(now) {
                Some(at) => pause(at, now),
                // Whoever is under way will be heard of.
                None if room == 0 => FULL,
                None => look.pause(now),
            };
            drop(strong);
            tokio::select! {
                one = ended.recv() => {
                    if let (Some(one), Some(strong)) = (one, engine.upgrade()) {
                        under_way -= 1;
                        lane.gate.note(&one.outcome, strong.now(), &strong.metrics);
                        unwritten.push(one);
                    }
                }
                () = lane.bell.notified() => {}
                () = lane.gate.freed.notified(), if room == 0 => {}
                () = tokio::time::sleep(pause) => {}
            }
            continue;
        }
        let step = Step {
            ended: std::mem::take(&mut unwritten),
            wanted,
            worker: strong.worker_id().to_owned(),
            lease_ms: millis(strong.deliveries.options.lease),
            rules: strong.deliveries.rules(),
            publishing: strong.intake().publishing,
        };
        // Kept until it is known to be written: to write it twice does no harm.
        let kept = step.ended.clone();
        match strong.commit_patiently(step).await {
            Ok(taken) => {
                for row in &taken.settled {
                    strong.count_delivery(row);
                }
                for (row, event) in taken.rows {
                    under_way += 1;
                    spawn(&strong, lane, (row, event), permits.pop(), finished.clone());
                }
            }
            Err(failure) => {
                tracing::debug!(provider = lane.name, %failure, "deliveries are written later");
                if !matches!(failure, Failure::Broken(Fault::Inconsistent(_))) {
                    unwritten = kept;
                }
                drop(strong);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// What somebody had taken up who is gone is not held by them any more, whether or not there is room for it.
async fn heal_lapsed(engine: &Engine, lane: &Lane, heal: &mut Look) {
    let (now, name) = (engine.now(), lane.name.clone());
    let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
    let Ok(ids) = engine.read_first(move |tx| moving::lapsed(tx, &name, now, limit)).await else { return };
    heal.looked(ids.len(), BATCH, now, engine.deliveries.options.retry_interval);
    if !ids.is_empty()
        && let Err(failure) = engine.commit(Lapse { ids }).await
    {
        tracing::debug!(provider = lane.name, %failure, "leases that ended are looked at later");
    }
}

struct Lapse {
    ids: Vec<AllocationId>,
}

impl Command for Lapse {
    type Output = u64;
    const NAME: &'static str = "lapse_deliveries";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<u64>, Fault> {
        each(batch, |lapse| moving::lapse(tx, &lapse.ids))
    }
}

/// What is to be taken up: what was just won, and what is due.
async fn find_work(
    engine: &Engine,
    lane: &Lane,
    (room, fresh): (usize, usize),
    look: &mut Look,
) -> Vec<AllocationId> {
    let room = room.min(STEP_MAX);
    if room == 0 {
        return Vec::new();
    }
    let mut wanted = lane.take_fresh(fresh.min(room));
    let now = engine.now();
    if wanted.len() < room && look.is_due(now) {
        let most = (room - wanted.len()).min(BATCH);
        let (name, limit) = (lane.name.clone(), i64::try_from(most).unwrap_or(i64::MAX));
        if let Ok(due) = engine.read_first(move |tx| moving::due(tx, &name, now, limit)).await {
            look.looked(due.len(), most, now, engine.deliveries.options.retry_interval);
            wanted.extend(due);
        }
    }
    wanted.extend(lane.take_fresh(room.saturating_sub(wanted.len())));
    wanted
}

fn spawn(
    engine: &Arc<Engine>,
    lane: &Arc<Lane>,
    (row, event): (Allocation, Arc<Event>),
    permit: Option<Permit>,
    finished: mpsc::UnboundedSender<Ended>,
) {
    let (lane, engine) = (Arc::clone(lane), Arc::downgrade(engine));
    // Told whatever happens, so that the lane knows how many are under way.
    let told = Told { finished, ended: Some(Ended::lost(&row)) };
    tokio::spawn(async move {
        let started = Stopwatch::start();
        let (outcome, cleared) = match &lane.provider {
            None => (judge(Sent::Grant, Answer::Missing), false),
            Some(provider) => {
                let span = engine.upgrade().and_then(|engine| {
                    engine.traces.within(row.trace, SpanKind::Client, || format!("deliver {}", lane.name))
                });
                let within = span.as_ref().map(OpenSpan::trace);
                let delivered = trace::within(within, deliver(provider.as_ref(), &row, &event)).await;
                if let Some(mut span) = span {
                    span.text("guerdon.allocation.id", row.id.to_string());
                    span.end(delivered.0.failure());
                }
                delivered
            }
        };
        if let Some(engine) = engine.upgrade() {
            let labels = ProviderLabels { provider: lane.name.clone() };
            engine.metrics.provider_seconds.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
        }
        // There is room again before anybody hears of it.
        drop(permit);
        told.tell(Ended { id: row.id, epoch: row.epoch, outcome, cleared });
    });
}

struct Told {
    finished: mpsc::UnboundedSender<Ended>,
    ended: Option<Ended>,
}

impl Told {
    fn tell(mut self, ended: Ended) {
        self.ended = Some(ended);
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.take() {
            let _ = self.finished.send(ended);
        }
    }
}

impl Ended {
    /// Of a call that nobody heard the end of.
    fn lost(row: &Allocation) -> Self {
        let outcome = Outcome::Unknown { reason: "the call was broken off".into() };
        Self { id: row.id, epoch: row.epoch, outcome, cleared: false }
    }
}

/// One delivery: what is known is asked first where a try is in doubt, and what is to be cancelled is not given.
async fn deliver(provider: &dyn Provider, row: &Allocation, event: &Event) -> (Outcome, bool) {
    let Some(grant) = grant(row, event) else {
        let reason = format!("{} has no reward {}", row.event_id, row.reward_id);
        return (Outcome::Refused { reason }, false);
    };
    let mut cleared = false;
    if row.outcome_unknown {
        match ask(provider, &grant).await {
            Ok(known) => cleared = known,
            Err(outcome) => return (outcome, false),
        }
    }
    if row.cancel_requested_at.is_some() {
        // A call that is still on its way somewhere must not be applied after all.
        let key = key::of_revocation(&row.key);
        let revocation = Revocation { key, grant, transaction_id: row.transaction_id.clone() };
        return (judge(Sent::Revoke, provider.revoke(&revocation).await), false);
    }
    (judge(Sent::Grant, provider.grant(&grant).await), cleared)
}

/// Asks about a key that is in doubt: whether it is known that nothing was applied, or what there is to say already.
pub(crate) async fn ask(provider: &dyn Provider, grant: &Grant) -> Result<bool, Outcome> {
    match provider.look(grant).await {
        Found::Applied { transaction_id } => Err(Outcome::Applied { transaction_id }),
        Found::NotApplied => Ok(true),
        Found::CannotTell => Ok(false),
        // Not even that is known: neither better nor worse than before.
        Found::Failed(answer) => Err(match judge(Sent::Revoke, answer) {
            Outcome::Revoked => Outcome::Unknown { reason: "the provider cannot be asked".into() },
            other => other,
        }),
    }
}

fn grant(row: &Allocation, event: &Event) -> Option<Grant> {
    grant_of(&row.key, &row.member_id, event, &row.reward_id)
}

/// What a provider is told of a reward.
pub(crate) fn grant_of(key: &str, user: &UserId, event: &Event, reward_id: &RewardId) -> Option<Grant> {
    let reward = event.settings.reward(reward_id)?;
    let mut details = reward.details.clone().unwrap_or_default();
    // What a kind implies is told as well, unless the operator said something else.
    let implied: Map<String, Value> = match &reward.kind {
        RewardKind::Item => Map::new(),
        RewardKind::Coupon { coupon_id } => Map::from_iter([("couponId".into(), coupon_id.as_str().into())]),
        RewardKind::Point { amount, currency } => Map::from_iter([
            ("amount".into(), serde_json::to_value(amount).unwrap_or_default()),
            ("currency".into(), currency.as_str().into()),
        ]),
    };
    for (name, value) in implied {
        details.entry(name).or_insert(value);
    }
    Some(Grant {
        key: key.to_owned(),
        user_id: user.to_string(),
        event_id: event.id.to_string(),
        reward_id: reward_id.to_string(),
        kind: reward.kind.name(),
        quantity: reward.quantity,
        details,
    })
}

/// Writes what became of calls, and takes up more, in one transaction.
struct Step {
    ended: Vec<Ended>,
    wanted: Vec<AllocationId>,
    worker: String,
    lease_ms: i64,
    rules: Rules,
    publishing: Publishing,
}

#[derive(Default)]
struct Taken {
    settled: Vec<Allocation>,
    rows: Vec<(Allocation, Arc<Event>)>,
}

impl Command for Step {
    type Output = Taken;
    const NAME: &'static str = "deliver";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Taken>, Fault> {
        each(batch, |step| step.run(tx))
    }
}

impl Step {
    fn run(&self, tx: &mut Tx<'_>) -> Result<Taken, Fault> {
        let settled = self.settle(tx)?;
        let deadline = tx.now().plus_millis(self.lease_ms);
        let rows = if self.wanted.is_empty() {
            Vec::new()
        } else {
            moving::take(tx, &self.wanted, &self.worker, deadline)?
        };
        let mut known: HashMap<EventId, Arc<Event>> = HashMap::new();
        let mut taken = Vec::with_capacity(rows.len());
        for row in rows {
            let event = match known.get(&row.event_id) {
                Some(event) => Arc::clone(event),
                None => {
                    let missing = || Fault::Inconsistent(format!("{} has no event", row.id));
                    let event = Arc::new(events::find(tx, &row.event_id)?.ok_or_else(missing)?);
                    known.insert(row.event_id.clone(), Arc::clone(&event));
                    event
                }
            };
            taken.push((row, event));
        }
        Ok(Taken { settled, rows: taken })
    }

    fn settle(&self, tx: &mut Tx<'_>) -> Result<Vec<Allocation>, Fault> {
        if self.ended.is_empty() {
            return Ok(Vec::new());
        }
        let now = tx.now();
        let ids: Vec<_> = self.ended.iter().map(|ended| ended.id).collect();
        let held: HashMap<_, _> = moving::lock(tx, &ids)?.into_iter().map(|row| (row.id, row)).collect();
        let mut settled: Vec<Allocation> = Vec::with_capacity(self.ended.len());
        for ended in &self.ended {
            let Some(row) = held.get(&ended.id) else { continue };
            settled.extend(self.settle_one(row.clone(), ended, now));
        }
        moving::write(tx, &settled.iter().collect::<Vec<_>>())?;
        let cancelled: Vec<_> = settled
            .iter()
            .filter(|row| row.status == AllocationStatus::Cancelled && held[&row.id].status != row.status)
            .collect();
        give_back(tx, &cancelled)?;
        let moved = settled.iter().filter(|row| held[&row.id].status != row.status);
        news::tell(tx, self.publishing, moved)?;
        Ok(settled)
    }

    fn settle_one(&self, row: Allocation, ended: &Ended, now: Timestamp) -> Option<Allocation> {
        if row.status == AllocationStatus::Processing && row.epoch == ended.epoch {
            let outcome = (&ended.outcome, ended.cleared);
            return Some(settle(row, outcome, now, &self.rules, crate::Entropy.number()));
        }
        let late = settle_late(row, &ended.outcome, now)?;
        if late.status == AllocationStatus::Cancelled {
            tracing::error!(allocation_id = %late.id, "applied after it was cancelled");
        }
        Some(late)
    }
}

impl Engine {
    pub(super) fn count_delivery(&self, row: &Allocation) {
        let outcome = match row.status {
            AllocationStatus::Success => "SUCCESS",
            AllocationStatus::Cancelled => "CANCELLED",
            AllocationStatus::Failed if row.is_final() => "FAILED_FINAL",
            _ => "FAILED",
        };
        let labels = DeliveryLabels { provider: row.provider.clone(), outcome };
        self.metrics.deliveries.get_or_create(&labels).inc();
        if row.status == AllocationStatus::Success
            && let Some(at) = row.processed_at
        {
            let waited = at.millis_since(row.created_at).max(0).unsigned_abs();
            self.metrics.delivery_seconds.observe(Duration::from_millis(waited).as_secs_f64());
        }
        if row.status == AllocationStatus::Failed {
            let trouble = row.trouble.as_ref().map_or("", |trouble| trouble.message.as_str());
            tracing::warn!(allocation_id = %row.id, provider = row.provider, trouble, "a delivery failed");
        }
    }
}
