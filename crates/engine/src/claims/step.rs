//! One transaction of a lane: what became of calls is written, the claims go on as far as the house can, and more are
//! taken up.

use super::lane::Kind;
use super::local::{Local, illegal};
use super::port::Found;
use super::{Claims, news};
use crate::clock::millis;
use crate::entropy::Entropy;
use crate::failpoint;
use crate::wallet::Desk;
use guerdon_core::claims::{
    Claim, ClaimId, ClaimStatus, Going, IllegalMove, Judged, Need, State, Stocked, UserFound,
};
use guerdon_core::events::Event;
use guerdon_core::wallet::TransferId;
use guerdon_core::{ClaimKey, Timestamp};
use guerdon_store::claims::{self, Change, Stored};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Tx, each};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How long to wait for a store that could not be read.
const AWAY_MS: i64 = 200;
/// Rows that a claim writes at the most, by itself and for each reward, and that one transaction may.
const ROWS_OF_CLAIM: usize = 3;
const ROWS_OF_REWARD: usize = 5;
const ROWS_MAX: usize = 1_800;
/// How much longer than its call a lease lasts, at the least.
const MARGIN: Duration = Duration::from_secs(1);

/// Something that was found out about a claim.
#[derive(Clone, Debug)]
pub(super) enum Finding {
    Found(Found),
    /// The database refused what comes next, again and again.
    Broken(String),
    /// The same, because others were faster.
    Lost(String),
}

/// What became of a claim that somebody was at.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) id: ClaimId,
    pub(super) epoch: i64,
    pub(super) finding: Finding,
}

/// A claim that is to be taken up: one that was handed over as it then was, or one that is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) id: ClaimId,
    pub(super) epoch: Option<i64>,
}

#[derive(Clone)]
pub(super) struct Step {
    pub(super) lane: String,
    pub(super) kind: Kind,
    pub(super) longest: Duration,
    pub(super) ended: Vec<Ended>,
    pub(super) wanted: Vec<Wanted>,
    /// Why nobody is called who is only asked: then what has nothing to lose fails at once.
    pub(super) shut: Option<(String, Timestamp)>,
    /// Whether what was refused is tried step by step.
    pub(super) careful: bool,
    pub(super) worker: String,
    pub(super) claims: Arc<Claims>,
    pub(super) publishing: Publishing,
    pub(super) desk: Arc<Desk>,
}

#[derive(Default)]
pub(super) struct Stepped {
    /// Where claims stand now, those that are called about among them.
    pub(super) moved: Vec<Stored>,
    /// Whom to call about.
    pub(super) taken: Vec<Taken>,
    /// What would have been too much for one transaction.
    pub(super) left: HashSet<ClaimId>,
    made: Vec<TransferId>,
    at: Option<Timestamp>,
}

impl Command for Step {
    type Output = Stepped;
    const NAME: &'static str = "claim_step";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Stepped>, Fault> {
        let stepped = each(batch, |step| step.run(tx))?;
        failpoint::hit("a step, before the commit", keys(&stepped));
        Ok(stepped)
    }

    fn committed(done: &[(&Self, &Stepped)]) {
        failpoint::hit("a step, after the commit", keys(done.iter().map(|(_, stepped)| *stepped)));
        for (step, stepped) in done {
            step.desk.owe(stepped.made.iter().copied());
            let Some(now) = stepped.at else { continue };
            let taken: HashSet<_> = stepped.taken.iter().map(|taken| taken.claim.id).collect();
            let called = |stored: &&Stored| !taken.contains(&stored.claim.id);
            step.claims.hand_over(stepped.moved.iter().filter(called), now);
        }
    }
}

fn keys<'a>(stepped: impl IntoIterator<Item = &'a Stepped>) -> impl Iterator<Item = &'a ClaimKey> {
    stepped.into_iter().flat_map(|stepped| stepped.moved.iter().map(|stored| &stored.claim.request_id))
}

/// A claim that was taken up, and until when.
pub(super) struct Taken {
    pub(super) claim: Claim,
    pub(super) event: Arc<Event>,
    pub(super) until: Timestamp,
}

/// A claim that this transaction holds.
struct Held {
    before: (i64, ClaimStatus),
    claim: Claim,
    /// Whether it is to be taken up by this lane.
    take: bool,
}

impl Step {
    fn run(&self, tx: &mut Tx<'_>) -> Result<Stepped, Fault> {
        let now = tx.now();
        let (mut held, left) = self.hold(tx, now)?;
        if held.is_empty() {
            return Ok(Stepped::default());
        }
        let about = held.iter().map(|held| (&held.claim.event_id, &held.claim.user_id));
        let mut local = Local::open(tx, &self.claims, about)?;
        local.hold_stock(tx, held.iter().map(|held| &held.claim))?;
        // Carefully, what was found out is written before anything else is tried.
        let goes_on = |held: &&mut Held| !self.careful || held.take;
        let mut claims: Vec<_> = held.iter_mut().filter(goes_on).map(|held| &mut held.claim).collect();
        if self.careful {
            local.careful();
        }
        local.advance(tx, &mut claims, self.publishing)?;
        let mut stepped = Stepped { at: Some(now), left, ..Stepped::default() };
        let mut changes = Vec::with_capacity(held.len());
        let mut told = Vec::new();
        for Held { before: (epoch, status), mut claim, take } in held {
            claim.epoch = epoch + 1;
            let mut stored = self.claims.waiting_for(claim, now);
            let ready = stored.claim.progress.not_before.is_none_or(|at| at <= now);
            let ours = stored.waits_for.as_deref() == Some(self.lane.as_str()) && self.kind != Kind::House;
            let mut worker = None;
            if take && ready && ours {
                let need = stored.claim.need();
                stored.claim.calling(need, now.plus_millis(millis(self.longest)), now);
                // No call outlasts its lease.
                let lease = self.claims.options.lease.max(self.longest + MARGIN);
                let until = now.plus_millis(millis(lease));
                stored.next_at = Some(until);
                worker = Some(self.worker.clone());
                let missing = || Fault::Inconsistent(format!("{} has no event", stored.claim.id));
                let event = local.event(&stored.claim.event_id).map(Arc::clone).ok_or_else(missing)?;
                stepped.taken.push(Taken { claim: stored.claim.clone(), event, until });
            }
            if stored.claim.status() != status {
                told.push(stored.claim.clone());
            }
            stepped.moved.push(stored.clone());
            changes.push(Change { now: stored, epoch, status, worker });
        }
        stepped.made = local.close(tx)?;
        claims::write(tx, &changes)?;
        news::tell(tx, self.publishing, &told)?;
        Ok(stepped)
    }

    /// Holds the claims that this is about, with what was found out about them.
    fn hold(&self, tx: &mut Tx<'_>, now: Timestamp) -> Result<(Vec<Held>, HashSet<ClaimId>), Fault> {
        let rules = self.claims.rules();
        let found: HashMap<_, _> = self.ended.iter().map(|ended| (ended.id, ended)).collect();
        let wanted: BTreeMap<_, _> = self.wanted.iter().map(|wanted| (wanted.id, wanted.epoch)).collect();
        let mut ids: Vec<_> = found.keys().chain(wanted.keys()).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut held = Vec::with_capacity(ids.len());
        let (mut left, mut rows) = (HashSet::new(), 0);
        for Stored { mut claim, waits_for, next_at } in claims::lock(tx, &ids)? {
            if claim.need() == Need::Over {
                // Whatever is said of it now comes too late.
                continue;
            }
            rows += ROWS_OF_CLAIM + ROWS_OF_REWARD * claim.progress.rewards.len();
            if rows > ROWS_MAX && !held.is_empty() {
                left.insert(claim.id);
                continue;
            }
            let before = (claim.epoch, claim.status());
            let mut take = false;
            if let Some(ended) = found.get(&claim.id).filter(|ended| ended.epoch == claim.epoch) {
                self.apply(&mut claim, &ended.finding, now).map_err(illegal)?;
            } else {
                let due = next_at.is_some_and(|at| at <= now);
                let ours = waits_for.as_deref() == Some(self.lane.as_str()) || self.kind == Kind::House;
                let fresh = wanted.get(&claim.id).is_some_and(|epoch| match epoch {
                    Some(epoch) => *epoch == claim.epoch,
                    None => due,
                });
                if !(fresh && ours) {
                    // Somebody else has it, or had it.
                    continue;
                }
                take = true;
                let was_due = wanted.get(&claim.id).copied().flatten().is_none();
                self.look_again(&mut claim, was_due, now);
                if claim.is_overdue(now) {
                    claim.timed_out(now, &rules).map_err(illegal)?;
                } else if let Some((reason, until)) = &self.shut {
                    self.fail_at_once(&mut claim, reason, *until, now).map_err(illegal)?;
                }
            }
            held.push(Held { before, claim, take });
        }
        Ok((held, left))
    }

    /// Before a reward is granted the event is looked at again, and where it took long the user as well.
    fn look_again(&self, claim: &mut Claim, was_due: bool, now: Timestamp) {
        if claim.progress.state == (State::Going { at: Going::RewardGrant }) {
            claim.progress.seen_event = false;
            let long_ago = now.millis_since(claim.updated_at) > millis(self.claims.options.lease);
            if self.claims.users_here || (was_due && long_ago) {
                claim.progress.seen_user = false;
            }
        }
    }

    fn apply(&self, claim: &mut Claim, finding: &Finding, now: Timestamp) -> Result<(), IllegalMove> {
        let (rules, chance) = (self.claims.rules(), Entropy.number());
        match (finding, claim.need()) {
            (Finding::Lost(reason), Need::Stock) => claim.stocked(Stocked::Lost(reason.clone()), now, &rules),
            (Finding::Broken(reason), _) => claim.broken(reason, now, &rules),
            (Finding::Found(Found::User(found)), Need::User) => claim.user_found(found.clone(), now, &rules),
            (Finding::Found(Found::Judged(judged)), Need::Conditions) => claim.judged(judged.clone(), now),
            (Finding::Found(Found::Granted(outcome)), Need::Grant(index)) => {
                claim.granted(index, outcome, now, &rules, chance)
            }
            (Finding::Found(Found::Revoked(outcome)), Need::Revoke(index)) => {
                claim.revoked(index, outcome, now, &rules, chance)
            }
            // Nothing is known, or others were faster at what has no end of its own: it is tried again.
            (Finding::Lost(_) | Finding::Found(Found::Away), _) => {
                claim.progress.not_before = Some(now.plus_millis(AWAY_MS));
                Ok(())
            }
            // An answer to another question: nothing is learned.
            (Finding::Found(_), _) => Ok(()),
        }
    }

    fn fail_at_once(
        &self,
        claim: &mut Claim,
        reason: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), IllegalMove> {
        match &claim.progress.state {
            State::Going { at: Going::Validation } => {
                claim.user_found(UserFound::Failed(reason.to_owned()), now, &self.claims.rules())
            }
            State::Going { at: Going::ConditionCheck } => {
                claim.judged(Judged::Failed { reason: reason.to_owned(), data: None }, now)
            }
            // There is something to lose: it waits.
            _ => {
                claim.progress.not_before = Some(until);
                Ok(())
            }
        }
    }
}
