//! What claims need that the store has: events, the registry, the stock and the wallet. Many claims go through it in one
//! transaction, and each row that they share is written once.

use super::Claims;
use crate::allocations::{Payable, plan, told};
use crate::users::UnknownUsers;
use guerdon_core::allocations::Outcome;
use guerdon_core::claims::{Claim, Going, IllegalMove, Need, Rules, State, Stocked, UserFound};
use guerdon_core::events::Event;
use guerdon_core::users::UserStatus;
use guerdon_core::wallet::{Posted, Transfer, TransferId, TransferKind};
use guerdon_core::{EventId, IdempotencyKey, RewardId, Timestamp, UserId};
use guerdon_store::claims::stock::{self, Part};
use guerdon_store::outbox::Publishing;
use guerdon_store::wallet::accounts;
use guerdon_store::wallet::transfers::{self, Made};
use guerdon_store::{Fault, Tx, allocations, entries, events, users};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// More steps than any claim takes in one go.
const STEPS_MAX: usize = 1_000;

/// What a transaction knows and has changed so far.
pub(super) struct Local<'c> {
    claims: &'c Claims,
    rules: Rules,
    now: Timestamp,
    events: HashMap<EventId, Option<Arc<Event>>>,
    users: HashMap<String, UserStatus>,
    /// What is left of the stock that is held, by event.
    left: HashMap<EventId, BTreeMap<RewardId, i64>>,
    /// What is to be taken from it, or below zero given back.
    taken: BTreeMap<(EventId, RewardId), i64>,
    parts_taken: Vec<Part>,
    parts_given: Vec<Part>,
    made: Vec<TransferId>,
    only_validates: bool,
    /// Whether each claim goes one step and no further.
    careful: bool,
}

pub(super) fn illegal(error: IllegalMove) -> Fault {
    Fault::Inconsistent(error.to_string())
}

/// A reward that the wallet pays out or takes back.
struct Payment<'a> {
    claim: usize,
    reward: usize,
    of: &'a Claim,
}

impl Payable for Payment<'_> {
    fn event_id(&self) -> &EventId {
        &self.of.event_id
    }

    fn reward_id(&self) -> &RewardId {
        &self.of.progress.rewards[self.reward].reward_id
    }

    fn member_id(&self) -> &UserId {
        &self.of.user_id
    }
}

impl<'c> Local<'c> {
    /// Reads what these claims are about: their events, which do not change until the transaction ends, and their users.
    pub(super) fn open<'a>(
        tx: &mut Tx<'_>,
        claims: &'c Claims,
        about: impl Iterator<Item = (&'a EventId, &'a UserId)> + Clone,
    ) -> Result<Self, Fault> {
        let wanted: BTreeSet<_> = about.clone().map(|(event, _)| event).collect();
        let mut events = HashMap::new();
        for id in wanted {
            entries::hold_event(tx, id)?;
            events.insert(id.clone(), events::find(tx, id)?.map(Arc::new));
        }
        let people: BTreeSet<_> = about.map(|(_, user)| user.as_str()).collect();
        let people: Vec<_> = people.into_iter().collect();
        let users = users::find_many(tx, &people)?;
        Ok(Self {
            claims,
            rules: claims.rules(),
            now: tx.now(),
            events,
            users,
            left: HashMap::new(),
            taken: BTreeMap::new(),
            parts_taken: Vec::new(),
            parts_given: Vec::new(),
            made: Vec::new(),
            only_validates: false,
            careful: false,
        })
    }

    pub(super) fn event(&self, id: &EventId) -> Option<&Arc<Event>> {
        self.events.get(id).and_then(Option::as_ref)
    }

    /// Holds the stock of those events whose claims are about to take from it or to give back, in the order of their ids.
    pub(super) fn hold_stock<'a>(
        &mut self,
        tx: &mut Tx<'_>,
        claims: impl Iterator<Item = &'a Claim>,
    ) -> Result<(), Fault> {
        let near = |claim: &&Claim| {
            let limited = claim.progress.rewards.iter().any(|reward| reward.limited);
            let near = match &claim.progress.state {
                State::Going { at } => matches!(at, Going::ConditionCheck | Going::InventoryAllocation),
                State::Undoing { .. } => true,
                _ => false,
            };
            // A claim of which only a part was granted gives the rest back at its end.
            limited && (near || claim.need() == Need::Nothing)
        };
        let wanted: BTreeSet<_> = claims.filter(near).map(|claim| &claim.event_id).collect();
        for event_id in wanted {
            let left = allocations::lock_stock(tx, event_id)?.into_iter().collect();
            self.left.insert(event_id.clone(), left);
        }
        Ok(())
    }

    fn user(&self, user_id: &UserId) -> UserFound {
        match (self.users.get(user_id.as_str()), self.claims.unknown_users) {
            (Some(UserStatus::Active), _) | (None, UnknownUsers::Accept) => UserFound::Active,
            (Some(status), _) => UserFound::Inactive(format!("the user is {}", status.as_str())),
            (None, UnknownUsers::Reject) => UserFound::Inactive("the user is not in the registry".into()),
        }
    }

    /// Takes all that a claim wants, or nothing.
    fn take(&mut self, claim: &Claim) -> Option<Stocked> {
        let left = self.left.get_mut(&claim.event_id)?;
        for (reward, quantity) in claim.wanted_stock() {
            match left.get(reward) {
                None => return Some(Stocked::Odd(format!("{} has no stock of {reward}", claim.event_id))),
                Some(left) if *left < quantity => return Some(Stocked::Short(reward.clone())),
                Some(_) => {}
            }
        }
        for (reward, quantity) in claim.wanted_stock() {
            *left.entry(reward.clone()).or_default() -= quantity;
            *self.taken.entry((claim.event_id.clone(), reward.clone())).or_default() += quantity;
            self.parts_taken.push(part(claim, reward, quantity));
        }
        Some(Stocked::Taken)
    }

    pub(super) fn give_back(&mut self, claim: &Claim, rewards: &[(RewardId, i64)]) {
        for (reward, quantity) in rewards {
            if let Some(left) = self.left.get_mut(&claim.event_id) {
                *left.entry(reward.clone()).or_default() += quantity;
            }
            *self.taken.entry((claim.event_id.clone(), reward.clone())).or_default() -= quantity;
            self.parts_given.push(part(claim, reward, *quantity));
        }
    }

    /// Goes on with a claim until it needs somebody outside, the wallet, or stock that is not held.
    fn walk(&mut self, claim: &mut Claim) -> Result<(), Fault> {
        let began = claim.status();
        for _ in 0..STEPS_MAX {
            if self.careful && claim.status() != began {
                return Ok(());
            }
            if claim.progress.not_before.is_some_and(|at| at > self.now) {
                return Ok(());
            }
            if self.only_validates && claim.progress.state != (State::Going { at: Going::Validation }) {
                return Ok(());
            }
            let (now, rules) = (self.now, self.rules);
            match claim.need() {
                Need::Event => {
                    let missing = || Fault::Inconsistent(format!("{} has no event", claim.id));
                    let event = self.event(&claim.event_id).map(Arc::clone).ok_or_else(missing)?;
                    claim.event_found(&event, now, &rules).map_err(illegal)?;
                }
                Need::User if self.claims.users_here => {
                    let found = self.user(&claim.user_id);
                    claim.user_found(found, now, &rules).map_err(illegal)?;
                }
                // Whoever was shut out here is, whatever others say.
                Need::User if matches!(self.users.get(claim.user_id.as_str()), Some(status) if !status.is_active()) =>
                {
                    let found = self.user(&claim.user_id);
                    claim.user_found(found, now, &rules).map_err(illegal)?;
                }
                // Somebody outside, or nobody.
                Need::User | Need::Conditions | Need::Over => return Ok(()),
                Need::Stock => match self.take(claim) {
                    Some(stocked) => claim.stocked(stocked, now, &rules).map_err(illegal)?,
                    None => return Ok(()),
                },
                Need::Return => {
                    if !self.left.contains_key(&claim.event_id) {
                        return Ok(());
                    }
                    let held: Vec<_> =
                        claim.held_stock().map(|(reward, count)| (reward.clone(), count)).collect();
                    self.give_back(claim, &held);
                    claim.returned(now, &rules).map_err(illegal)?;
                }
                Need::Grant(index) | Need::Revoke(index) => {
                    let provider = claim.progress.rewards[index].provider.as_str();
                    if self.claims.knows(provider) || matches!(claim.need(), Need::Revoke(_)) {
                        return Ok(());
                    }
                    tracing::error!(provider, claim = %claim.id, "a claim's reward has no provider");
                    let reason = String::from("nobody delivers it");
                    let outcome = Outcome::Refused { reason };
                    claim.granted(index, &outcome, now, &rules, 0).map_err(illegal)?;
                }
                Need::Nothing => {
                    // What is given back at the end of one that is granted in part has to be held.
                    let limited = claim.progress.rewards.iter().any(|reward| reward.limited);
                    let granting = claim.progress.state == State::Going { at: Going::RewardGrant };
                    if granting && limited && !self.left.contains_key(&claim.event_id) && is_partial(claim) {
                        return Ok(());
                    }
                    let mut returned = Vec::new();
                    claim.proceed(now, &rules, &mut returned).map_err(illegal)?;
                    self.give_back(claim, &returned);
                }
            }
        }
        Err(Fault::Inconsistent(format!("{} goes round in circles", claim.id)))
    }

    /// Looks at what has to be true of new claims, as far as the house knows; the rest is for their lanes.
    pub(super) fn validate(&mut self, claims: &mut [&mut Claim]) -> Result<(), Fault> {
        self.only_validates = true;
        claims.iter_mut().try_for_each(|claim| self.walk(claim))
    }

    /// Has each claim go one step and no further: then what is refused is that step.
    pub(super) fn careful(&mut self) {
        self.careful = true;
    }

    /// Goes on with claims as far as the house can.
    pub(super) fn advance(
        &mut self,
        tx: &mut Tx<'_>,
        claims: &mut [&mut Claim],
        publishing: Publishing,
    ) -> Result<(), Fault> {
        let began: Vec<_> = claims.iter().map(|claim| claim.status()).collect();
        claims.iter_mut().try_for_each(|claim| self.walk(claim))?;
        if self.careful && claims.iter().zip(began).any(|(claim, began)| claim.status() != began) {
            return Ok(());
        }
        self.pay(tx, claims, publishing)?;
        claims.iter_mut().try_for_each(|claim| self.walk(claim))
    }

    /// Which of a claim's rewards the wallet pays out or takes back now.
    fn payments(&self, claim: &Claim) -> Vec<usize> {
        if claim.progress.not_before.is_some_and(|at| at > self.now) {
            return Vec::new();
        }
        let here = |index: &usize| self.claims.is_here(&claim.progress.rewards[*index].provider);
        match claim.need() {
            Need::Grant(first) => {
                // Those that follow each other go together.
                let pending = first..claim.progress.rewards.len();
                pending.take_while(here).collect()
            }
            Need::Revoke(index) => Some(index).filter(here).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn pay(
        &mut self,
        tx: &mut Tx<'_>,
        claims: &mut [&mut Claim],
        publishing: Publishing,
    ) -> Result<(), Fault> {
        let (mut grants, mut revokes) = (Vec::new(), Vec::new());
        for (index, claim) in claims.iter().enumerate() {
            let list = if matches!(claim.need(), Need::Grant(_)) { &mut grants } else { &mut revokes };
            list.extend(self.payments(claim).into_iter().map(|reward| Payment {
                claim: index,
                reward,
                of: claim,
            }));
        }
        if grants.is_empty() && revokes.is_empty() {
            return Ok(());
        }
        // What was paid is held before the accounts, in the order of the transfers.
        let paid: BTreeSet<_> =
            revokes.iter().map(|payment| payment.of.id.transfer_id(payment.reward)).collect();
        let mut originals = BTreeMap::new();
        for id in paid {
            originals.extend(transfers::lock(tx, id)?.map(|transfer| (id, transfer)));
        }
        let plans = plan(tx, &grants)?;
        let mut wanted: BTreeSet<_> = plans.iter().flatten().flat_map(|(from, to, _)| [*from, *to]).collect();
        wanted.extend(
            originals.values().flat_map(|of: &Transfer| [of.posted.from.account, of.posted.to.account]),
        );
        let mut books = accounts::lock(tx, &wanted)?;
        let (now, rules) = (self.now, self.rules);
        let mut made: Vec<Made> = Vec::new();
        let mut outcomes: Vec<(usize, usize, bool, Outcome)> = Vec::new();
        let mut failed = BTreeSet::new();
        for (payment, plan) in grants.iter().zip(plans) {
            let claim = payment.of;
            if failed.contains(&payment.claim) {
                // Whether the rest is paid is decided by what becomes of that.
                continue;
            }
            let outcome = match plan {
                Err(reason) => Outcome::Refused { reason },
                Ok((from, to, amount)) => match books.post(from, to, amount, now) {
                    Err(rejection) => Outcome::Refused { reason: rejection.to_string() },
                    Ok(posted) => {
                        let id = claim.id.transfer_id(payment.reward);
                        let transfer = transfer(id, TransferKind::Reward, posted, None, claim)?;
                        tx.follow(&transfer.id, claim.progress.trace);
                        made.push(told(transfer, &books, from)?);
                        Outcome::Applied { transaction_id: Some(id.to_string()) }
                    }
                },
            };
            if !matches!(outcome, Outcome::Applied { .. }) {
                failed.insert(payment.claim);
            }
            outcomes.push((payment.claim, payment.reward, false, outcome));
        }
        for payment in &revokes {
            let (claim, original) = (payment.of, payment.of.id.transfer_id(payment.reward));
            let outcome = match originals.get(&original) {
                // Nothing was paid, and nothing will be: whoever pays holds this claim.
                None => Outcome::Revoked,
                Some(of) => {
                    let (from, to, rest) =
                        (of.posted.to.account, of.posted.from.account, of.posted.amount - of.refunded);
                    match (rest > 0).then(|| books.post(from, to, rest, now)) {
                        None => Outcome::Revoked,
                        Some(Err(rejection)) => Outcome::Refused { reason: rejection.to_string() },
                        Some(Ok(posted)) => {
                            if !transfers::refund(tx, original, rest)? {
                                return Err(Fault::Inconsistent(format!(
                                    "{original} changed while it was held"
                                )));
                            }
                            let id = claim.id.refund_id(payment.reward);
                            let kind = TransferKind::Revocation;
                            let transfer = transfer(id, kind, posted, Some(original), claim)?;
                            tx.follow(&transfer.id, claim.progress.trace);
                            made.push(told(transfer, &books, from)?);
                            Outcome::Revoked
                        }
                    }
                }
            };
            outcomes.push((payment.claim, payment.reward, true, outcome));
        }
        transfers::write(tx, &books, &made, publishing)?;
        self.made.extend(made.iter().map(|made| made.transfer.id));
        for (claim, reward, revoking, outcome) in outcomes {
            let claim = &mut *claims[claim];
            let moved = if revoking {
                claim.calling(Need::Revoke(reward), now, now);
                claim.revoked(reward, &outcome, now, &rules, 0)
            } else {
                claim.granted(reward, &outcome, now, &rules, 0)
            };
            moved.map_err(illegal)?;
        }
        Ok(())
    }

    /// Writes what was taken and given back; the transfers that were made.
    pub(super) fn close(self, tx: &mut Tx<'_>) -> Result<Vec<TransferId>, Fault> {
        for ((event, reward), count) in &self.taken {
            if *count > 0 {
                if !allocations::take_stock(tx, event, reward, *count)? {
                    return Err(Fault::Inconsistent(format!(
                        "the stock of {reward} changed while it was held"
                    )));
                }
            } else if *count < 0 {
                stock::add(tx, event, reward, -count)?;
            }
        }
        stock::take(tx, &self.parts_taken)?;
        stock::give_back(tx, &self.parts_given)?;
        Ok(self.made)
    }
}

fn is_partial(claim: &Claim) -> bool {
    claim.progress.rewards.iter().any(|reward| reward.failure.is_some())
}

fn part(claim: &Claim, reward: &RewardId, quantity: i64) -> Part {
    Part { claim: claim.id, event: claim.event_id.clone(), reward: reward.clone(), quantity }
}

fn transfer(
    id: TransferId,
    kind: TransferKind,
    posted: Posted,
    refund_of: Option<TransferId>,
    claim: &Claim,
) -> Result<Transfer, Fault> {
    let key = IdempotencyKey::parse(id.to_string()).map_err(Fault::Inconsistent)?;
    Ok(Transfer { id, kind, posted, refunded: 0, refund_of, client: claim.user_id.clone(), key })
}
