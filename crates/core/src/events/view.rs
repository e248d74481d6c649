//! How an event reads, to people and in the audit log.

use super::body::{AttendanceBody, RewardBody};
use super::settings::{EventKind, GrantPolicy, Prize, RewardKindName};
use super::{Event, EventState, EventStatus, EventType};
use crate::money::Decimal;
use crate::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    pub event_id: String,
    pub name: String,
    pub r#type: EventType,
    pub status: EventStatus,
    #[schema(value_type = i64)]
    pub starts_at: Timestamp,
    #[schema(value_type = i64)]
    pub ends_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_total: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_remaining: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub lottery_cutoff_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_nonce_source: Option<String>,
    /// Where a lottery stands, for display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ui_phase: Option<UiPhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_policy: Option<GrantPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<String>,
    pub rewards: Vec<RewardView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attendance: Option<AttendanceBody>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<RandomView>,
    /// Goes up by one with every change.
    pub version: i64,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
    #[schema(value_type = i64)]
    pub updated_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub opened_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub closed_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub announced_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub cancelled_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum UiPhase {
    Collecting,
    Drawing,
    Announced,
}

/// A reward as it was sent, and what is left of it. The fields are named again because a body takes no others, and says so in
/// its schema.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RewardView {
    pub reward_id: String,
    pub kind: RewardKindName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_stock: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub amount: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupon_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Map<String, Value>>,
    /// What is left, where the stock is limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_stock: Option<i64>,
}

impl RewardView {
    pub fn of(reward: RewardBody, remaining_stock: Option<i64>) -> Self {
        let RewardBody {
            reward_id,
            kind,
            quantity,
            total_stock,
            amount,
            currency,
            coupon_id,
            provider,
            details,
        } = reward;
        Self {
            reward_id,
            kind,
            quantity,
            total_stock,
            amount,
            currency,
            coupon_id,
            provider,
            details,
            remaining_stock,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RandomView {
    /// Whose days `perDay` counts.
    pub time_zone: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_day: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_user: Option<i64>,
    /// Every version of the odds, oldest first.
    pub odds: Vec<OddsView>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OddsView {
    pub version: i64,
    #[schema(value_type = i64)]
    pub effective_at: Timestamp,
    pub prizes: Vec<Prize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

impl EventView {
    /// What participants see: not how a reward is delivered.
    pub fn public(event: &Event, now: Timestamp) -> Self {
        let mut view = Self::of(event, now);
        for shown in &mut view.rewards {
            shown.details = None;
            shown.provider = None;
        }
        view
    }

    /// All of it, for operators and the audit log.
    pub fn of(event: &Event, now: Timestamp) -> Self {
        let settings = &event.settings;
        let times = event.state.times();
        let mut view = Self {
            event_id: event.id.to_string(),
            name: settings.name.clone(),
            r#type: settings.kind.event_type(),
            status: event.status(),
            starts_at: settings.starts_at,
            ends_at: settings.ends_at,
            capacity_total: settings.kind.capacity_total(),
            capacity_remaining: event.capacity_remaining.or(settings.kind.capacity_total()),
            lottery_cutoff_at: None,
            public_nonce_source: None,
            ui_phase: None,
            grant_policy: None,
            conditions: None,
            rewards: settings
                .rewards
                .iter()
                .zip(&event.remaining_stock)
                .map(|(reward, remaining)| RewardView::of(reward.into(), *remaining))
                .collect(),
            attendance: AttendanceBody::of(&settings.kind),
            random: None,
            version: event.version,
            created_at: event.created_at,
            updated_at: event.updated_at,
            opened_at: times.opened_at,
            closed_at: times.closed_at,
            announced_at: times.announced_at,
            cancelled_at: times.cancelled_at,
        };
        match &settings.kind {
            EventKind::FirstCome { .. } | EventKind::Attendance { .. } => {}
            EventKind::Lottery { lottery_cutoff_at, public_nonce_source, .. } => {
                view.lottery_cutoff_at = Some(*lottery_cutoff_at);
                view.public_nonce_source.clone_from(public_nonce_source);
                view.ui_phase = ui_phase(event.state, *lottery_cutoff_at, now);
            }
            EventKind::Claim { conditions, grant_policy } => {
                view.conditions = conditions.as_ref().map(ToString::to_string);
                view.grant_policy = Some(*grant_policy);
            }
            EventKind::Random { time_zone, per_day, per_user, odds } => {
                let odds = odds
                    .iter()
                    .map(|odds| OddsView {
                        version: odds.version,
                        effective_at: odds.effective_at,
                        prizes: odds.prizes.clone(),
                        fallback: odds.fallback.clone().map(String::from),
                    })
                    .collect();
                view.random = Some(RandomView {
                    time_zone: time_zone.clone(),
                    per_day: *per_day,
                    per_user: *per_user,
                    odds,
                });
            }
        }
        view
    }
}

fn ui_phase(state: EventState, cutoff: Timestamp, now: Timestamp) -> Option<UiPhase> {
    match state {
        EventState::Announced { .. } => Some(UiPhase::Announced),
        EventState::Cancelled { .. } => None,
        EventState::Closed { .. } => Some(UiPhase::Drawing),
        EventState::Draft | EventState::Open { .. } if now >= cutoff => Some(UiPhase::Drawing),
        EventState::Draft | EventState::Open { .. } => Some(UiPhase::Collecting),
    }
}
