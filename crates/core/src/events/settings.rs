//! What an event is set up to do. A value of these types has been validated; the stored form is its JSON.

use super::EventType;
use super::condition::Condition;
use crate::id::{CouponId, RewardId};
use crate::money::Decimal;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

#[derive(Clone, Debug, PartialEq)]
pub struct EventSettings {
    pub name: String,
    pub starts_at: Timestamp,
    pub ends_at: Timestamp,
    pub rewards: Vec<Reward>,
    pub kind: EventKind,
}

impl EventSettings {
    pub fn reward(&self, id: &RewardId) -> Option<&Reward> {
        self.rewards.iter().find(|reward| reward.id == *id)
    }
}

/// What only events of one type have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
pub enum EventKind {
    FirstCome {
        capacity_total: i64,
    },
    Lottery {
        capacity_total: i64,
        lottery_cutoff_at: Timestamp,
        public_nonce_source: Option<String>,
    },
    Claim {
        conditions: Option<Condition>,
        grant_policy: GrantPolicy,
    },
    Attendance {
        time_zone: String,
        count: AttendanceCount,
        daily: Option<RewardId>,
        bonus: Vec<Bonus>,
    },
    /// `odds` are in order of their versions; the last one whose time has come is in force.
    Random {
        #[serde(default = "zone_default")]
        time_zone: String,
        per_day: Option<i64>,
        per_user: Option<i64>,
        odds: Vec<Odds>,
    },
}

impl EventKind {
    pub const fn event_type(&self) -> EventType {
        match self {
            Self::FirstCome { .. } => EventType::FirstCome,
            Self::Lottery { .. } => EventType::Lottery,
            Self::Claim { .. } => EventType::Claim,
            Self::Attendance { .. } => EventType::Attendance,
            Self::Random { .. } => EventType::Random,
        }
    }

    /// How many can win, where places are limited.
    pub const fn capacity_total(&self) -> Option<i64> {
        match self {
            Self::FirstCome { capacity_total } | Self::Lottery { capacity_total, .. } => {
                Some(*capacity_total)
            }
            _ => None,
        }
    }
}

fn zone_default() -> String {
    crate::entries::ZONE_DEFAULT.into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GrantPolicy {
    AllOrNothing,
    Partial,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AttendanceCount {
    Total,
    Streak,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bonus {
    /// The milestone: how many days.
    pub days: i64,
    #[schema(value_type = String)]
    pub reward_id: RewardId,
}

/// One version of a random game's odds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Odds {
    pub version: i64,
    pub effective_at: Timestamp,
    pub prizes: Vec<Prize>,
    pub fallback: Option<RewardId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Prize {
    /// What is won; none means a blank.
    #[schema(value_type = Option<String>)]
    pub reward_id: Option<RewardId>,
    /// How likely, in proportion to the other weights.
    pub weight: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Reward {
    pub id: RewardId,
    pub kind: RewardKind,
    /// How many of it one grant gives.
    pub quantity: i64,
    /// How many can be granted in all; none means without limit.
    pub total_stock: Option<i64>,
    /// Who delivers it; none means the provider that its kind implies.
    pub provider: Option<String>,
    /// Handed to the provider as it is.
    pub details: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewardKind {
    Point { amount: Decimal, currency: String },
    Coupon { coupon_id: CouponId },
    Item,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RewardKindName {
    Point,
    Coupon,
    Item,
}

impl RewardKindName {
    pub const ALL: [RewardKindName; 3] = [Self::Point, Self::Coupon, Self::Item];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Point => "POINT",
            Self::Coupon => "COUPON",
            Self::Item => "ITEM",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }
}

impl Reward {
    /// Who delivers it: the one that is named, or whom its kind implies.
    pub fn provider_name(&self) -> &str {
        match (&self.provider, &self.kind) {
            (Some(name), _) => name,
            (None, RewardKind::Point { .. }) => "wallet",
            (None, RewardKind::Coupon { .. }) => "coupon",
            (None, RewardKind::Item) => "default",
        }
    }
}

impl RewardKind {
    pub const fn name(&self) -> RewardKindName {
        match self {
            Self::Point { .. } => RewardKindName::Point,
            Self::Coupon { .. } => RewardKindName::Coupon,
            Self::Item => RewardKindName::Item,
        }
    }
}
