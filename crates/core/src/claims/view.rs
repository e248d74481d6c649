//! How a claim reads.

use super::{
    Claim, ClaimReward, ClaimStatus, EventSnapshot, GrantStatus, InventoryStatus, SagaStep, State,
    UndoAction, UndoLine,
};
use crate::id::{EventId, RewardId, UserId};
use crate::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// Which claims are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFilter {
    pub status: Option<ClaimStatus>,
    pub event_id: Option<EventId>,
    pub user_id: Option<UserId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimView {
    pub request_id: String,
    pub user_id: String,
    pub event_id: String,
    pub status: ClaimStatus,
    pub current_saga_step: SagaStep,
    /// The conditions and the rewards as they were when the claim was made.
    #[schema(value_type = Object)]
    pub event_snapshot: Value,
    pub rewards_to_process: Vec<ClaimRewardView>,
    /// Why it failed: a name that does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// What happened this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// What the conditions were judged by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub checked_data_snapshot: Option<Map<String, Value>>,
    pub compensating_actions_log: Vec<UndoLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub rewards_granted_at: Option<Timestamp>,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
    #[schema(value_type = i64)]
    pub updated_at: Timestamp,
    pub timeline: Vec<ClaimMove>,
    /// Whether it was made by an earlier call with the same key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
    /// What is left to do by hand; for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_hand: Option<NeedsHand>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRewardView {
    pub reward_id: String,
    pub quantity: i64,
    /// For operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    pub inventory_status: InventoryStatus,
    pub grant_status: GrantStatus,
    pub idempotency_key_for_grant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction_id_from_provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub processed_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ClaimMove {
    pub from: Option<ClaimStatus>,
    pub to: ClaimStatus,
    #[schema(value_type = i64)]
    pub at: Timestamp,
}

/// Why a compensation stopped, and what it has not done.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NeedsHand {
    pub reason: String,
    pub left: Vec<LeftToDo>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftToDo {
    pub action: UndoAction,
    #[schema(value_type = String)]
    pub reward_id: RewardId,
    pub provider: String,
    /// What the provider knows it by.
    pub idempotency_key_for_grant: String,
}

impl From<&ClaimReward> for ClaimRewardView {
    fn from(reward: &ClaimReward) -> Self {
        Self {
            reward_id: reward.reward_id.to_string(),
            quantity: reward.quantity,
            provider: None,
            inventory_status: reward.inventory,
            grant_status: reward.grant,
            idempotency_key_for_grant: reward.key.clone(),
            transaction_id_from_provider: reward.transaction_id.clone(),
            failure_reason: reward.failure.clone(),
            processed_at: reward.processed_at,
        }
    }
}

impl ClaimView {
    pub fn of(claim: &Claim) -> Self {
        let progress = &claim.progress;
        let failure = progress.state.failure();
        let before = std::iter::once(None).chain(progress.timeline.iter().map(|passed| Some(passed.to)));
        let timeline = before
            .zip(&progress.timeline)
            .map(|(from, passed)| ClaimMove { from, to: passed.to, at: passed.at })
            .collect();
        Self {
            request_id: claim.request_id.to_string(),
            user_id: claim.user_id.to_string(),
            event_id: claim.event_id.to_string(),
            status: claim.status(),
            current_saga_step: progress.step,
            event_snapshot: public(&claim.snapshot),
            rewards_to_process: progress.rewards.iter().map(ClaimRewardView::from).collect(),
            failure_reason: failure.map(|failure| failure.code.clone()),
            failure_message: failure.map(|failure| failure.message.clone()),
            checked_data_snapshot: claim.checked.clone(),
            compensating_actions_log: progress.log.iter().map(public_line).collect(),
            rewards_granted_at: progress.state.granted_at(),
            created_at: claim.created_at,
            updated_at: claim.updated_at,
            timeline,
            duplicate: None,
            needs_hand: None,
        }
    }

    /// With what only operators are told.
    pub fn for_operators(claim: &Claim) -> Self {
        let needs_hand = match &claim.progress.state {
            State::NeedsHand { trouble, .. } => Some(NeedsHand {
                reason: format!("{}: {}", trouble.code, trouble.message),
                left: left(claim),
            }),
            _ => None,
        };
        let mut view = Self { needs_hand, ..Self::of(claim) };
        for (shown, reward) in view.rewards_to_process.iter_mut().zip(&claim.progress.rewards) {
            shown.provider = Some(reward.provider.clone());
        }
        view.event_snapshot = serde_json::to_value(&claim.snapshot).unwrap_or_default();
        view.compensating_actions_log.clone_from(&claim.progress.log);
        view
    }
}

/// What an operator noted is for operators.
fn public_line(line: &UndoLine) -> UndoLine {
    let detail = line.detail.clone().filter(|_| line.action != UndoAction::Resolve);
    UndoLine { detail, ..line.clone() }
}

/// The event as participants may see it: who delivers, and with what, is not for them.
fn public(snapshot: &EventSnapshot) -> Value {
    let mut shown = snapshot.clone();
    for reward in shown.rewards.iter_mut().filter_map(Value::as_object_mut) {
        reward.remove("provider");
        reward.remove("details");
    }
    serde_json::to_value(shown).unwrap_or_default()
}

fn left(claim: &Claim) -> Vec<LeftToDo> {
    let rewards = &claim.progress.rewards;
    let to_do = |action: UndoAction, reward: &ClaimReward| LeftToDo {
        action,
        reward_id: reward.reward_id.clone(),
        provider: reward.provider.clone(),
        idempotency_key_for_grant: reward.key.clone(),
    };
    let out = rewards.iter().rev().filter(|reward| reward.is_out());
    let held = rewards.iter().rev().filter(|reward| reward.inventory == InventoryStatus::Allocated);
    out.map(|reward| to_do(UndoAction::RevokeReward, reward))
        .chain(held.map(|reward| to_do(UndoAction::ReturnInventory, reward)))
        .collect()
}

/// What others hear of a claim that ended, or that needs a hand.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimNews<'a> {
    pub request_id: &'a str,
    pub user_id: &'a str,
    pub event_id: &'a str,
    pub status: ClaimStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<&'a str>,
    /// The rewards that the user has.
    pub granted_rewards: Vec<&'a str>,
    #[schema(value_type = i64)]
    pub at: Timestamp,
}

impl<'a> ClaimNews<'a> {
    pub fn of(claim: &'a Claim) -> Self {
        let granted = claim.progress.rewards.iter().filter(|reward| reward.grant == GrantStatus::Success);
        Self {
            request_id: claim.request_id.as_str(),
            user_id: claim.user_id.as_str(),
            event_id: claim.event_id.as_str(),
            status: claim.status(),
            failure_reason: claim.progress.state.failure().map(|failure| failure.code.as_str()),
            granted_rewards: granted.map(|reward| reward.reward_id.as_str()).collect(),
            at: claim.updated_at,
        }
    }

    /// What is told where a claim stands, if anything is.
    pub const fn event_type(status: ClaimStatus) -> Option<&'static str> {
        match status {
            ClaimStatus::CompensationFailedManualInterventionRequired => Some("CLAIM_NEEDS_INTERVENTION"),
            status if status.is_success() => Some("CLAIM_SUCCEEDED"),
            status if status.is_failure() => Some("CLAIM_FAILED"),
            _ => None,
        }
    }
}
