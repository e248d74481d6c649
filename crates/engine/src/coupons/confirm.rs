//! The store's last word: who is confirmed, whatever was counted elsewhere.

use guerdon_core::coupons::{Count, Coupon, CouponResult, UserCoupon, decide};
use guerdon_core::{CouponId, Timestamp};
use guerdon_store::coupons::{counting, held};
use guerdon_store::{Fault, Tx};
use std::collections::{BTreeSet, HashMap};

/// The places that somebody has among those of a coupon.
pub(super) fn slots(all: Option<&Vec<UserCoupon>>, coupon_id: &CouponId) -> BTreeSet<i64> {
    let of_coupon = all.into_iter().flatten().filter(|held| held.coupon_id == *coupon_id);
    of_coupon.filter_map(|held| held.state.slot()).collect()
}

/// Writes new ones that are decided, and counts those that are issued. The count is held.
pub(super) fn write_new(tx: &mut Tx<'_>, coupon: &Coupon, new: &[UserCoupon]) -> Result<(), Fault> {
    if held::insert(tx, &coupon.id, new)? != u64::try_from(new.len()).unwrap_or(u64::MAX) {
        return Err(Fault::Conflict("the same key or place came twice".into()));
    }
    count(tx, coupon, new)
}

/// Counts those that were issued just now.
pub(super) fn count(tx: &mut Tx<'_>, coupon: &Coupon, decided: &[UserCoupon]) -> Result<(), Fault> {
    let issued = decided.iter().filter(|held| held.status().is_issued()).count();
    if counting::add(tx, &coupon.id, i64::try_from(issued).unwrap_or(i64::MAX))? {
        return Ok(());
    }
    Err(Fault::Inconsistent(format!("the count of {} changed while it was held", coupon.id)))
}

/// What was decided about wishes.
pub(super) struct Decided {
    pub(super) all: Vec<UserCoupon>,
    /// Whether the store refused what was counted elsewhere: then that count is wrong.
    pub(super) surplus: bool,
}

/// Decides about wishes for one coupon that were counted elsewhere, of people of whom all is known that they have of it.
/// The count is held.
pub(super) fn decide_counted(
    coupon: &Coupon,
    count: &Count,
    mut known: HashMap<String, Vec<UserCoupon>>,
    wishes: &[(UserCoupon, CouponResult)],
    now: Timestamp,
) -> Decided {
    let mut left = coupon.total_quantity - count.issued;
    let mut decided = Decided { all: Vec::with_capacity(wishes.len()), surplus: false };
    for (wish, result) in wishes {
        let decision = match result {
            CouponResult::Issued => {
                decide(coupon, left, &slots(known.get(wish.user_id.as_str()), &coupon.id))
            }
            refused => Err(*refused),
        };
        decided.surplus |= *result == CouponResult::Issued && decision.is_err();
        let after = wish.decided(decision, now);
        if decision.is_ok() {
            left -= 1;
            known.entry(wish.user_id.to_string()).or_default().push(after.clone());
        }
        decided.all.push(after);
    }
    decided
}
