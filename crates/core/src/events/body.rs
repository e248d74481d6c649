//! What an operator sends: every field by its name in the API, none of it validated yet.

use super::EventType;
use super::settings::{AttendanceCount, Bonus, GrantPolicy, Prize, RewardKindName};
use crate::fields::Change;
use crate::money::Decimal;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The body of a create or a patch. A patch leaves what it does not name as it is, and clears what it sets to `null`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(example = json!({
    "eventId": "drop_1", "name": "Summer drop", "type": "FIRST_COME",
    "startsAt": 1_767_225_600_000_i64, "endsAt": 4_102_444_800_000_i64, "capacityTotal": 500,
    "rewards": [{"rewardId": "points", "kind": "POINT", "amount": 1000, "currency": "POINT"}]
}))]
pub struct EventBody {
    /// 1 to 64 of `A-Z a-z 0-9 _ .`; only when creating.
    #[schema(value_type = Option<String>)]
    pub event_id: Change<String>,
    #[schema(value_type = Option<EventType>)]
    pub r#type: Change<EventType>,
    #[schema(value_type = Option<String>)]
    pub name: Change<String>,
    /// Epoch milliseconds.
    #[schema(value_type = Option<i64>)]
    pub starts_at: Change<Timestamp>,
    #[schema(value_type = Option<i64>)]
    pub ends_at: Change<Timestamp>,
    /// How many can win (`FIRST_COME`, `LOTTERY`).
    #[schema(value_type = Option<i64>)]
    pub capacity_total: Change<i64>,
    /// When entries stop and the draw begins (`LOTTERY`).
    #[schema(value_type = Option<i64>)]
    pub lottery_cutoff_at: Change<Timestamp>,
    /// Where the draw's public nonce will come from, declared before the event opens (`LOTTERY`).
    #[schema(value_type = Option<String>)]
    pub public_nonce_source: Change<String>,
    /// `ALL_OR_NOTHING` unless set (`CLAIM`).
    #[schema(value_type = Option<GrantPolicy>)]
    pub grant_policy: Change<GrantPolicy>,
    /// A CEL expression over `activity` (`CLAIM`).
    #[schema(value_type = Option<String>)]
    pub conditions: Change<String>,
    #[schema(value_type = Option<Vec<RewardBody>>)]
    pub rewards: Change<Vec<RewardBody>>,
    /// Required for `ATTENDANCE`.
    #[schema(value_type = Option<AttendanceBody>)]
    pub attendance: Change<AttendanceBody>,
    /// Required for `RANDOM`. On an open event it needs `effectiveAt` and becomes a new version of the odds.
    #[schema(value_type = Option<RandomBody>)]
    pub random: Change<RandomBody>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RewardBody {
    pub reward_id: String,
    pub kind: RewardKindName,
    /// How many of it one grant gives; 1 unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantity: Option<i64>,
    /// How many can be granted in all; without limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_stock: Option<i64>,
    /// The exact amount of a `POINT` reward.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>)]
    pub amount: Option<Decimal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// The coupon that a `COUPON` reward issues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupon_id: Option<String>,
    /// Who delivers it; the wallet for `POINT`, coupons for `COUPON`, `default` for `ITEM` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Handed to the provider as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AttendanceBody {
    /// An IANA name; `Asia/Seoul` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// `TOTAL` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<AttendanceCount>,
    /// The reward of each day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily: Option<String>,
    #[serde(default)]
    pub bonus: Vec<Bonus>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RandomBody {
    /// Whose days `perDay` counts, an IANA name; `Asia/Seoul` unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Plays that a user has each day; without limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_day: Option<i64>,
    /// Plays that a user has in all; without limit unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_user: Option<i64>,
    pub prizes: Vec<Prize>,
    /// The reward that takes the place of a prize that has run out; a blank unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// When new odds of an open event come into force.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub effective_at: Option<Timestamp>,
}
