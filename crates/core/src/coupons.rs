//! Coupons: a limited number of them, first come first served, so many to each user; and what becomes of each one.

pub mod view;

use crate::code::Code;
use crate::fields::FieldErrors;
use crate::id::{CouponId, UserId, uuid_id};
use crate::named::named;
use crate::rejection::Rejection;
use crate::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use utoipa::ToSchema;

const NAME_MAX: usize = 200;
const QUANTITY_MAX: i64 = 1_000_000_000;
const PER_USER_MAX: i64 = 1_000;
const BENEFIT_BYTES_MAX: usize = 4_096;
/// The longest name of an order.
pub const ORDER_MAX: usize = 128;
/// So many coupons can ever be made: their number is part of the ids of what is issued of them.
pub const NUMBER_MAX: i64 = (1 << 31) - 1;

uuid_id! {
    /// A user coupon's id: a UUID of version 7, so that indexes append, in whose random part stands the number of its
    /// coupon. So it is known where to look for one that is nowhere but in Redis yet.
    UserCouponId
}

impl UserCouponId {
    pub fn made(number: i64, now: Timestamp, random: u64) -> Self {
        let mut bytes = [0; 16];
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        let random = random.to_be_bytes();
        bytes[6] = 0x70 | (random[0] & 0x0f);
        bytes[7] = random[1];
        let number = u32::try_from(number & NUMBER_MAX).unwrap_or(0);
        // Two bits say which variant of UUIDs it is; the lowest bit of the number goes where there is room again.
        bytes[8..12].copy_from_slice(&(0x8000_0000 | (number >> 1)).to_be_bytes());
        bytes[12] = (u8::from(number & 1 == 1) << 7) | (random[2] & 0x7f);
        bytes[13..].copy_from_slice(&random[3..6]);
        Self::from_bytes(bytes)
    }

    /// The number of the coupon that it is one of, if it is of any.
    pub fn coupon_number(&self) -> i64 {
        let bytes = self.0.as_bytes();
        let high = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) & 0x3fff_ffff;
        i64::from(high) << 1 | i64::from(bytes[12] >> 7)
    }

    /// The id of a message about it, as unique and as well ordered as its own.
    #[must_use]
    pub fn message(&self, about: About) -> [u8; 16] {
        let mut bytes = *self.0.as_bytes();
        bytes[7] ^= match about {
            About::Request => 1,
            About::Decision => 2,
        };
        bytes
    }
}

/// What a message is about of which there is one for a user coupon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// That it was asked for, to whoever counts.
    Request,
    /// How that ended.
    Decision,
}

named! {
    UserCouponStatus {
        Pending "PENDING",
        Confirmed "CONFIRMED",
        Rejected "REJECTED",
        Used "USED",
        Expired "EXPIRED",
        Revoked "REVOKED",
    }
}

named! {
    /// How an issue ended.
    CouponResult {
        Issued "ISSUED",
        OutOfStock "OUT_OF_STOCK",
        Duplicate "DUPLICATE",
    }
}

/// Every legal move of a user coupon.
pub const MOVES: &[(UserCouponStatus, UserCouponStatus)] = &[
    (UserCouponStatus::Pending, UserCouponStatus::Confirmed),
    (UserCouponStatus::Pending, UserCouponStatus::Rejected),
    (UserCouponStatus::Pending, UserCouponStatus::Revoked),
    (UserCouponStatus::Confirmed, UserCouponStatus::Used),
    (UserCouponStatus::Used, UserCouponStatus::Confirmed),
    (UserCouponStatus::Used, UserCouponStatus::Expired),
    (UserCouponStatus::Confirmed, UserCouponStatus::Expired),
    (UserCouponStatus::Confirmed, UserCouponStatus::Revoked),
    (UserCouponStatus::Expired, UserCouponStatus::Revoked),
];

impl UserCouponStatus {
    /// Whether it takes one from the stock, and a place among those that its user may have.
    pub const fn is_issued(self) -> bool {
        matches!(self, Self::Confirmed | Self::Used | Self::Expired)
    }
}

/// A coupon, as an operator made it. It does not change.
#[derive(Clone, Debug, PartialEq)]
pub struct Coupon {
    pub id: CouponId,
    pub number: i64,
    pub name: String,
    pub total_quantity: i64,
    pub per_user_limit: i64,
    pub valid_from: Timestamp,
    pub valid_until: Timestamp,
    pub benefit: Value,
    pub created_at: Timestamp,
}

/// The count of a coupon, apart from the coupon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub issued: i64,
    /// Raised whenever Redis is counted anew.
    pub epoch: i64,
    /// The Redis that was counted for this epoch.
    pub instance: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CouponBody {
    coupon_id: String,
    name: String,
    /// How many there are.
    total_quantity: i64,
    /// How many of them a user can have: 1 unless set.
    #[serde(default)]
    per_user_limit: Option<i64>,
    /// From when on it is issued and can be used: at once, unless set.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    valid_from: Option<Timestamp>,
    /// Until when it is issued and can be used: without end, unless set.
    #[serde(default)]
    #[schema(value_type = Option<i64>)]
    valid_until: Option<Timestamp>,
    /// Shown to users as it is.
    #[serde(default)]
    #[schema(value_type = Object)]
    benefit: Option<Value>,
}

/// A coupon that an operator wants.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCoupon {
    pub id: CouponId,
    pub name: String,
    pub total_quantity: i64,
    pub per_user_limit: i64,
    pub valid_from: Timestamp,
    pub valid_until: Timestamp,
    pub benefit: Value,
}

fn within(value: i64, most: i64) -> Result<i64, String> {
    if (1..=most).contains(&value) { Ok(value) } else { Err(format!("must be between 1 and {most}")) }
}

impl CouponBody {
    pub fn validate(self, now: Timestamp) -> Result<NewCoupon, Rejection> {
        let mut errors = FieldErrors::default();
        let id = errors.check("couponId", CouponId::parse(self.coupon_id));
        let name = self.name.trim().to_owned();
        if name.is_empty() || name.chars().count() > NAME_MAX || name.chars().any(char::is_control) {
            errors.refuse("name", format!("must have 1 to {NAME_MAX} characters that can be seen"));
        }
        let total = errors.check("totalQuantity", within(self.total_quantity, QUANTITY_MAX));
        let limit = errors.check("perUserLimit", within(self.per_user_limit.unwrap_or(1), PER_USER_MAX));
        let from = errors.check("validFrom", self.valid_from.unwrap_or(now).check());
        let until = errors.check("validUntil", self.valid_until.unwrap_or(Timestamp::MAX).check());
        if let (Some(from), Some(until)) = (from, until)
            && until <= from
        {
            errors.refuse("validUntil", "must be after validFrom");
        }
        let benefit = self.benefit.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        let text = benefit.to_string();
        if text.len() > BENEFIT_BYTES_MAX || text.contains("\\u0000") {
            errors
                .refuse("benefit", format!("must be at most {BENEFIT_BYTES_MAX} bytes of JSON without NUL"));
        }
        errors.into_result()?;
        match (id, total, limit, from, until) {
            (Some(id), Some(total_quantity), Some(per_user_limit), Some(valid_from), Some(valid_until)) => {
                Ok(NewCoupon { id, name, total_quantity, per_user_limit, valid_from, valid_until, benefit })
            }
            _ => Err(Rejection::new(Code::InvalidFields, "the coupon cannot be read")),
        }
    }
}

/// What somebody has of a coupon, or asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserCoupon {
    pub id: UserCouponId,
    pub coupon_id: CouponId,
    pub user_id: UserId,
    /// Under which it was asked for: the client's, or that of the reward which it is.
    pub key: String,
    /// Counts its changes.
    pub version: i64,
    pub requested_at: Timestamp,
    pub state: State,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Confirmed {
        /// Which one of those that a user can have it is, from 1.
        slot: i64,
        at: Timestamp,
        /// The order that it was used for, and which was called off.
        cancelled_order: Option<String>,
        changed_at: Timestamp,
    },
    Rejected {
        why: CouponResult,
        at: Timestamp,
    },
    Used {
        slot: i64,
        at: Timestamp,
        order: String,
        used_at: Timestamp,
    },
    Expired {
        slot: i64,
        at: Timestamp,
        expired_at: Timestamp,
    },
    Revoked {
        /// When it had been confirmed; never, where its grant was taken back before it came.
        at: Option<Timestamp>,
        revoked_at: Timestamp,
        note: String,
    },
}

impl State {
    pub const fn status(&self) -> UserCouponStatus {
        match self {
            Self::Pending => UserCouponStatus::Pending,
            Self::Confirmed { .. } => UserCouponStatus::Confirmed,
            Self::Rejected { .. } => UserCouponStatus::Rejected,
            Self::Used { .. } => UserCouponStatus::Used,
            Self::Expired { .. } => UserCouponStatus::Expired,
            Self::Revoked { .. } => UserCouponStatus::Revoked,
        }
    }

    /// The place that it has among those of its user.
    pub const fn slot(&self) -> Option<i64> {
        match self {
            Self::Confirmed { slot, .. } | Self::Used { slot, .. } | Self::Expired { slot, .. } => {
                Some(*slot)
            }
            Self::Pending | Self::Rejected { .. } | Self::Revoked { .. } => None,
        }
    }

    pub const fn result(&self) -> Option<CouponResult> {
        match self {
            Self::Pending | Self::Revoked { at: None, .. } => None,
            Self::Rejected { why, .. } => Some(*why),
            _ => Some(CouponResult::Issued),
        }
    }

    pub const fn is_pending(&self) -> bool {
        matches!(self, Self::Pending)
    }
}

impl UserCoupon {
    pub const fn status(&self) -> UserCouponStatus {
        self.state.status()
    }

    fn moved(&self, state: State) -> Self {
        Self { version: self.version + 1, state, ..self.clone() }
    }

    /// As it is once its issue is decided; it is left as it is where that was decided before.
    #[must_use]
    pub fn decided(&self, decision: Result<i64, CouponResult>, now: Timestamp) -> Self {
        if !self.state.is_pending() {
            return self.clone();
        }
        self.moved(match decision {
            Ok(slot) => State::Confirmed { slot, at: now, cancelled_order: None, changed_at: now },
            Err(why) => State::Rejected { why, at: now },
        })
    }
}

/// Whether a coupon is being issued.
pub fn check_issuing(coupon: &Coupon, now: Timestamp) -> Result<(), Rejection> {
    let when = match now {
        now if now < coupon.valid_from => "not yet",
        now if now >= coupon.valid_until => "no longer",
        _ => return Ok(()),
    };
    let detail = format!("{} is {when} valid", coupon.id);
    Err(Rejection::new(Code::CouponNotValid, detail)
        .saying("validFrom", coupon.valid_from.as_millis())
        .saying("validUntil", coupon.valid_until.as_millis()))
}

/// Whether somebody who holds these places gets one more while so many are left, and which place it has.
pub fn decide(coupon: &Coupon, left: i64, held: &BTreeSet<i64>) -> Result<i64, CouponResult> {
    let free = (1..=coupon.per_user_limit).find(|slot| !held.contains(slot));
    match free {
        None => Err(CouponResult::Duplicate),
        Some(_) if left < 1 => Err(CouponResult::OutOfStock),
        Some(slot) => Ok(slot),
    }
}

/// The refusal of an issue, in answer to whoever asked for it.
pub fn refusal(coupon: &Coupon, why: CouponResult) -> Rejection {
    match why {
        CouponResult::OutOfStock => {
            Rejection::new(Code::CouponOutOfStock, format!("all of {} are issued", coupon.id))
        }
        CouponResult::Duplicate | CouponResult::Issued => {
            let limit = coupon.per_user_limit;
            Rejection::new(Code::CouponDuplicate, format!("a user can have {limit} of {}", coupon.id))
        }
    }
}

/// The name of an order, as a client gives it.
pub fn check_order(order: &str) -> Result<(), String> {
    let fits = (1..=ORDER_MAX).contains(&order.len()) && order.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(()) } else { Err(format!("must be 1 to {ORDER_MAX} visible ASCII characters")) }
}

fn not_usable(why: impl Into<String>) -> Rejection {
    Rejection::new(Code::CouponNotUsable, why)
}

/// What becomes of a user coupon, or that nothing has to.
pub type Moved = Result<Option<UserCoupon>, Rejection>;

/// Uses it for an order. The same order again changes nothing.
pub fn use_for(held: &UserCoupon, coupon: &Coupon, order: &str, now: Timestamp) -> Moved {
    let expired =
        || Rejection::new(Code::CouponExpired, format!("it was valid until {}", coupon.valid_until));
    match &held.state {
        State::Used { order: used_for, .. } if used_for == order => Ok(None),
        State::Used { .. } => Err(Rejection::new(
            Code::CouponAlreadyUsed,
            "it was used for another order; that one can be called off",
        )),
        State::Expired { .. } => Err(expired()),
        State::Confirmed { .. } if now >= coupon.valid_until => Err(expired()),
        State::Confirmed { .. } if now < coupon.valid_from => {
            Err(not_usable(format!("it is valid from {} on", coupon.valid_from)))
        }
        State::Confirmed { cancelled_order: Some(cancelled), .. } if cancelled == order => {
            // A late repetition of the first call must not use it again.
            Err(not_usable("this order was called off; use it for another"))
        }
        State::Confirmed { slot, at, .. } => {
            let state = State::Used { slot: *slot, at: *at, order: order.to_owned(), used_at: now };
            Ok(Some(held.moved(state)))
        }
        state => Err(not_usable(format!("it is {}", state.status().as_str()))),
    }
}

/// Gives it back after its order was called off. The same order again changes nothing.
pub fn cancel_use(held: &UserCoupon, coupon: &Coupon, order: &str, now: Timestamp) -> Moved {
    match &held.state {
        State::Used { slot, at, order: used_for, .. } if used_for == order => {
            let (slot, at) = (*slot, *at);
            Ok(Some(held.moved(if now >= coupon.valid_until {
                State::Expired { slot, at, expired_at: now }
            } else {
                State::Confirmed { slot, at, cancelled_order: Some(order.to_owned()), changed_at: now }
            })))
        }
        State::Used { .. } => {
            Err(Rejection::new(Code::CouponAlreadyUsed, "it was used for another order than this one"))
        }
        State::Confirmed { cancelled_order: Some(cancelled), .. } if cancelled == order => Ok(None),
        State::Expired { .. } => Ok(None),
        state => Err(not_usable(format!("it is {}, and not used for this order", state.status().as_str()))),
    }
}

/// Ends one that nobody used in time; none of any other.
pub fn expire(held: &UserCoupon, coupon: &Coupon, now: Timestamp) -> Option<UserCoupon> {
    match &held.state {
        State::Confirmed { slot, at, .. } if now >= coupon.valid_until => {
            Some(held.moved(State::Expired { slot: *slot, at: *at, expired_at: now }))
        }
        _ => None,
    }
}

/// Takes it back, also before it is decided. One that was refused, or taken back before, is left as it is.
pub fn revoke(held: &UserCoupon, note: &str, now: Timestamp) -> Moved {
    match &held.state {
        State::Confirmed { at, .. } | State::Expired { at, .. } => {
            let state = State::Revoked { at: Some(*at), revoked_at: now, note: note.to_owned() };
            Ok(Some(held.moved(state)))
        }
        State::Revoked { .. } | State::Rejected { .. } => Ok(None),
        State::Used { .. } => {
            Err(Rejection::new(Code::CouponAlreadyUsed, "it was used, and cannot be taken back"))
        }
        State::Pending => {
            Ok(Some(held.moved(State::Revoked { at: None, revoked_at: now, note: note.to_owned() })))
        }
    }
}

#[cfg(test)]
mod tests;
