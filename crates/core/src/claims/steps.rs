//! Where a claim goes with what was found out. Each function takes one fact and moves the claim by the table.

use super::{
    Claim, ClaimId, ClaimReward, EventSnapshot, Failure, Going, GrantStatus, IllegalMove, InventoryStatus,
    Need, Passed, Progress, Refusal, SagaStep, State, UndoAction, UndoLine, UndoPhase, Undoing,
};
use crate::allocations::answer::PAUSE_MAX_MS;
use crate::allocations::{Outcome, Rules as Patience, key};
use crate::events::settings::GrantPolicy;
use crate::events::view::RewardView;
use crate::events::{Event, EventKind, EventStatus, check_open};
use crate::id::{ClaimKey, RewardId, UserId};
use crate::time::Timestamp;
use serde_json::{Map, Value};

type Moved = Result<(), IllegalMove>;

/// How often and how patiently a claim's calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Calls of a provider before a grant has failed, and before a compensation needs a hand.
    pub tries: i64,
    pub retry_delay_ms: i64,
    /// How long a claim may go on, and as long again its compensation.
    pub timeout_ms: i64,
}

/// What is known of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserFound {
    Active,
    /// Or nobody at all.
    Inactive(String),
    /// Nobody could say.
    Failed(String),
}

/// What the conditions say.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    Met(Map<String, Value>),
    NotMet(Map<String, Value>),
    /// The data could not be had, or could not be judged.
    Failed {
        reason: String,
        data: Option<Map<String, Value>>,
    },
}

/// What became of taking the stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stocked {
    Taken,
    Short(RewardId),
    /// Others were faster, again and again.
    Lost(String),
    /// It cannot be taken from: the event does not have it.
    Odd(String),
    /// The database refused it, again and again.
    Broken(String),
}

/// A claim that somebody makes now.
pub fn begin(
    id: ClaimId,
    request_id: ClaimKey,
    user_id: UserId,
    event: &Event,
    now: Timestamp,
    rules: &Rules,
) -> Option<Claim> {
    let EventKind::Claim { conditions, grant_policy } = &event.settings.kind else { return None };
    let rewards = event
        .settings
        .rewards
        .iter()
        .map(|reward| ClaimReward {
            reward_id: reward.id.clone(),
            quantity: reward.quantity,
            limited: reward.total_stock.is_some(),
            provider: reward.provider_name().to_owned(),
            inventory: InventoryStatus::Pending,
            grant: GrantStatus::Pending,
            key: key::of_claim(&request_id, &reward.id),
            transaction_id: None,
            failure: None,
            processed_at: None,
            tries: 0,
            in_doubt: false,
            call_until: None,
        })
        .collect();
    let state = State::Going { at: Going::Validation };
    let shown = event.settings.rewards.iter().map(|reward| {
        let view = RewardView::of(reward.into(), None);
        serde_json::to_value(view).unwrap_or_default()
    });
    Some(Claim {
        id,
        request_id,
        user_id,
        event_id: event.id.clone(),
        snapshot: EventSnapshot {
            version: event.version,
            conditions: conditions.clone(),
            grant_policy: *grant_policy,
            rewards: shown.collect(),
        },
        checked: None,
        progress: Progress {
            timeline: vec![Passed { to: state.status(), at: now }],
            state,
            step: SagaStep::ValidateUserAndEvent,
            rewards,
            log: Vec::new(),
            seen_event: false,
            seen_user: false,
            not_before: None,
            trace: None,
        },
        epoch: 0,
        expires_at: Some(now.plus_millis(rules.timeout_ms)),
        created_at: now,
        updated_at: now,
    })
}

impl Claim {
    fn refuse(&mut self, by: Refusal, code: &str, message: impl AsRef<str>, now: Timestamp) -> Moved {
        self.go(State::Refused { by, failure: Failure::new(code, message) }, now)
    }

    /// The user has been granted this event's rewards before.
    pub fn already_claimed(&mut self, now: Timestamp) -> Moved {
        let message = "the rewards of this event were claimed before";
        self.refuse(Refusal::AlreadyClaimed, "ALREADY_CLAIMED", message, now)
    }

    /// The event was looked at: before anything is done, and again before anything is granted.
    pub fn event_found(&mut self, event: &Event, now: Timestamp, rules: &Rules) -> Moved {
        self.progress.seen_event = true;
        match self.progress.state {
            State::Going { at: Going::Validation } => match check_open(event, now) {
                Ok(()) => Ok(()),
                Err(closed) => self.refuse(Refusal::EventNotActive, "EVENT_NOT_ACTIVE", closed.detail, now),
            },
            // The mere end of its window does not stop a claim that was valid.
            _ if event.status() == EventStatus::Cancelled => {
                let failure = Failure::new("EVENT_NOT_ACTIVE", "the event was cancelled");
                self.fail_grant(Undoing::GrantFailed, failure, now, rules)
            }
            _ => Ok(()),
        }
    }

    /// Whether the user is active was found out, before anything is done or before anything is granted.
    pub fn user_found(&mut self, found: UserFound, now: Timestamp, rules: &Rules) -> Moved {
        let granting = self.progress.state == State::Going { at: Going::RewardGrant };
        match (found, granting) {
            (UserFound::Active, _) => {
                self.progress.seen_user = true;
                self.updated_at = now;
                Ok(())
            }
            (UserFound::Inactive(what), false) => {
                self.refuse(Refusal::UserInactive, "USER_INACTIVE", what, now)
            }
            (UserFound::Failed(reason), false) => {
                self.refuse(Refusal::ExternalAuth, "AUTH_SERVICE_FAILED", reason, now)
            }
            (UserFound::Inactive(what), true) => {
                for reward in &mut self.progress.rewards {
                    if reward.grant == GrantStatus::Pending {
                        reward.grant = GrantStatus::FailedUserInactive;
                        reward.failure = Some(what.clone());
                    }
                }
                let failure = Failure::new("USER_INACTIVE", what);
                self.fail_grant(Undoing::UserInactive, failure, now, rules)
            }
            (UserFound::Failed(reason), true) => {
                let failure = Failure::new("AUTH_SERVICE_FAILED", reason);
                self.fail_grant(Undoing::GrantFailed, failure, now, rules)
            }
        }
    }

    /// The conditions were judged.
    pub fn judged(&mut self, judged: Judged, now: Timestamp) -> Moved {
        match judged {
            Judged::Met(data) => {
                self.checked = Some(data);
                self.conditions_met(now)
            }
            Judged::NotMet(data) => {
                self.checked = Some(data);
                let message = "the conditions of the event are not met";
                self.refuse(Refusal::ConditionNotMet, "CONDITION_NOT_MET", message, now)
            }
            Judged::Failed { reason, data } => {
                self.checked = data;
                self.refuse(Refusal::ConditionExternal, "CONDITION_CHECK_FAILED", reason, now)
            }
        }
    }

    fn conditions_met(&mut self, now: Timestamp) -> Moved {
        let limited = self.progress.rewards.iter().any(|reward| reward.limited);
        let at = if limited { Going::InventoryAllocation } else { Going::RewardGrant };
        self.go(State::Going { at }, now)
    }

    /// What it takes from the stock.
    pub fn wanted_stock(&self) -> impl Iterator<Item = (&RewardId, i64)> {
        let wanted = |reward: &&ClaimReward| reward.limited && reward.inventory == InventoryStatus::Pending;
        self.progress.rewards.iter().filter(wanted).map(|reward| (&reward.reward_id, reward.quantity))
    }

    /// What it holds of the stock.
    pub fn held_stock(&self) -> impl Iterator<Item = (&RewardId, i64)> {
        let held = |reward: &&ClaimReward| reward.inventory == InventoryStatus::Allocated;
        self.progress.rewards.iter().filter(held).map(|reward| (&reward.reward_id, reward.quantity))
    }

    pub fn stocked(&mut self, stocked: Stocked, now: Timestamp, rules: &Rules) -> Moved {
        match stocked {
            Stocked::Taken => {
                for reward in self.progress.rewards.iter_mut().filter(|reward| reward.limited) {
                    reward.inventory = InventoryStatus::Allocated;
                }
                self.go(State::Going { at: Going::Allocated }, now)
            }
            Stocked::Short(reward) => {
                let message = format!("nothing is left of {reward}");
                self.refuse(Refusal::OutOfStock, "OUT_OF_STOCK", message, now)
            }
            Stocked::Lost(reason) => self.refuse(Refusal::Concurrency, "CONCURRENCY", reason, now),
            Stocked::Odd(reason) => {
                let failure = Failure::new("INVENTORY_ERROR", reason);
                self.go(State::Undoing { at: Undoing::InventoryError, failure }, now)?;
                self.compensate(now, rules)
            }
            Stocked::Broken(reason) => {
                let failure = Failure::new("INVENTORY_ERROR_DB", reason);
                self.go(State::Undoing { at: Undoing::InventoryErrorDb, failure }, now)?;
                self.compensate(now, rules)
            }
        }
    }

    /// A call is about to be made, which ends by then.
    pub fn calling(&mut self, need: Need, until: Timestamp, now: Timestamp) {
        let (index, revoking) = match need {
            Need::Grant(index) => (index, false),
            Need::Revoke(index) => (index, true),
            _ => return,
        };
        let Some(reward) = self.progress.rewards.get_mut(index) else { return };
        if reward.call_until.is_some() && !revoking {
            // Whoever made the last call never said what became of it.
            reward.in_doubt = true;
        }
        reward.call_until = Some(until);
        let id = reward.reward_id.clone();
        if revoking {
            self.note(UndoAction::RevokeReward, Some(id), UndoPhase::Started, now, None);
        }
    }

    fn note(
        &mut self,
        action: UndoAction,
        reward_id: Option<RewardId>,
        phase: UndoPhase,
        at: Timestamp,
        detail: Option<String>,
    ) {
        self.progress.log.push(UndoLine { action, reward_id, phase, at, detail });
    }

    /// A call was made, or refused without being made, to grant one of its rewards.
    pub fn granted(
        &mut self,
        index: usize,
        outcome: &Outcome,
        now: Timestamp,
        rules: &Rules,
        chance: u64,
    ) -> Moved {
        let Some(reward) = self.progress.rewards.get_mut(index) else { return Ok(()) };
        let (reason, retry_after_ms, again) = match outcome {
            Outcome::Applied { transaction_id } => {
                reward.grant = GrantStatus::Success;
                reward.transaction_id.clone_from(transaction_id);
                reward.processed_at = Some(now);
                (reward.in_doubt, reward.call_until, reward.tries, reward.failure) = (false, None, 0, None);
                self.progress.not_before = None;
                self.updated_at = now;
                self.wait_for_calls();
                return Ok(());
            }
            Outcome::Unknown { reason } => {
                // The call may go on without us, until its time is over.
                reward.in_doubt = true;
                (reason.as_str(), None, true)
            }
            Outcome::NotApplied { reason, retry_after_ms } => {
                reward.call_until = None;
                (reason.as_str(), *retry_after_ms, true)
            }
            Outcome::Misconfigured { reason } => {
                reward.call_until = None;
                (reason.as_str(), None, true)
            }
            Outcome::Refused { reason } => {
                reward.call_until = None;
                (reason.as_str(), None, false)
            }
            Outcome::Revoked => ("it was taken back", None, false),
        };
        reward.tries += 1;
        reward.failure = Some(Failure::new("", reason).message);
        if again && reward.tries < rules.tries {
            let tries = reward.tries;
            self.wait(tries, retry_after_ms, now, rules, chance);
            return Ok(());
        }
        self.grant_failed(index, now, rules)
    }

    fn wait(&mut self, tries: i64, asked: Option<i64>, now: Timestamp, rules: &Rules, chance: u64) {
        let patience = Patience { retry_delay_ms: rules.retry_delay_ms, max_attempts: rules.tries };
        let pause = patience.backoff_ms(tries, chance).max(asked.unwrap_or(0).min(PAUSE_MAX_MS));
        self.progress.not_before = Some(now.plus_millis(pause));
        self.updated_at = now;
    }

    fn grant_failed(&mut self, index: usize, now: Timestamp, rules: &Rules) -> Moved {
        self.progress.not_before = None;
        let Some(reward) = self.progress.rewards.get_mut(index) else { return Ok(()) };
        reward.grant = GrantStatus::FailedExternal;
        reward.tries = 0;
        reward.processed_at = Some(now);
        let message = format!("{}: {}", reward.reward_id, reward.failure.as_deref().unwrap_or_default());
        if self.snapshot.grant_policy == GrantPolicy::Partial {
            self.updated_at = now;
            self.wait_for_calls();
            return Ok(());
        }
        self.fail_grant(Undoing::GrantFailed, Failure::new("REWARD_GRANT_FAILED", message), now, rules)
    }

    fn fail_grant(&mut self, at: Undoing, failure: Failure, now: Timestamp, rules: &Rules) -> Moved {
        for reward in &mut self.progress.rewards {
            // Nobody said what became of this call.
            reward.in_doubt |= reward.call_until.is_some() && reward.grant != GrantStatus::Success;
            reward.tries = 0;
        }
        self.go(State::Undoing { at, failure }, now)?;
        self.compensate(now, rules)
    }

    /// Goes on with what is to be undone: what was granted first, then what was taken.
    fn compensate(&mut self, now: Timestamp, rules: &Rules) -> Moved {
        let State::Undoing { at, failure } = self.progress.state.clone() else { return Ok(()) };
        let out = self.progress.rewards.iter().any(ClaimReward::is_out);
        let held = self.held_stock().next().is_some();
        let next = match at {
            Undoing::GrantFailed | Undoing::UserInactive if out => Some(Undoing::CompensationReward),
            Undoing::GrantFailed | Undoing::UserInactive | Undoing::CompensatedReward if held => {
                Some(Undoing::CompensationInventory)
            }
            Undoing::InventoryError | Undoing::InventoryErrorDb => Some(Undoing::CompensationInventory),
            Undoing::CompensationReward if !out => Some(Undoing::CompensatedReward),
            Undoing::GrantFailed
            | Undoing::UserInactive
            | Undoing::CompensatedReward
            | Undoing::CompensatedInventory => None,
            Undoing::CompensationReward | Undoing::CompensationInventory => return Ok(()),
        };
        match next {
            Some(next) => self.go(State::Undoing { at: next, failure }, now)?,
            None => self.go(State::RolledBack { failure, note: None }, now)?,
        }
        // It has as much time for this as it had for the rest.
        if self.expires_at.is_some() {
            self.expires_at = Some(now.plus_millis(rules.timeout_ms));
        }
        self.wait_for_calls();
        Ok(())
    }

    /// A call that may still be under way is waited for before it is taken back.
    fn wait_for_calls(&mut self) {
        if let Need::Revoke(index) = self.need() {
            self.progress.not_before = self.progress.rewards[index].call_until;
        }
    }

    /// A call was made to take one of its rewards back.
    pub fn revoked(
        &mut self,
        index: usize,
        outcome: &Outcome,
        now: Timestamp,
        rules: &Rules,
        chance: u64,
    ) -> Moved {
        let Some(reward) = self.progress.rewards.get_mut(index) else { return Ok(()) };
        let id = reward.reward_id.clone();
        let (reason, asked, again) = match outcome {
            Outcome::Revoked => {
                // Also where nobody knows whether there was anything to take back.
                if matches!(reward.grant, GrantStatus::Success | GrantStatus::Pending) {
                    reward.grant = GrantStatus::Revoked;
                }
                (reward.in_doubt, reward.call_until, reward.tries) = (false, None, 0);
                reward.processed_at = Some(now);
                self.progress.not_before = None;
                self.note(UndoAction::RevokeReward, Some(id), UndoPhase::Done, now, None);
                self.updated_at = now;
                self.wait_for_calls();
                return Ok(());
            }
            Outcome::NotApplied { reason, retry_after_ms } => (reason.clone(), *retry_after_ms, true),
            Outcome::Unknown { reason } | Outcome::Misconfigured { reason } => (reason.clone(), None, true),
            Outcome::Refused { reason } => (reason.clone(), None, false),
            Outcome::Applied { .. } => ("it was granted again".to_owned(), None, true),
        };
        reward.tries += 1;
        let tries = reward.tries;
        self.note(UndoAction::RevokeReward, Some(id.clone()), UndoPhase::Failed, now, Some(reason.clone()));
        if again && tries < rules.tries {
            self.wait(tries, asked, now, rules, chance);
            return Ok(());
        }
        let trouble = Failure::new("REVOKE_FAILED", format!("{id} could not be taken back: {reason}"));
        self.need_hand(trouble, now, rules)
    }

    /// What cannot be undone waits for an operator, with its stock still held.
    fn need_hand(&mut self, trouble: Failure, now: Timestamp, rules: &Rules) -> Moved {
        match self.progress.state.clone() {
            State::Undoing { failure, .. } => self.go(State::NeedsHand { failure, trouble }, now),
            // A part of it failed, and it is not known what the provider holds: then all of it has failed.
            State::Going { at: Going::RewardGrant } => {
                self.fail_grant(Undoing::GrantFailed, trouble.clone(), now, rules)?;
                let State::Undoing { failure, .. } = self.progress.state.clone() else { return Ok(()) };
                self.go(State::NeedsHand { failure, trouble }, now)
            }
            _ => Ok(()),
        }
    }

    /// The stock was given back.
    pub fn returned(&mut self, now: Timestamp, rules: &Rules) -> Moved {
        let State::Undoing { at: Undoing::CompensationInventory, failure } = self.progress.state.clone()
        else {
            return Ok(());
        };
        self.give_back(|_| true, now);
        self.go(State::Undoing { at: Undoing::CompensatedInventory, failure }, now)?;
        self.compensate(now, rules)
    }

    /// Notes that what it holds of some rewards is given back.
    fn give_back(&mut self, which: impl Fn(&ClaimReward) -> bool, now: Timestamp) {
        let mut lines = Vec::new();
        for reward in self.progress.rewards.iter_mut().rev() {
            if reward.inventory != InventoryStatus::Allocated || !which(reward) {
                continue;
            }
            reward.inventory = InventoryStatus::Returned;
            for phase in [UndoPhase::Started, UndoPhase::Done] {
                let (action, reward_id) = (UndoAction::ReturnInventory, Some(reward.reward_id.clone()));
                lines.push(UndoLine { action, reward_id, phase, at: now, detail: None });
            }
        }
        self.progress.log.extend(lines);
    }

    /// Goes on where it needs nobody. What is to be given back of the stock is in `returned`.
    pub fn proceed(&mut self, now: Timestamp, rules: &Rules, returned: &mut Vec<(RewardId, i64)>) -> Moved {
        match self.progress.state.clone() {
            State::Going { at: Going::Validation } => {
                self.go(State::Going { at: Going::ConditionCheck }, now)
            }
            State::Going { at: Going::ConditionCheck } => self.conditions_met(now),
            State::Going { at: Going::Allocated } => self.go(State::Going { at: Going::RewardGrant }, now),
            State::Going { at: Going::RewardGrant } => self.finish(now, rules, returned),
            State::Undoing { .. } => self.compensate(now, rules),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, now: Timestamp, rules: &Rules, returned: &mut Vec<(RewardId, i64)>) -> Moved {
        let granted = |reward: &ClaimReward| reward.grant == GrantStatus::Success;
        if self.progress.rewards.iter().all(granted) {
            return self.go(State::Granted { at: now }, now);
        }
        if !self.progress.rewards.iter().any(granted) {
            let reason = self.progress.rewards.iter().find_map(|reward| reward.failure.clone());
            let failure = Failure::new("REWARD_GRANT_FAILED", reason.unwrap_or_default());
            return self.fail_grant(Undoing::GrantFailed, failure, now, rules);
        }
        let failed = |reward: &ClaimReward| reward.grant != GrantStatus::Success;
        let held = |reward: &&ClaimReward| failed(reward) && reward.inventory == InventoryStatus::Allocated;
        let rewards = self.progress.rewards.iter().filter(held);
        returned.extend(rewards.map(|reward| (reward.reward_id.clone(), reward.quantity)));
        self.give_back(failed, now);
        self.go(State::PartiallyGranted { at: now }, now)
    }

    /// It took too long.
    pub fn timed_out(&mut self, now: Timestamp, rules: &Rules) -> Moved {
        let failure = Failure::new("TIMEOUT", "the claim was pending for too long");
        match self.progress.state {
            State::Going { at: Going::Validation | Going::ConditionCheck } => {
                self.go(State::RolledBack { failure, note: None }, now)
            }
            State::Going { at: Going::InventoryAllocation | Going::Allocated } => {
                self.go(State::Undoing { at: Undoing::CompensationInventory, failure }, now)?;
                self.expires_at = Some(now.plus_millis(rules.timeout_ms));
                Ok(())
            }
            State::Going { at: Going::RewardGrant } => {
                self.fail_grant(Undoing::GrantFailed, failure, now, rules)
            }
            State::Undoing { at: Undoing::CompensationReward, .. } => {
                let trouble = Failure::new("COMPENSATION_TIMEOUT", "it could not be undone in time");
                self.need_hand(trouble, now, rules)
            }
            // What is left needs nobody.
            _ => Ok(()),
        }
    }

    /// The database refused what comes next, again and again, while it works for others.
    pub fn broken(&mut self, reason: &str, now: Timestamp, rules: &Rules) -> Moved {
        let failure = Failure::new("ERROR_DB", reason);
        match self.progress.state {
            State::Going { at: Going::Validation | Going::ConditionCheck } => {
                self.go(State::RolledBack { failure, note: None }, now)
            }
            State::Going { at: Going::InventoryAllocation } => {
                self.stocked(Stocked::Broken(reason.to_owned()), now, rules)
            }
            State::Going { at: Going::Allocated } => {
                self.go(State::Undoing { at: Undoing::CompensationInventory, failure }, now)
            }
            State::Going { at: Going::RewardGrant } => {
                self.fail_grant(Undoing::GrantFailed, failure, now, rules)
            }
            State::Undoing { at: Undoing::CompensationReward | Undoing::CompensationInventory, .. } => {
                self.need_hand(failure, now, rules)
            }
            _ => Ok(()),
        }
    }

    /// Whether its time is over.
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// An operator has its compensation tried again. False where there is nothing to try.
    pub fn tried_again(&mut self, now: Timestamp, rules: &Rules) -> Result<bool, IllegalMove> {
        let State::NeedsHand { failure, .. } = self.progress.state.clone() else { return Ok(false) };
        for reward in &mut self.progress.rewards {
            reward.tries = 0;
        }
        let out = self.progress.rewards.iter().any(ClaimReward::is_out);
        let at = if out { Undoing::CompensationReward } else { Undoing::CompensationInventory };
        self.expires_at = Some(now.plus_millis(rules.timeout_ms));
        self.go(State::Undoing { at, failure }, now)?;
        self.wait_for_calls();
        Ok(true)
    }

    /// An operator has seen to it. What it holds of the stock is given back, unless it is gone for good.
    pub fn resolved(
        &mut self,
        note: &str,
        return_stock: bool,
        now: Timestamp,
        returned: &mut Vec<(RewardId, i64)>,
    ) -> Result<bool, IllegalMove> {
        let State::NeedsHand { failure, .. } = self.progress.state.clone() else { return Ok(false) };
        if return_stock {
            returned.extend(self.held_stock().map(|(id, count)| (id.clone(), count)));
            self.give_back(|_| true, now);
        }
        for reward in &mut self.progress.rewards {
            if reward.is_out() {
                if matches!(reward.grant, GrantStatus::Success | GrantStatus::Pending) {
                    reward.grant = GrantStatus::Revoked;
                }
                reward.in_doubt = false;
                reward.failure = Some("an operator has seen to it".into());
            }
        }
        self.note(UndoAction::Resolve, None, UndoPhase::Done, now, Some(note.to_owned()));
        self.go(State::RolledBack { failure, note: Some(note.to_owned()) }, now)?;
        Ok(true)
    }
}
