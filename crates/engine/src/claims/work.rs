//! What a lane does, turn after turn: it writes what became of calls, and takes up more.

use super::call::Call;
use super::lane::{Kind, Lane};
use super::news;
use super::step::{Ended, Finding, Step, Wanted};
use crate::allocations::pause;
use crate::clock::millis;
use crate::engine::{Engine, WATCH_INTERVAL};
use crate::failure::Failure;
use crate::gate::{Permit, Turn};
use crate::metrics::StepLabels;
use guerdon_core::Timestamp;
use guerdon_core::claims::ClaimId;
use guerdon_store::{Engine as Database, Fault, Stopwatch, Tx, claims};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Claims of one transaction, at the most.
const STEP_MAX: usize = 128;
/// How often is looked for what nobody handed over.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait while others have all the room there is.
const FULL: Duration = Duration::from_millis(50);
/// Between two tries to write something down, while the store is away.
const RETRY: Duration = Duration::from_millis(100);
/// How often a step is tried that the database refuses.
const REFUSALS_MAX: u32 = 3;
/// How long a claim is left alone that can neither go on nor back.
const SHUNNED: Duration = Duration::from_secs(30);

/// What a lane is in the middle of.
struct Work {
    finished: mpsc::UnboundedSender<Ended>,
    ended: mpsc::UnboundedReceiver<Ended>,
    under_way: usize,
    unwritten: Vec<Ended>,
    next_look: Timestamp,
    turn: u32,
    /// Steps that the database refused one after the other.
    refusals: u32,
    /// Claims that nothing can be done about, and until when.
    shunned: HashMap<ClaimId, Timestamp>,
}

/// Works for as long as the engine is there.
async fn run(engine: &Weak<Engine>, lane: &Arc<Lane>) {
    let (finished, ended) = mpsc::unbounded_channel();
    let mut work = Work {
        finished,
        ended,
        under_way: 0,
        unwritten: Vec::new(),
        next_look: Timestamp::from_millis(0),
        turn: 0,
        refusals: 0,
        shunned: HashMap::new(),
    };
    let no_gate = Notify::new();
    loop {
        let Some(strong) = engine.upgrade() else { return };
        let pause = work.turn(&strong, lane).await;
        drop(strong);
        let Some(pause) = pause else { continue };
        let freed = lane.gate.as_ref().map_or(&no_gate, |gate| &gate.freed);
        tokio::select! {
            one = work.ended.recv() => {
                if let Some(one) = one {
                    work.under_way -= 1;
                    work.unwritten.push(one);
                }
            }
            () = lane.bell.notified() => {}
            () = freed.notified(), if lane.has_fresh() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// How much can be taken up now, and why not more.
struct Room {
    most: usize,
    permits: Vec<Permit>,
    /// Why nobody is asked, and until when.
    shut: Option<(String, Timestamp)>,
}

impl Work {
    /// Does some of what there is to do; how long to wait where there is nothing.
    async fn turn(&mut self, engine: &Arc<Engine>, lane: &Arc<Lane>) -> Option<Duration> {
        while self.unwritten.len() < STEP_MAX
            && let Ok(one) = self.ended.try_recv()
        {
            self.under_way -= 1;
            self.unwritten.push(one);
        }
        let now = engine.now();
        if lane.was_asked() {
            self.next_look = now;
        }
        self.turn = self.turn.wrapping_add(1);
        self.shunned.retain(|_, until| *until > now);
        let mut room = self.room(engine, lane, now);
        let blocked = room.most == 0 && (lane.has_fresh() || self.is_time_to_look(lane, now));
        let wanted = self.find(engine, lane, &mut room).await;
        // What is not needed is somebody else's.
        room.permits.truncate(wanted.len());
        lane.busy.store(self.under_way + self.unwritten.len() + wanted.len(), Ordering::Relaxed);
        if self.unwritten.is_empty() && wanted.is_empty() {
            return Some(self.pause(lane, engine.now(), blocked));
        }
        let ended = std::mem::take(&mut self.unwritten);
        self.step(engine, lane, Batch { ended, wanted, shut: room.shut }, room.permits).await;
        None
    }

    fn room(&self, engine: &Engine, lane: &Lane, now: Timestamp) -> Room {
        let stopping = engine.claims.is_stopping();
        let most = if stopping { 0 } else { STEP_MAX.saturating_sub(self.unwritten.len()) };
        let none = Room { most: 0, permits: Vec::new(), shut: None };
        let Some(gate) = &lane.gate else { return Room { most, ..none } };
        let fresh = lane.has_fresh();
        if most == 0 || !(fresh || self.is_time_to_look(lane, now)) {
            return none;
        }
        if let Some(until) = gate.shut_until(now) {
            if lane.kind != Kind::Reading {
                return none;
            }
            // What has nothing to lose fails at once, so that it can be made again.
            let reason = format!("{} does not work and is left alone for a while", gate.name());
            return Room { most, permits: Vec::new(), shut: Some((reason, until)) };
        }
        let permits = gate.reserve(if fresh { Turn::Claims } else { Turn::Looking }, most, now);
        Room { most: permits.len(), permits, shut: None }
    }

    fn is_time_to_look(&self, lane: &Lane, now: Timestamp) -> bool {
        now >= self.next_look || now >= lane.soonest()
    }

    fn pause(&self, lane: &Lane, now: Timestamp, blocked: bool) -> Duration {
        if blocked {
            let shut = lane.gate.as_ref().and_then(|gate| gate.shut_until(now));
            return shut.map_or(FULL, |until| pause(until, now)).min(LOOK_INTERVAL);
        }
        pause(self.next_look.min(lane.soonest()), now).min(LOOK_INTERVAL)
    }

    /// What is to be taken up: what was handed over, and what is due. What is only asked about is asked at once.
    async fn find(&mut self, engine: &Arc<Engine>, lane: &Arc<Lane>, room: &mut Room) -> Vec<Wanted> {
        if room.most == 0 {
            return Vec::new();
        }
        let looks = self.is_time_to_look(lane, engine.now());
        // Now and then what is due comes first, however many are new.
        let due_first = looks && self.turn.is_multiple_of(4);
        let most = if due_first { room.most / 2 } else { room.most };
        let mut wanted = Vec::new();
        let mut left = room.most - self.take_fresh(engine, lane, most, room, &mut wanted);
        if looks && left > 0 {
            let found = self.look(engine, lane, left, &wanted).await;
            left -= found.len().min(left);
            wanted.extend(found);
            self.take_fresh(engine, lane, left, room, &mut wanted);
        }
        wanted
    }

    /// Takes up what was handed over; how many.
    fn take_fresh(
        &mut self,
        engine: &Arc<Engine>,
        lane: &Arc<Lane>,
        most: usize,
        room: &mut Room,
        wanted: &mut Vec<Wanted>,
    ) -> usize {
        let now = engine.now();
        let all = lane.take_fresh(most);
        let count = all.len();
        for fresh in all {
            engine.note_claim_step(lane.name(), "waits", fresh.since.elapsed());
            let enough = now.plus_millis(millis(lane.longest)) < fresh.until;
            match fresh.call {
                Some(call) if room.shut.is_none() && enough => {
                    self.under_way += 1;
                    call.spawn(engine, lane, fresh.until, room.permits.pop(), self.finished.clone());
                }
                _ => wanted.push(Wanted { id: fresh.id, epoch: Some(fresh.epoch) }),
            }
        }
        count
    }

    /// What is due by now, and for the house what is out of time.
    async fn look(&mut self, engine: &Engine, lane: &Lane, most: usize, known: &[Wanted]) -> Vec<Wanted> {
        lane.look_anew();
        let (now, name) = (engine.now(), lane.name().to_owned());
        let (limit, house) = (i64::try_from(most).unwrap_or(i64::MAX), lane.kind == Kind::House);
        let look = move |tx: &mut Tx<'_>| {
            let mut due = claims::due(tx, &name, now, limit)?;
            if house {
                due.extend(claims::overdue(tx, now, limit)?);
            }
            Ok((due, claims::next_due(tx, &name, now)?))
        };
        match engine.read_first(look).await {
            Ok((mut due, next)) => {
                let full = due.len() >= most;
                if let Some(next) = next {
                    // The end of somebody's lease, or of a pause.
                    lane.is_due_at(next);
                }
                self.next_look = if full { now } else { now.plus_millis(millis(LOOK_INTERVAL)) };
                let known: HashSet<_> = known.iter().map(|wanted| wanted.id).collect();
                due.retain(|id| !known.contains(id) && !self.shunned.contains_key(id));
                due.truncate(most);
                due.into_iter().map(|id| Wanted { id, epoch: None }).collect()
            }
            Err(failure) => {
                self.next_look = now.plus_millis(millis(RETRY));
                tracing::debug!(lane = lane.name(), %failure, "claims are looked for later");
                Vec::new()
            }
        }
    }

    async fn step(&mut self, engine: &Arc<Engine>, lane: &Arc<Lane>, batch: Batch, mut permits: Vec<Permit>) {
        let mut batches = VecDeque::from([batch]);
        while let Some(batch) = batches.pop_front() {
            let started = Stopwatch::start();
            let step = Step {
                lane: lane.name().to_owned(),
                kind: lane.kind,
                longest: lane.longest,
                ended: batch.ended.clone(),
                wanted: batch.wanted.clone(),
                shut: batch.shut.clone(),
                careful: self.refusals > 0,
                worker: engine.worker_id().to_owned(),
                claims: Arc::clone(&engine.claims),
                publishing: engine.intake().publishing,
                desk: Arc::clone(&engine.desk),
            };
            let failure = match engine.commit_patiently(step).await {
                Ok(stepped) => {
                    self.refusals = 0;
                    engine.note_claim_step(lane.name(), "written", started.elapsed());
                    for stored in &stepped.moved {
                        news::count(&engine.metrics, &stored.claim);
                    }
                    for taken in stepped.taken {
                        self.under_way += 1;
                        let call = Call::about(&taken.claim, Some(&taken.event));
                        call.spawn(engine, lane, taken.until, permits.pop(), self.finished.clone());
                    }
                    // More than one transaction should write.
                    batches.extend(batch.only(&stepped.left));
                    continue;
                }
                Err(failure) => failure,
            };
            tracing::warn!(lane = lane.name(), %failure, claims = batch.len(), "a step of claims failed");
            match (own_fault(&failure), batch.len()) {
                // The store is away: nothing of this changes a claim, and nothing is forgotten.
                (None, _) => {
                    let until = engine.now().plus_millis(millis(engine.claims.options.lease));
                    for batch in std::iter::once(batch).chain(batches) {
                        self.unwritten.extend(batch.ended);
                        lane.put_back(&batch.wanted, until);
                    }
                    tokio::time::sleep(RETRY).await;
                    return;
                }
                // One of them is to blame, and the others get through without it.
                (Some(_), 2..) => batches.extend(batch.halves()),
                (Some(finding), _) => {
                    self.refusals += 1;
                    tokio::time::sleep(RETRY * self.refusals).await;
                    if self.refusals < REFUSALS_MAX {
                        batches.push_front(batch);
                    } else {
                        self.refusals = 0;
                        batches.extend(self.give_up(engine, lane, batch, finding).await);
                    }
                }
            }
        }
    }

    /// The one claim of a batch, which the database refuses to go on with: then it fails, or is left alone for a while.
    async fn give_up(
        &mut self,
        engine: &Engine,
        lane: &Lane,
        batch: Batch,
        finding: Finding,
    ) -> Option<Batch> {
        let known = batch.ended.first().map(|ended| (ended.id, Some(ended.epoch)));
        let (id, epoch) = known.or_else(|| batch.wanted.first().map(|wanted| (wanted.id, wanted.epoch)))?;
        let tried = batch.ended.first().is_some_and(|ended| !matches!(ended.finding, Finding::Found(_)));
        let epoch = match epoch {
            Some(epoch) => Some(epoch),
            // Only if it is still nobody's.
            None => {
                let found = engine.read(move |tx| claims::find(tx, &[id])).await.unwrap_or_default();
                let ours = |stored: &claims::Stored| {
                    stored.next_at.is_some_and(|at| at <= engine.now())
                        && stored.waits_for.as_deref() == Some(lane.name())
                };
                found.into_iter().find(ours).map(|stored| stored.claim.epoch)
            }
        };
        match epoch.filter(|_| !tried) {
            // What a call came to is not forgotten by this: a claim that fails is in doubt about its calls.
            Some(epoch) => {
                Some(Batch { ended: vec![Ended { id, epoch, finding }], wanted: Vec::new(), shut: None })
            }
            None => {
                tracing::error!(claim = %id, "a claim can neither go on nor back, and is left alone for a while");
                self.shunned.insert(id, engine.now().plus_millis(millis(SHUNNED)));
                None
            }
        }
    }
}

/// Whether a command itself was refused, and what that means for the claim that it is about.
fn own_fault(failure: &Failure) -> Option<Finding> {
    // What exactly is for the log: people read this.
    match failure {
        Failure::Broken(Fault::Conflict(_)) => {
            Some(Finding::Lost("others were faster, again and again".into()))
        }
        Failure::Broken(
            Fault::Statement(_) | Fault::Inconsistent(_) | Fault::Panicked | Fault::TooManyRows { .. },
        ) => Some(Finding::Broken("the store refused it, again and again".into())),
        _ => None,
    }
}

/// What one transaction is to do.
#[derive(Clone)]
struct Batch {
    ended: Vec<Ended>,
    wanted: Vec<Wanted>,
    shut: Option<(String, Timestamp)>,
}

impl Batch {
    fn len(&self) -> usize {
        self.ended.len() + self.wanted.len()
    }

    fn halves(mut self) -> [Self; 2] {
        let ended = self.ended.split_off(self.ended.len() / 2);
        let wanted = self.wanted.split_off(self.wanted.len().div_ceil(2));
        let other = Self { ended, wanted, shut: self.shut.clone() };
        [self, other]
    }

    /// What of it is about these claims.
    fn only(mut self, left: &HashSet<ClaimId>) -> Option<Self> {
        self.ended.retain(|ended| left.contains(&ended.id));
        self.wanted.retain(|wanted| left.contains(&wanted.id));
        (self.len() > 0).then_some(self)
    }
}

impl Engine {
    /// Starts a loop for each lane.
    pub(crate) fn start_claims(self: &Arc<Self>) {
        for lane in self.claims.lanes.values() {
            let (engine, lane) = (Arc::downgrade(self), Arc::clone(lane));
            self.spawn_watched("claims", move || {
                let (engine, lane) = (engine.clone(), Arc::clone(&lane));
                async move { run(&engine, &lane).await }
            });
        }
        if self.store().engine() == Database::Postgres {
            self.every("claims_watch", WATCH_INTERVAL, |engine| async move {
                engine.look_at_awaited_claims().await;
            });
        }
    }

    /// Looks for the ends of claims that another process may have brought about, with one read for all who wait.
    pub(crate) async fn look_at_awaited_claims(&self) {
        let awaited = self.claims.awaited();
        if awaited.is_empty() {
            return;
        }
        match self.read_first(move |tx| claims::ended(tx, &awaited)).await {
            Ok(found) => {
                for stored in found {
                    self.claims.ended(&stored.claim);
                }
            }
            Err(failure) => tracing::debug!(%failure, "claims that are waited for could not be read"),
        }
    }

    pub(crate) fn note_claim_step(&self, step: &str, part: &'static str, took: Duration) {
        let labels = StepLabels { step: step.to_owned(), part };
        self.metrics.claim_step_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
