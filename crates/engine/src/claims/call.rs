//! A call that a claim needs, on its way to whoever does it and back.

use super::lane::Lane;
use super::port::{Found, Task};
use super::step::{Ended, Finding};
use crate::allocations::{Revocation, grant_of};
use crate::clock::millis;
use crate::engine::Engine;
use crate::failpoint;
use crate::gate::Permit;
use crate::trace::{self, OpenSpan, SpanKind};
use guerdon_core::allocations::{Outcome, key};
use guerdon_core::claims::{Claim, ClaimId, Judged, Need, UserFound};
use guerdon_core::events::Event;
use guerdon_core::{ClaimKey, Timestamp, Trace};
use guerdon_store::Stopwatch;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What is to be asked or done for a claim as it stood.
#[derive(Clone, Debug)]
pub(super) struct Call {
    id: ClaimId,
    key: ClaimKey,
    epoch: i64,
    task: Option<Task>,
    /// What is known if nobody hears the end of it.
    lost: Found,
    trace: Option<Trace>,
}

impl Call {
    /// What a claim needs now; grants and revocations are made from the event.
    pub(super) fn about(claim: &Claim, event: Option<&Event>) -> Self {
        Self {
            id: claim.id,
            key: claim.request_id.clone(),
            epoch: claim.epoch,
            task: task(claim, event),
            lost: lost(claim),
            trace: claim.progress.trace,
        }
    }

    fn ended(&self, found: Found) -> Ended {
        Ended { id: self.id, epoch: self.epoch, finding: Finding::Found(found) }
    }

    /// Makes the call, unless it could last longer than it is ours to make.
    pub(super) fn spawn(
        self,
        engine: &Arc<Engine>,
        lane: &Arc<Lane>,
        until: Timestamp,
        permit: Option<Permit>,
        finished: mpsc::UnboundedSender<Ended>,
    ) {
        let (lane, engine) = (Arc::clone(lane), Arc::downgrade(engine));
        // Told whatever happens, so that the lane knows how many are under way.
        let told = Told { finished, ended: Some(self.ended(self.lost.clone())) };
        tokio::spawn(async move {
            let Some(engine) = engine.upgrade() else { return };
            let started = Stopwatch::start();
            let found = match &self.task {
                _ if engine.now().plus_millis(millis(lane.longest)) > until => Found::Away,
                None => self.lost.clone(),
                Some(task) => {
                    failpoint::hit("before a call", std::iter::once(&self.key));
                    let span = engine.traces.within(self.trace, SpanKind::Client, || {
                        format!("claim: {} {}", task.name(), lane.name())
                    });
                    let within = span.as_ref().map(OpenSpan::trace);
                    let found = trace::within(within, engine.claims.executor.execute(&engine, task)).await;
                    if let Some(mut span) = span {
                        span.text("guerdon.claim.request_id", self.key.as_str());
                        span.end(seen(&found).and_then(|outcome| outcome.failure()));
                    }
                    failpoint::hit("after a call", std::iter::once(&self.key));
                    engine.note_claim_step(lane.name(), "called", started.elapsed());
                    found
                }
            };
            if let (Some(gate), Some(seen)) = (&lane.gate, seen(&found)) {
                gate.note(&seen, engine.now(), &engine.metrics);
            }
            // There is room again before anybody hears of it.
            drop(permit);
            let ended = self.ended(found);
            told.tell(ended);
        });
    }
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

/// Of a call that nobody heard the end of.
fn lost(claim: &Claim) -> Found {
    let reason = String::from("the call was broken off");
    match claim.need() {
        Need::Grant(_) => Found::Granted(Outcome::Unknown { reason }),
        Need::Revoke(_) => Found::Revoked(Outcome::Unknown { reason }),
        // To ask again does no harm.
        _ => Found::Away,
    }
}

/// What a gate learns from it, if anything.
fn seen(found: &Found) -> Option<Outcome> {
    match found {
        Found::Granted(outcome) | Found::Revoked(outcome) => Some(outcome.clone()),
        Found::User(UserFound::Failed(reason)) | Found::Judged(Judged::Failed { reason, data: None }) => {
            Some(Outcome::Unknown { reason: reason.clone() })
        }
        Found::User(_) | Found::Judged(_) => Some(Outcome::Applied { transaction_id: None }),
        Found::Away => None,
    }
}

/// What a claim needs, in the words of whoever does it.
fn task(claim: &Claim, event: Option<&Event>) -> Option<Task> {
    match claim.need() {
        Need::User => Some(Task::User(claim.user_id.clone())),
        Need::Conditions => {
            let conditions = claim.snapshot.conditions.clone()?;
            Some(Task::Conditions { user_id: claim.user_id.clone(), conditions })
        }
        need @ (Need::Grant(index) | Need::Revoke(index)) => {
            let reward = claim.progress.rewards.get(index)?;
            let grant = grant_of(&reward.key, &claim.user_id, event?, &reward.reward_id)?;
            let provider = reward.provider.clone();
            Some(match need {
                Need::Grant(_) => Task::Grant { provider, grant, in_doubt: reward.in_doubt },
                _ => {
                    let key = key::of_revocation(&reward.key);
                    let transaction_id = reward.transaction_id.clone();
                    Task::Revoke { provider, revocation: Revocation { key, grant, transaction_id } }
                }
            })
        }
        _ => None,
    }
}
