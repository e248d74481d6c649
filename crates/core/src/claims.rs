//! Claims: an event's rewards for whoever meets its conditions, as a saga that is undone when it cannot be finished.
//!
//! A claim is a row that moves by a table of legal moves. What it needs next follows from where it stands; what became
//! of that is a fact, and where the claim goes with it is decided here. Nothing in this module knows who answers: the
//! store, a service over HTTP, or one day a broker.

pub mod steps;
pub mod view;

pub use steps::{Judged, Rules, Stocked, UserFound, begin};

use crate::events::Condition;
use crate::events::settings::GrantPolicy;
use crate::id::{ClaimKey, EventId, RewardId, UserId, uuid_id};
use crate::named::named;
use crate::time::Timestamp;
use crate::trace::Trace;
use crate::wallet::TransferId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// The longest that is kept of what went wrong, in characters.
const MESSAGE_MAX: usize = 500;
/// Where ids begin that are made from a claim's: what pays a reward out, and what takes it back.
const PAID: u16 = 0x800;
const REFUNDED: u16 = 0xc00;

uuid_id! {
    /// A claim's own id: in the order of arrival. People know it by its `requestId`.
    ClaimId
}

impl ClaimId {
    /// A new one, from an id that nothing else has: what is made from a claim's id tells which claim it is of.
    pub fn fresh(mut bytes: [u8; 16]) -> Self {
        (bytes[6], bytes[7]) = (0x70, 0);
        Self::from_bytes(bytes)
    }

    /// The one transfer that can pay a reward of it out.
    pub fn transfer_id(&self, reward: usize) -> TransferId {
        self.made(PAID, reward)
    }

    /// The one transfer that can take it back.
    pub fn refund_id(&self, reward: usize) -> TransferId {
        self.made(REFUNDED, reward)
    }

    fn made(self, purpose: u16, reward: usize) -> TransferId {
        let mut bytes = *self.0.as_bytes();
        let [high, low] = (purpose | u16::try_from(reward).unwrap_or(0x3ff)).to_be_bytes();
        bytes[6] ^= high;
        bytes[7] ^= low;
        TransferId::from_bytes(bytes)
    }

    /// Which claim's reward a transfer pays out, if it is of one.
    pub fn of_transfer(id: TransferId) -> Option<(Self, usize)> {
        let mut bytes = *id.as_bytes();
        let reward = u16::from_be_bytes([bytes[6] & 0x0f, bytes[7]]) ^ PAID;
        (bytes[6], bytes[7]) = (bytes[6] & 0xf0, 0);
        (reward < 0x400).then(|| (Self::from_bytes(bytes), usize::from(reward)))
    }
}

named! {
    /// Where a claim stands.
    ClaimStatus {
        PendingValidation "PENDING_VALIDATION",
        ValidationFailedExternalAuth "VALIDATION_FAILED_EXTERNAL_AUTH",
        ValidationFailedUserInactive "VALIDATION_FAILED_USER_INACTIVE",
        ValidationFailedEventNotActive "VALIDATION_FAILED_EVENT_NOT_ACTIVE",
        ValidationFailedAlreadyClaimed "VALIDATION_FAILED_ALREADY_CLAIMED",
        PendingConditionCheck "PENDING_CONDITION_CHECK",
        ConditionCheckFailedExternal "CONDITION_CHECK_FAILED_EXTERNAL",
        ConditionNotMet "CONDITION_NOT_MET",
        PendingInventoryAllocation "PENDING_INVENTORY_ALLOCATION",
        InventoryAllocationFailedOutOfStock "INVENTORY_ALLOCATION_FAILED_OUT_OF_STOCK",
        InventoryAllocationFailedConcurrency "INVENTORY_ALLOCATION_FAILED_CONCURRENCY",
        InventoryAllocationError "INVENTORY_ALLOCATION_ERROR",
        InventoryAllocationErrorDb "INVENTORY_ALLOCATION_ERROR_DB",
        InventoryAllocated "INVENTORY_ALLOCATED",
        PendingRewardGrant "PENDING_REWARD_GRANT",
        RewardGrantFailedExternal "REWARD_GRANT_FAILED_EXTERNAL",
        RewardGrantFailedUserInactive "REWARD_GRANT_FAILED_USER_INACTIVE",
        RewardPartiallyGranted "REWARD_PARTIALLY_GRANTED",
        SuccessAllGranted "SUCCESS_ALL_GRANTED",
        PendingCompensationReward "PENDING_COMPENSATION_REWARD",
        CompensatedReward "COMPENSATED_REWARD",
        PendingCompensationInventory "PENDING_COMPENSATION_INVENTORY",
        CompensatedInventory "COMPENSATED_INVENTORY",
        FailedRolledBack "FAILED_ROLLED_BACK",
        CompensationFailedManualInterventionRequired "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED",
    }
}

use ClaimStatus as S;

/// Every legal move. A status that a transaction only passes through is in the claim's timeline all the same.
pub const MOVES: &[(ClaimStatus, ClaimStatus)] = &[
    (S::PendingValidation, S::ValidationFailedExternalAuth),
    (S::PendingValidation, S::ValidationFailedUserInactive),
    (S::PendingValidation, S::ValidationFailedEventNotActive),
    (S::PendingValidation, S::ValidationFailedAlreadyClaimed),
    (S::PendingValidation, S::PendingConditionCheck),
    (S::PendingConditionCheck, S::ConditionCheckFailedExternal),
    (S::PendingConditionCheck, S::ConditionNotMet),
    (S::PendingConditionCheck, S::PendingInventoryAllocation),
    (S::PendingConditionCheck, S::PendingRewardGrant),
    (S::PendingInventoryAllocation, S::InventoryAllocationFailedOutOfStock),
    (S::PendingInventoryAllocation, S::InventoryAllocationFailedConcurrency),
    (S::PendingInventoryAllocation, S::InventoryAllocationError),
    (S::PendingInventoryAllocation, S::InventoryAllocationErrorDb),
    (S::PendingInventoryAllocation, S::InventoryAllocated),
    (S::InventoryAllocated, S::PendingRewardGrant),
    (S::PendingRewardGrant, S::RewardGrantFailedExternal),
    (S::PendingRewardGrant, S::RewardGrantFailedUserInactive),
    (S::PendingRewardGrant, S::RewardPartiallyGranted),
    (S::PendingRewardGrant, S::SuccessAllGranted),
    // What failed is undone: what was granted first, then what was taken.
    (S::InventoryAllocationError, S::PendingCompensationInventory),
    (S::InventoryAllocationErrorDb, S::PendingCompensationInventory),
    (S::RewardGrantFailedExternal, S::PendingCompensationReward),
    (S::RewardGrantFailedExternal, S::PendingCompensationInventory),
    (S::RewardGrantFailedExternal, S::FailedRolledBack),
    (S::RewardGrantFailedUserInactive, S::PendingCompensationReward),
    (S::RewardGrantFailedUserInactive, S::PendingCompensationInventory),
    (S::RewardGrantFailedUserInactive, S::FailedRolledBack),
    (S::PendingCompensationReward, S::CompensatedReward),
    (S::PendingCompensationReward, S::CompensationFailedManualInterventionRequired),
    (S::CompensatedReward, S::PendingCompensationInventory),
    (S::CompensatedReward, S::FailedRolledBack),
    (S::PendingCompensationInventory, S::CompensatedInventory),
    (S::PendingCompensationInventory, S::CompensationFailedManualInterventionRequired),
    (S::CompensatedInventory, S::FailedRolledBack),
    // Out of time.
    (S::PendingValidation, S::FailedRolledBack),
    (S::PendingConditionCheck, S::FailedRolledBack),
    (S::PendingInventoryAllocation, S::PendingCompensationInventory),
    (S::InventoryAllocated, S::PendingCompensationInventory),
    // Operators.
    (S::CompensationFailedManualInterventionRequired, S::PendingCompensationReward),
    (S::CompensationFailedManualInterventionRequired, S::PendingCompensationInventory),
    (S::CompensationFailedManualInterventionRequired, S::FailedRolledBack),
];

impl ClaimStatus {
    pub const fn is_success(self) -> bool {
        matches!(self, Self::SuccessAllGranted | Self::RewardPartiallyGranted)
    }

    /// Whether nothing was granted, and never will be.
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::ValidationFailedExternalAuth
                | Self::ValidationFailedUserInactive
                | Self::ValidationFailedEventNotActive
                | Self::ValidationFailedAlreadyClaimed
                | Self::ConditionCheckFailedExternal
                | Self::ConditionNotMet
                | Self::InventoryAllocationFailedOutOfStock
                | Self::InventoryAllocationFailedConcurrency
                | Self::FailedRolledBack
        )
    }

    /// Whether it keeps its user from another claim at the same event.
    pub const fn is_live(self) -> bool {
        !self.is_failure()
    }

    /// Whether it goes on by itself.
    pub const fn is_pending(self) -> bool {
        !self.is_failure()
            && !self.is_success()
            && !matches!(self, Self::CompensationFailedManualInterventionRequired)
    }

    pub fn may_become(self, to: Self) -> bool {
        MOVES.contains(&(self, to))
    }
}

named! {
    /// What a claim is at, or where it ended.
    SagaStep {
        ValidateUserAndEvent "VALIDATE_USER_AND_EVENT",
        CheckConditions "CHECK_CONDITIONS",
        AllocateInventory "ALLOCATE_INVENTORY",
        GrantRewards "GRANT_REWARDS",
        CompensateRewards "COMPENSATE_REWARDS",
        CompensateInventory "COMPENSATE_INVENTORY",
        Completed "COMPLETED",
    }
}

/// Why a claim failed: a name that does not change, and what happened this time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    pub message: String,
}

impl Failure {
    pub fn new(code: &str, message: impl AsRef<str>) -> Self {
        Self { code: code.into(), message: message.as_ref().chars().take(MESSAGE_MAX).collect() }
    }
}

named! {
    /// While nothing has failed.
    Going {
        Validation "VALIDATION",
        ConditionCheck "CONDITION_CHECK",
        InventoryAllocation "INVENTORY_ALLOCATION",
        Allocated "ALLOCATED",
        RewardGrant "REWARD_GRANT",
    }
}

named! {
    /// On the way back.
    Undoing {
        InventoryError "INVENTORY_ERROR",
        InventoryErrorDb "INVENTORY_ERROR_DB",
        GrantFailed "GRANT_FAILED",
        UserInactive "USER_INACTIVE",
        CompensationReward "COMPENSATION_REWARD",
        CompensatedReward "COMPENSATED_REWARD",
        CompensationInventory "COMPENSATION_INVENTORY",
        CompensatedInventory "COMPENSATED_INVENTORY",
    }
}

named! {
    /// A final no with nothing to undo.
    Refusal {
        ExternalAuth "EXTERNAL_AUTH",
        UserInactive "USER_INACTIVE",
        EventNotActive "EVENT_NOT_ACTIVE",
        AlreadyClaimed "ALREADY_CLAIMED",
        ConditionExternal "CONDITION_EXTERNAL",
        ConditionNotMet "CONDITION_NOT_MET",
        OutOfStock "OUT_OF_STOCK",
        Concurrency "CONCURRENCY",
    }
}

/// Where a claim stands, with what belongs to that: only what failed has a failure, only what was granted a time of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum State {
    Going { at: Going },
    Undoing { at: Undoing, failure: Failure },
    NeedsHand { failure: Failure, trouble: Failure },
    Refused { by: Refusal, failure: Failure },
    RolledBack { failure: Failure, note: Option<String> },
    Granted { at: Timestamp },
    PartiallyGranted { at: Timestamp },
}

impl State {
    pub const fn status(&self) -> ClaimStatus {
        match self {
            Self::Going { at } => match at {
                Going::Validation => S::PendingValidation,
                Going::ConditionCheck => S::PendingConditionCheck,
                Going::InventoryAllocation => S::PendingInventoryAllocation,
                Going::Allocated => S::InventoryAllocated,
                Going::RewardGrant => S::PendingRewardGrant,
            },
            Self::Undoing { at, .. } => match at {
                Undoing::InventoryError => S::InventoryAllocationError,
                Undoing::InventoryErrorDb => S::InventoryAllocationErrorDb,
                Undoing::GrantFailed => S::RewardGrantFailedExternal,
                Undoing::UserInactive => S::RewardGrantFailedUserInactive,
                Undoing::CompensationReward => S::PendingCompensationReward,
                Undoing::CompensatedReward => S::CompensatedReward,
                Undoing::CompensationInventory => S::PendingCompensationInventory,
                Undoing::CompensatedInventory => S::CompensatedInventory,
            },
            Self::NeedsHand { .. } => S::CompensationFailedManualInterventionRequired,
            Self::Refused { by, .. } => match by {
                Refusal::ExternalAuth => S::ValidationFailedExternalAuth,
                Refusal::UserInactive => S::ValidationFailedUserInactive,
                Refusal::EventNotActive => S::ValidationFailedEventNotActive,
                Refusal::AlreadyClaimed => S::ValidationFailedAlreadyClaimed,
                Refusal::ConditionExternal => S::ConditionCheckFailedExternal,
                Refusal::ConditionNotMet => S::ConditionNotMet,
                Refusal::OutOfStock => S::InventoryAllocationFailedOutOfStock,
                Refusal::Concurrency => S::InventoryAllocationFailedConcurrency,
            },
            Self::RolledBack { .. } => S::FailedRolledBack,
            Self::Granted { .. } => S::SuccessAllGranted,
            Self::PartiallyGranted { .. } => S::RewardPartiallyGranted,
        }
    }

    pub const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Undoing { failure, .. }
            | Self::NeedsHand { failure, .. }
            | Self::Refused { failure, .. }
            | Self::RolledBack { failure, .. } => Some(failure),
            Self::Going { .. } | Self::Granted { .. } | Self::PartiallyGranted { .. } => None,
        }
    }

    pub const fn granted_at(&self) -> Option<Timestamp> {
        match self {
            Self::Granted { at } | Self::PartiallyGranted { at } => Some(*at),
            _ => None,
        }
    }
}

named! {
    InventoryStatus {
        Pending "PENDING",
        Allocated "INVENTORY_ALLOCATED",
        Returned "RETURNED",
    }
}

named! {
    GrantStatus {
        Pending "PENDING",
        Success "SUCCESS",
        FailedExternal "FAILED_EXTERNAL",
        FailedUserInactive "FAILED_USER_INACTIVE",
        Revoked "REVOKED",
    }
}

/// A reward of a claim, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimReward {
    pub reward_id: RewardId,
    pub quantity: i64,
    /// Whether it is taken from a stock.
    pub limited: bool,
    pub provider: String,
    pub inventory: InventoryStatus,
    pub grant: GrantStatus,
    /// What the provider knows the grant by.
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transaction_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processed_at: Option<Timestamp>,
    /// Calls in vain since the last that was not.
    #[serde(default)]
    pub tries: i64,
    /// Whether a grant may have been applied that nobody heard of.
    #[serde(default)]
    pub in_doubt: bool,
    /// Until when the last call may still be under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_until: Option<Timestamp>,
}

impl ClaimReward {
    /// Whether its provider may hold something that has to be taken back.
    pub const fn is_out(&self) -> bool {
        matches!(self.grant, GrantStatus::Success) || self.in_doubt
    }
}

named! {
    /// What a compensation does.
    UndoAction {
        RevokeReward "REVOKE_REWARD",
        ReturnInventory "RETURN_INVENTORY",
        Resolve "RESOLVE",
    }
}

named! {
    UndoPhase {
        Started "STARTED",
        Done "DONE",
        Failed "FAILED",
    }
}

/// A line of a claim's log of compensations: one before each action, and one after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoLine {
    pub action: UndoAction,
    /// None where the action is not about one reward.
    #[schema(value_type = Option<String>)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward_id: Option<RewardId>,
    pub phase: UndoPhase,
    #[schema(value_type = i64)]
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A status that was reached, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    pub to: ClaimStatus,
    pub at: Timestamp,
}

/// The event as it was when the claim was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EventSnapshot {
    pub version: i64,
    pub conditions: Option<Condition>,
    pub grant_policy: GrantPolicy,
    /// As people see them.
    pub rewards: Vec<Value>,
}

/// What moves of a claim: stored as one text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    pub state: State,
    pub step: SagaStep,
    pub rewards: Vec<ClaimReward>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<UndoLine>,
    pub timeline: Vec<Passed>,
    /// Whether the event and the user were looked at in this step.
    #[serde(default)]
    pub seen_event: bool,
    #[serde(default)]
    pub seen_user: bool,
    /// Nothing is tried before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Where it belongs in a trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    pub id: ClaimId,
    pub request_id: ClaimKey,
    pub user_id: UserId,
    pub event_id: EventId,
    pub snapshot: EventSnapshot,
    /// What the conditions were judged by.
    pub checked: Option<Map<String, Value>>,
    pub progress: Progress,
    /// Counts who took it up.
    pub epoch: i64,
    /// When it has to be at its end; none once it is.
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A move that the table does not have: a bug, found before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllegalMove {
    pub from: ClaimStatus,
    pub to: ClaimStatus,
}

impl fmt::Display for IllegalMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a claim cannot go from {} to {}", self.from.as_str(), self.to.as_str())
    }
}

/// What a claim waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Whether the event can be claimed, from the store.
    Event,
    /// Whether the user is active.
    User,
    /// What the user did, judged by the conditions.
    Conditions,
    Stock,
    Grant(usize),
    Revoke(usize),
    /// The stock is given back.
    Return,
    /// Only to go on.
    Nothing,
    /// It is at its end, or an operator has to do something.
    Over,
}

impl Claim {
    pub const fn status(&self) -> ClaimStatus {
        self.progress.state.status()
    }

    /// What comes next.
    pub fn need(&self) -> Need {
        let progress = &self.progress;
        match &progress.state {
            State::Going { at } => match at {
                Going::Validation | Going::RewardGrant if !progress.seen_event => Need::Event,
                Going::Validation | Going::RewardGrant if !progress.seen_user => Need::User,
                Going::ConditionCheck if self.snapshot.conditions.is_some() => Need::Conditions,
                Going::Validation | Going::ConditionCheck | Going::Allocated => Need::Nothing,
                Going::InventoryAllocation => Need::Stock,
                Going::RewardGrant => {
                    let pending = |reward: &ClaimReward| reward.grant == GrantStatus::Pending;
                    // Of what failed nothing may be left at a provider before its stock goes to somebody else.
                    let doubtful =
                        |reward: &ClaimReward| reward.grant == GrantStatus::FailedExternal && reward.in_doubt;
                    let granting = progress.rewards.iter().position(pending).map(Need::Grant);
                    granting
                        .or_else(|| progress.rewards.iter().position(doubtful).map(Need::Revoke))
                        .unwrap_or(Need::Nothing)
                }
            },
            State::Undoing { at, .. } => match at {
                Undoing::CompensationReward => {
                    // The last that was granted is the first that is taken back.
                    let out = progress.rewards.iter().rposition(ClaimReward::is_out);
                    out.map_or(Need::Nothing, Need::Revoke)
                }
                Undoing::CompensationInventory => Need::Return,
                _ => Need::Nothing,
            },
            _ => Need::Over,
        }
    }

    /// Moves it, if the table has that move.
    fn go(&mut self, state: State, now: Timestamp) -> Result<(), IllegalMove> {
        let (from, to) = (self.status(), state.status());
        if !from.may_become(to) {
            return Err(IllegalMove { from, to });
        }
        let progress = &mut self.progress;
        progress.step = match &state {
            State::Going { at: Going::Validation } => SagaStep::ValidateUserAndEvent,
            State::Going { at: Going::ConditionCheck } => SagaStep::CheckConditions,
            State::Going { at: Going::InventoryAllocation } => SagaStep::AllocateInventory,
            State::Going { at: Going::Allocated | Going::RewardGrant } => SagaStep::GrantRewards,
            State::Undoing { at: Undoing::CompensationReward, .. } => SagaStep::CompensateRewards,
            State::Undoing { at: Undoing::CompensationInventory, .. } => SagaStep::CompensateInventory,
            State::Granted { .. } | State::PartiallyGranted { .. } | State::RolledBack { .. } => {
                SagaStep::Completed
            }
            // Where it failed.
            State::Undoing { .. } | State::NeedsHand { .. } | State::Refused { .. } => progress.step,
        };
        if matches!(state, State::Going { .. }) {
            (progress.seen_event, progress.seen_user) = (false, false);
        }
        progress.state = state;
        progress.not_before = None;
        progress.timeline.push(Passed { to, at: now });
        self.updated_at = now;
        if !to.is_pending() {
            self.expires_at = None;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
