//! Idempotency keys, for every part that does something once: issuing, claiming, the watchdog, and their end.
//!
//! A part claims in one transaction with [`begin`], does its work in another, and there calls the store's `finish` with
//! the epoch that it was given. What [`begin`] says is final for everybody but the one who is told to work.

use crate::clock::millis;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::metrics::{EngineMetrics, OutcomeLabels};
use guerdon_core::hash::Hash;
use guerdon_core::idempotency::{Advice, KeyName, Scope, Step, StoredAnswer, step};
use guerdon_core::{Code, IdempotencyKey, Rejection, Timestamp, UserId};
use guerdon_store::idempotency::{self, Claim, Finish, Only, Overdue};
use guerdon_store::{Command, Fault, Priority, Tx, each};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// Turns a refusal into the answer that is stored, with an id under which our logs tell of it. It comes from whoever
/// speaks to clients.
pub type RenderProblem = fn(&Rejection, &str) -> StoredAnswer;

#[derive(Clone, Copy, Debug)]
pub struct KeyOptions {
    /// How long an issued key can be claimed.
    pub ttl: Duration,
    /// How long work under a key may take.
    pub lease: Duration,
    pub watchdog_interval: Duration,
    pub render: RenderProblem,
}

/// What everybody needs at hand who does something under a key.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) options: KeyOptions,
    pub(crate) metrics: EngineMetrics,
    /// What is said of work that the watchdog ended, by the part whose keys we issue.
    overdue: fn() -> Rejection,
}

impl Keys {
    pub(crate) fn new(options: KeyOptions, metrics: EngineMetrics, overdue: fn() -> Rejection) -> Self {
        Self { options, metrics, overdue }
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        millis(self.options.lease)
    }
}

/// What became of a call that brought a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// The answer that was stored, now or earlier.
    Answered(StoredAnswer),
    /// Somebody is at it.
    InProgress,
}

/// How long answers are kept after they were given.
pub(crate) const RETENTION: Duration = Duration::from_hours(30 * 24);
/// Keys that one transaction ends or forgets.
const CHUNK: i64 = 500;
/// How often a claim is tried again that another process was faster with.
const ROUNDS_MAX: usize = 8;

/// A key that a call brings.
pub(crate) struct Brought<'a> {
    pub(crate) name: &'a KeyName,
    pub(crate) fingerprint: Hash,
    /// The id of what would be made.
    pub(crate) resource: [u8; 16],
}

/// What a call that brought a key has to do.
#[derive(Clone, Debug)]
pub(crate) enum Begun<P> {
    Work(Work<P>),
    Wait,
    Replay(StoredAnswer),
    Refused(Rejection),
}

/// A claim that was made.
#[derive(Clone, Debug)]
pub(crate) struct Work<P> {
    pub(crate) epoch: i64,
    pub(crate) resource: [u8; 16],
    pub(crate) started_at: Timestamp,
    pub(crate) plan: P,
}

/// Claims keys that can be claimed, each at the most once. Whatever else has to hold is checked by `plan` before that,
/// for the calls whose numbers it is given; a key whose call makes no sense stays as it was.
pub(crate) fn begin<P>(
    tx: &mut Tx<'_>,
    brought: &[Brought<'_>],
    lease_ms: i64,
    mut plan: impl FnMut(&mut Tx<'_>, &[usize]) -> Result<Vec<Result<P, Rejection>>, Fault>,
) -> Result<Vec<Begun<P>>, Fault> {
    let now = tx.now();
    let mut outcomes: Vec<Option<Begun<P>>> = brought.iter().map(|_| None).collect();
    let mut waiting: Vec<usize> = (0..brought.len()).collect();
    for _ in 0..ROUNDS_MAX {
        if waiting.is_empty() {
            break;
        }
        let records = idempotency::find(tx, waiting.iter().map(|index| brought[*index].name))?;
        let mut beginning = Vec::new();
        for index in std::mem::take(&mut waiting) {
            let Brought { name, fingerprint, .. } = &brought[index];
            outcomes[index] = match step(name, records.get(name), fingerprint, now) {
                Ok(Step::Begin { epoch, resource }) => {
                    beginning.push((index, epoch, resource));
                    None
                }
                Ok(Step::Wait) => Some(Begun::Wait),
                Ok(Step::Replay(answer)) => Some(Begun::Replay(answer)),
                Err(rejection) => Some(Begun::Refused(rejection)),
            };
        }
        let numbers: Vec<_> = beginning.iter().map(|(index, ..)| *index).collect();
        let mut first = HashSet::new();
        let mut planned = Vec::with_capacity(beginning.len());
        for ((index, epoch, resource), plan) in beginning.into_iter().zip(plan(tx, &numbers)?) {
            match plan {
                Err(rejection) => outcomes[index] = Some(Begun::Refused(Advice::EitherKey.on(rejection))),
                Ok(plan) if first.insert(brought[index].name) => planned.push((index, epoch, resource, plan)),
                // Whoever brings the same key a moment later sees in the next round what became of it.
                Ok(_) => waiting.push(index),
            }
        }
        let claims: Vec<_> = planned
            .iter()
            .map(|(index, epoch, resource, _)| Claim {
                name: brought[*index].name,
                fingerprint: brought[*index].fingerprint,
                resource: resource.unwrap_or(brought[*index].resource),
                epoch: *epoch,
                new: !records.contains_key(brought[*index].name),
            })
            .collect();
        let claimed = idempotency::claim(tx, &claims, now.plus_millis(lease_ms))?;
        let resources: Vec<_> = claims.iter().map(|claim| claim.resource).collect();
        for ((index, epoch, _, plan), resource) in planned.into_iter().zip(resources) {
            if claimed.contains(brought[index].name) {
                outcomes[index] = Some(Begun::Work(Work { epoch, resource, started_at: now, plan }));
            } else {
                waiting.push(index);
            }
        }
    }
    // A key that changes faster than it can be read is somebody else's for the moment.
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(Begun::Wait)).collect())
}

/// Counts a key whose work ended.
pub(crate) fn note_finished(metrics: &EngineMetrics, scope: Scope, error: Option<Code>, millis: i64) {
    let outcome = error.map_or("SUCCEEDED", Code::as_str);
    metrics.keys_finished.get_or_create(&OutcomeLabels { scope: scope.as_str(), outcome }).inc();
    let seconds = Duration::from_millis(u64::try_from(millis).unwrap_or(0)).as_secs_f64();
    metrics.key_seconds.observe(seconds);
}

impl Engine {
    /// A new key of ours, and until when it can be used.
    pub async fn issue_key(
        &self,
        client: UserId,
        scope: Scope,
    ) -> Result<(IdempotencyKey, Timestamp), Failure> {
        let key = IdempotencyKey::parse(self.new_id()).map_err(Fault::Inconsistent)?;
        let name = KeyName { key: key.clone(), client, scope };
        let expires_at = self.commit(Issue { name, ttl_ms: millis(self.keys.options.ttl) }).await?;
        Ok((key, expires_at))
    }

    /// The watchdog: work that was not finished in time has failed, and can never be finished.
    pub(crate) async fn end_overdue_keys(&self) {
        loop {
            match self.commit(EndOverdue(Arc::clone(&self.keys))).await {
                Ok(ended) if i64::try_from(ended.len()).is_ok_and(|count| count >= CHUNK) => {}
                Ok(_) => return,
                Err(failure) => {
                    tracing::debug!(%failure, "overdue keys are ended later");
                    return;
                }
            }
        }
    }

    /// Removes keys whose answers were kept long enough.
    pub(crate) async fn forget_old_keys(&self) {
        let before = self.now().plus_millis(-millis(RETENTION));
        let forgotten = async {
            while self.commit(Forget { before }).await? >= CHUNK.unsigned_abs() {}
            Ok::<_, Failure>(())
        };
        if let Err(failure) = forgotten.await {
            tracing::debug!(%failure, "old keys are removed later");
        }
    }
}

struct Issue {
    name: KeyName,
    ttl_ms: i64,
}

impl Command for Issue {
    type Output = Timestamp;
    const NAME: &'static str = "issue_key";
    const PRIORITY: Priority = Priority::Intake;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Timestamp>, Fault> {
        let Some(first) = batch.first() else { return Ok(Vec::new()) };
        let expires_at = tx.now().plus_millis(first.ttl_ms);
        let mut names: Vec<_> = batch.iter().map(|issue| &issue.name).collect();
        names.sort();
        idempotency::issue(tx, &names, expires_at)?;
        Ok(batch.iter().map(|_| expires_at).collect())
    }
}

pub(crate) struct EndOverdue(pub(crate) Arc<Keys>);

impl Command for EndOverdue {
    /// Whose work was ended.
    type Output = Vec<(Overdue, i64)>;
    const NAME: &'static str = "end_overdue_keys";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        each(batch, |Self(keys)| {
            let now = tx.now();
            let overdue = idempotency::overdue(tx, now, CHUNK)?;
            let finishes: Vec<_> = overdue
                .iter()
                .map(|overdue| Finish {
                    name: &overdue.name,
                    epoch: overdue.epoch,
                    // Nobody's call: the key is what our logs know it by.
                    answer: (keys.options.render)(&(keys.overdue)(), overdue.name.key.as_str()),
                    error: Some(Code::Timeout),
                })
                .collect();
            let ended = idempotency::finish(tx, &finishes, Only::InProgress)?;
            let timed = |overdue: Overdue| {
                let millis = now.millis_since(overdue.started_at);
                (overdue, millis)
            };
            let ended = overdue.into_iter().filter(|overdue| ended.contains_key(&overdue.name));
            Ok(ended.map(timed).collect())
        })
    }

    fn committed(done: &[(&Self, &Self::Output)]) {
        for (Self(keys), ended) in done {
            for (Overdue { name, .. }, millis) in *ended {
                tracing::warn!(idempotency_key = %name.key, client = %name.client, millis, "ended by the watchdog");
                note_finished(&keys.metrics, name.scope, Some(Code::Timeout), *millis);
            }
        }
    }
}

struct Forget {
    before: Timestamp,
}

impl Command for Forget {
    type Output = u64;
    const NAME: &'static str = "forget_keys";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<u64>, Fault> {
        each(batch, |forget| idempotency::forget(tx, forget.before, CHUNK))
    }
}
