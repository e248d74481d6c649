//! How coupons read, and what others hear of them.

use super::{Coupon, CouponResult, State, UserCoupon, UserCouponStatus};
use crate::time::Timestamp;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A coupon, for operators.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CouponView {
    pub coupon_id: String,
    pub name: String,
    pub total_quantity: i64,
    /// How many are issued, those that were used or have expired among them.
    pub issued: i64,
    pub remaining: i64,
    pub per_user_limit: i64,
    #[schema(value_type = i64)]
    pub valid_from: Timestamp,
    #[schema(value_type = i64)]
    pub valid_until: Timestamp,
    #[schema(value_type = Object)]
    pub benefit: Value,
    /// How often Redis was counted anew.
    pub epoch: i64,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
}

impl CouponView {
    pub fn of(coupon: &Coupon, issued: i64, epoch: i64) -> Self {
        Self {
            coupon_id: coupon.id.to_string(),
            name: coupon.name.clone(),
            total_quantity: coupon.total_quantity,
            issued,
            remaining: coupon.total_quantity - issued,
            per_user_limit: coupon.per_user_limit,
            valid_from: coupon.valid_from,
            valid_until: coupon.valid_until,
            benefit: coupon.benefit.clone(),
            epoch,
            created_at: coupon.created_at,
        }
    }
}

/// A coupon, for participants.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublicCouponView {
    pub coupon_id: String,
    pub name: String,
    pub total_quantity: i64,
    pub remaining: i64,
    pub per_user_limit: i64,
    #[schema(value_type = i64)]
    pub valid_from: Timestamp,
    #[schema(value_type = i64)]
    pub valid_until: Timestamp,
    #[schema(value_type = Object)]
    pub benefit: Value,
}

impl PublicCouponView {
    pub fn of(coupon: &Coupon, issued: i64) -> Self {
        Self {
            coupon_id: coupon.id.to_string(),
            name: coupon.name.clone(),
            total_quantity: coupon.total_quantity,
            remaining: coupon.total_quantity - issued,
            per_user_limit: coupon.per_user_limit,
            valid_from: coupon.valid_from,
            valid_until: coupon.valid_until,
            benefit: coupon.benefit.clone(),
        }
    }
}

/// A user's coupon.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserCouponView {
    pub user_coupon_id: String,
    pub coupon_id: String,
    pub user_id: String,
    pub status: UserCouponStatus,
    /// Once it is decided.
    pub result_code: Option<CouponResult>,
    pub name: String,
    #[schema(value_type = Object)]
    pub benefit: Value,
    #[schema(value_type = i64)]
    pub valid_from: Timestamp,
    #[schema(value_type = i64)]
    pub valid_until: Timestamp,
    #[schema(value_type = i64)]
    pub requested_at: Timestamp,
    #[schema(value_type = Option<i64>)]
    pub decided_at: Option<Timestamp>,
    /// The order that it was used for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub used_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub expired_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub revoked_at: Option<Timestamp>,
    /// Why it was taken back; for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl UserCouponView {
    /// As it is now: one that nobody used in time has expired, whether or not that was written down yet.
    pub fn of(held: &UserCoupon, coupon: &Coupon, now: Timestamp) -> Self {
        let due = super::expire(held, coupon, now);
        let state = due.as_ref().map_or(&held.state, |expired| &expired.state);
        let mut view = Self {
            user_coupon_id: held.id.to_string(),
            coupon_id: held.coupon_id.to_string(),
            user_id: held.user_id.to_string(),
            status: state.status(),
            result_code: state.result(),
            name: coupon.name.clone(),
            benefit: coupon.benefit.clone(),
            valid_from: coupon.valid_from,
            valid_until: coupon.valid_until,
            requested_at: held.requested_at,
            decided_at: None,
            order_id: None,
            used_at: None,
            expired_at: None,
            revoked_at: None,
            note: None,
        };
        match state {
            State::Pending => {}
            State::Confirmed { at, .. } | State::Rejected { at, .. } => view.decided_at = Some(*at),
            State::Used { at, order, used_at, .. } => {
                view.decided_at = Some(*at);
                view.order_id = Some(order.clone());
                view.used_at = Some(*used_at);
            }
            State::Expired { at, .. } => {
                view.decided_at = Some(*at);
                view.expired_at = Some(coupon.valid_until);
            }
            State::Revoked { at, revoked_at, .. } => {
                view.decided_at = *at;
                view.revoked_at = Some(*revoked_at);
            }
        }
        view
    }

    /// With what only operators need to know.
    pub fn for_operators(held: &UserCoupon, coupon: &Coupon, now: Timestamp) -> Self {
        let note = match &held.state {
            State::Revoked { note, .. } => Some(note.clone()),
            _ => None,
        };
        Self { note, ..Self::of(held, coupon, now) }
    }
}

/// What others hear of a user coupon.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CouponNews<'a> {
    pub user_coupon_id: String,
    pub coupon_id: &'a str,
    pub user_id: &'a str,
    pub status: UserCouponStatus,
    pub result_code: Option<CouponResult>,
    /// The order that it was used for, or that was called off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_id: Option<&'a str>,
    #[schema(value_type = i64)]
    pub at: Timestamp,
}

impl<'a> CouponNews<'a> {
    pub fn of(held: &'a UserCoupon) -> Self {
        let (at, order_id) = match &held.state {
            State::Pending => (held.requested_at, None),
            State::Confirmed { changed_at, cancelled_order, .. } => (*changed_at, cancelled_order.as_deref()),
            State::Rejected { at, .. } => (*at, None),
            State::Used { used_at, order, .. } => (*used_at, Some(order.as_str())),
            State::Expired { expired_at, .. } => (*expired_at, None),
            State::Revoked { revoked_at, .. } => (*revoked_at, None),
        };
        Self {
            user_coupon_id: held.id.to_string(),
            coupon_id: held.coupon_id.as_str(),
            user_id: held.user_id.as_str(),
            status: held.status(),
            result_code: held.state.result(),
            order_id,
            at,
        }
    }

    /// What it is called when a user coupon has come to where it is, if anybody hears of that.
    pub const fn event_type(state: &State) -> Option<&'static str> {
        match state {
            State::Confirmed { cancelled_order: None, .. } => Some("COUPON_CONFIRMED"),
            State::Confirmed { cancelled_order: Some(_), .. } => Some("COUPON_USE_CANCELLED"),
            State::Rejected { .. } => Some("COUPON_REJECTED"),
            State::Used { .. } => Some("COUPON_USED"),
            State::Revoked { .. } => Some("COUPON_REVOKED"),
            State::Pending | State::Expired { .. } => None,
        }
    }
}
