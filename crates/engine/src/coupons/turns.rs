//! The order of those who ask within one millisecond.

use crate::entropy::Entropy;
use guerdon_core::Timestamp;
use guerdon_core::coupons::{Coupon, UserCouponId};
use std::sync::atomic::{AtomicU64, Ordering};

/// So many bits of an id, after its time, say who was first. They end above those that tell a message about it from another.
const TURN_BITS: u32 = 10;
/// Where they end, in what an id is made of beside the time.
const TURN_SHIFT: u32 = 50;
/// A millisecond begins at random in its first half: two servers' ids have no more in common than random ones.
const FIRST_MAX: u64 = 1 << (TURN_BITS - 1);

/// Gives later ids to those who ask later: whoever asks after somebody was answered is behind them, also in the same
/// millisecond, and also when the clock was put back.
#[derive(Debug, Default)]
pub(super) struct Turns(AtomicU64);

impl Turns {
    pub(super) fn id(&self, coupon: &Coupon, now: Timestamp) -> UserCouponId {
        let begins = u64::try_from(now.as_millis()).unwrap_or(0) << TURN_BITS;
        let first = begins + Entropy.number() % FIRST_MAX;
        let after = |last: u64| if last < begins { first } else { last + 1 };
        let (Ok(last) | Err(last)) =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(after(last)));
        let turn = after(last);
        // More of them than a millisecond has room for go on in the next one.
        let at = Timestamp::from_millis(i64::try_from(turn >> TURN_BITS).unwrap_or(i64::MAX));
        let random = Entropy.number() & ((1 << TURN_SHIFT) - 1);
        UserCouponId::made(coupon.number, at, (turn << TURN_SHIFT) | random)
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;
    use guerdon_core::coupons::{About, Coupon};
    use guerdon_core::{CouponId, Timestamp};

    #[test]
    fn whoever_asks_later_is_behind() {
        let coupon = Coupon {
            id: CouponId::parse("ten").unwrap(),
            number: 7,
            name: "Ten off".into(),
            total_quantity: 10,
            per_user_limit: 1,
            valid_from: Timestamp::from_millis(0),
            valid_until: Timestamp::from_millis(1),
            benefit: serde_json::json!({}),
            created_at: Timestamp::from_millis(0),
        };
        let turns = Turns::default();
        // In one millisecond, more of them than it has room for; an earlier one, when the clock was put back; a later one.
        let times = [(1_700_000_000_000, 5_000), (1_699_999_999_000, 10), (1_700_000_001_000, 10)];
        let ids: Vec<_> = times
            .into_iter()
            .flat_map(|(at, count)| std::iter::repeat_n(Timestamp::from_millis(at), count))
            .map(|now| turns.id(&coupon, now))
            .collect();
        assert!(ids.is_sorted_by(|one, next| one < next));
        for about in [About::Request, About::Decision] {
            assert!(ids.is_sorted_by(|one, next| one.message(about) < next.message(about)));
        }
        assert!(ids.iter().all(|id| id.coupon_number() == 7));
    }
}
