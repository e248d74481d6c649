//! A claim is made: looked up by its key, validated as far as the house can, and written, many in one transaction.

use super::local::{Local, illegal};
use super::{Claims, news};
use crate::engine::Engine;
use crate::failpoint;
use crate::failure::Failure;
use crate::trace;
use guerdon_core::claims::{Claim, ClaimId, ClaimStatus, begin};
use guerdon_core::events::{Event, EventKind};
use guerdon_core::idempotency::Advice;
use guerdon_core::{ClaimKey, Code, EventId, Rejection, Trace, UserId};
use guerdon_store::claims::{self, Stored};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Stopwatch, Tx};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A claim, made now or before under the same key.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub claim: Claim,
    pub duplicate: bool,
}

impl Engine {
    /// Claims an event's rewards once for each key, and waits so long for the end of it.
    pub async fn claim(
        &self,
        event_id: EventId,
        user_id: UserId,
        key: ClaimKey,
        wait: Option<Duration>,
    ) -> Result<Claimed, Failure> {
        let wait = wait.unwrap_or(self.claims.options.wait);
        let started = Stopwatch::start();
        let id = ClaimId::fresh(self.new_resource());
        // Before it can end.
        let mut waits = self.claims.wait_for(id);
        let initiate = Initiate {
            id,
            event_id,
            user_id,
            key,
            claims: Arc::clone(&self.claims),
            publishing: self.intake().publishing,
            trace: trace::current(),
        };
        let (claim, duplicate) = match self.commit(initiate).await? {
            Begun::Refused(rejection) => return Err(rejection.into()),
            Begun::Existing(claim) => (*claim, true),
            Begun::New(stored) => {
                news::count(&self.metrics, &stored.claim);
                self.note_claim_step("initiate", "written", started.elapsed());
                (stored.claim, false)
            }
        };
        if duplicate || !super::goes_on(claim.status()) {
            // Whoever asks again is told how it stands, and starts nothing.
            return Ok(Claimed { claim, duplicate });
        }
        if !wait.is_zero()
            && let Ok(Ok(ended)) = tokio::time::timeout(wait, &mut waits.end).await
        {
            return Ok(Claimed { claim: ended, duplicate: false });
        }
        Ok(Claimed { claim, duplicate: false })
    }
}

pub(super) struct Initiate {
    id: ClaimId,
    event_id: EventId,
    user_id: UserId,
    key: ClaimKey,
    claims: Arc<Claims>,
    publishing: Publishing,
    trace: Option<Trace>,
}

#[cfg(test)]
impl Initiate {
    pub(super) fn new(
        id: ClaimId,
        (event_id, user_id): (EventId, UserId),
        key: ClaimKey,
        claims: &Arc<Claims>,
    ) -> Self {
        let (claims, publishing) = (Arc::clone(claims), Publishing::Nobody);
        Self { id, event_id, user_id, key, claims, publishing, trace: None }
    }
}

/// What became of a call.
#[derive(Clone)]
pub(super) enum Begun {
    New(Box<Stored>),
    Existing(Box<Claim>),
    Refused(Rejection),
}

impl Command for Initiate {
    type Output = Begun;
    const NAME: &'static str = "claim";
    const PRIORITY: Priority = Priority::Intake;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Begun>, Fault> {
        let begun = initiate(tx, batch)?;
        failpoint::hit("initiated, before the commit", batch.iter().map(|call| &call.key));
        Ok(begun)
    }

    fn committed(done: &[(&Self, &Begun)]) {
        failpoint::hit("initiated, after the commit", done.iter().map(|(call, _)| &call.key));
        for (initiate, begun) in done {
            if let Begun::New(stored) = begun {
                let now = stored.claim.updated_at;
                initiate.claims.hand_over([stored.as_ref()], now);
            }
        }
    }
}

/// Another claim of the same user is in the way.
fn in_progress(other: Option<&(ClaimStatus, String)>) -> Begun {
    let detail = match other {
        Some((ClaimStatus::CompensationFailedManualInterventionRequired, key)) => {
            format!("your claim {key} at this event waits for an operator")
        }
        Some((_, key)) => format!("your claim {key} at this event is under way; wait for its end"),
        None => "another claim of yours at this event was made just now".into(),
    };
    let mut rejection = Rejection::new(Code::ClaimInProgress, detail);
    if let Some((_, key)) = other {
        rejection = rejection.saying("requestId", key.as_str());
    }
    Begun::Refused(Advice::EitherKey.on(rejection))
}

/// What is answered for a key that is known.
fn again(claim: &Claim, call: &Initiate) -> Begun {
    if claim.user_id != call.user_id || claim.event_id != call.event_id {
        let detail = "the key was used by somebody else, or for another event; this claim was not made";
        return Begun::Refused(Advice::NewKey.on(Rejection::new(Code::IdempotencyHashMismatch, detail)));
    }
    Begun::Existing(Box::new(claim.clone()))
}

fn claimable(event: Option<&Arc<Event>>, id: &EventId) -> Result<Arc<Event>, Rejection> {
    let Some(event) = event.filter(|event| event.was_public()) else {
        return Err(Rejection::new(Code::EventNotFound, format!("there is no event {id}")));
    };
    match event.settings.kind {
        EventKind::Claim { .. } => Ok(Arc::clone(event)),
        _ => Err(Rejection::new(Code::EventWrongType, "the event is not of the type CLAIM")),
    }
}

/// Who keeps whom from a claim, and which keys are known.
struct Known {
    keys: HashMap<String, Claim>,
    /// Where what there is stands, and its key.
    live: HashMap<(String, String), (ClaimStatus, String)>,
}

impl Known {
    fn look(tx: &mut Tx<'_>, calls: &[&Initiate]) -> Result<Self, Fault> {
        let unique: HashSet<_> = calls.iter().map(|call| call.key.as_str()).collect();
        let found = claims::by_keys(tx, &unique.into_iter().collect::<Vec<_>>())?;
        let keys = found.into_iter().map(|stored| (stored.claim.request_id.to_string(), stored.claim));
        let keys: HashMap<_, _> = keys.collect();
        let new = calls.iter().filter(|call| !keys.contains_key(call.key.as_str()));
        let pairs: HashSet<_> = new.map(|call| (call.user_id.as_str(), call.event_id.as_str())).collect();
        let pairs: Vec<_> = pairs.into_iter().collect();
        let found = if pairs.is_empty() { Vec::new() } else { claims::live_of(tx, &pairs)? };
        Ok(Self { keys, live: found.into_iter().collect() })
    }

    /// What is answered at once, and otherwise whether the rewards were granted before.
    fn answer(&self, call: &Initiate) -> Result<bool, Begun> {
        if let Some(claim) = self.keys.get(call.key.as_str()) {
            return Err(again(claim, call));
        }
        match self.live.get(&(call.user_id.to_string(), call.event_id.to_string())) {
            Some((status, _)) if status.is_success() => Ok(true),
            Some(other) => Err(in_progress(Some(other))),
            None => Ok(false),
        }
    }
}

fn initiate(tx: &mut Tx<'_>, batch: &[Initiate]) -> Result<Vec<Begun>, Fault> {
    let Some(first) = batch.first() else { return Ok(Vec::new()) };
    let (desk, now) = (&first.claims, tx.now());
    let calls: Vec<_> = batch.iter().collect();
    let mut known = Known::look(tx, &calls)?;
    let mut answers: Vec<Option<Begun>> = batch.iter().map(|_| None).collect();
    let new: Vec<_> = batch.iter().filter(|call| !known.keys.contains_key(call.key.as_str())).collect();
    let about = new.iter().map(|call| (&call.event_id, &call.user_id));
    let mut local = Local::open(tx, desk, about)?;
    let mut made: Vec<(usize, Claim)> = Vec::new();
    // The same key twice in one group: whoever comes first makes the claim.
    let mut firsts: HashMap<&str, usize> = HashMap::new();
    let mut same: Vec<(usize, usize)> = Vec::new();
    for (index, call) in batch.iter().enumerate() {
        if let Some(first) = firsts.get(call.key.as_str()) {
            same.push((index, *first));
            continue;
        }
        let answer = match known.answer(call) {
            Err(begun) => Err(begun),
            Ok(before) => match claimable(local.event(&call.event_id), &call.event_id) {
                Err(rejection) => Err(Begun::Refused(Advice::EitherKey.on(rejection))),
                Ok(event) => Ok((before, event)),
            },
        };
        let (before, event) = match answer {
            Err(begun) => {
                answers[index] = Some(begun);
                continue;
            }
            Ok(answer) => answer,
        };
        let begun = begin(call.id, call.key.clone(), call.user_id.clone(), &event, now, &desk.rules());
        let Some(mut claim) = begun else {
            return Err(Fault::Inconsistent(format!("{} has no claims", event.id)));
        };
        claim.progress.trace = call.trace;
        if before {
            claim.already_claimed(now).map_err(illegal)?;
        } else {
            let here = (claim.status(), call.key.to_string());
            known.live.insert((call.user_id.to_string(), call.event_id.to_string()), here);
        }
        firsts.insert(call.key.as_str(), index);
        made.push((index, claim));
    }
    let mut claims: Vec<_> = made.iter_mut().map(|(_, claim)| claim).collect();
    local.validate(&mut claims)?;
    let stored: Vec<_> =
        made.into_iter().map(|(index, claim)| (index, desk.waiting_for(claim, now))).collect();
    write(tx, batch, stored, &mut answers)?;
    for (index, first) in same {
        answers[index] = match &answers[first] {
            Some(Begun::New(stored)) => Some(again(&stored.claim, &batch[index])),
            Some(Begun::Existing(claim)) => Some(again(claim, &batch[index])),
            other => other.clone(),
        };
    }
    answers.into_iter().map(|answer| answer.ok_or(Fault::Panicked)).collect()
}

/// Writes the new ones, and answers those that somebody else got ahead of.
fn write(
    tx: &mut Tx<'_>,
    batch: &[Initiate],
    stored: Vec<(usize, Stored)>,
    answers: &mut [Option<Begun>],
) -> Result<(), Fault> {
    let publishing = batch.first().map_or(Publishing::Nobody, |call| call.publishing);
    // By whom they are, as the index that keeps them apart: two processes do not wait for each other in a circle.
    let mut order: Vec<_> = stored.iter().map(|(_, stored)| stored).collect();
    let place = |claim: &Claim| (claim.user_id.clone(), claim.event_id.clone(), claim.request_id.clone());
    order.sort_by_cached_key(|stored| place(&stored.claim));
    let written = if order.is_empty() { HashSet::new() } else { claims::insert(tx, &order)? };
    news::tell(tx, publishing, order.iter().map(|stored| &stored.claim).filter(|c| written.contains(&c.id)))?;
    let late: Vec<_> = stored.iter().filter(|(_, stored)| !written.contains(&stored.claim.id)).collect();
    if !late.is_empty() {
        let calls: Vec<_> = late.iter().map(|(index, _)| &batch[*index]).collect();
        let known = Known::look(tx, &calls)?;
        for (index, _) in &late {
            // Granted meanwhile, or under way: with another key it may be tried again.
            answers[*index] =
                Some(known.answer(&batch[*index]).map_or_else(|begun| begun, |_| in_progress(None)));
        }
    }
    for (index, stored) in stored {
        if written.contains(&stored.claim.id) {
            answers[index] = Some(Begun::New(Box::new(stored)));
        }
    }
    Ok(())
}
