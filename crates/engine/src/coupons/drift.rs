//! Whether Redis and the store agree.

use super::held;
use super::port::Counter;
use crate::engine::Engine;
use std::collections::HashMap;

/// What Redis says of a coupon, beside what the store says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    pub counter: Counter,
    /// Before and after Redis was looked at.
    pub issued: (i64, i64),
    pub epoch: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Agree,
    /// Redis knows nothing of it: it is counted when somebody asks for it.
    NotCounted,
    /// It is being counted.
    Building,
    /// It was counted in another epoch than the store's: it has to be counted anew.
    Stale,
    /// Redis has counted so many less than the store, or more where it is below zero.
    Drift(i64),
}

impl Compared {
    /// What was counted and is not known to be stored may or may not be; beyond that they have to agree.
    pub fn verdict(&self, total: i64) -> Comparison {
        let Counter { epoch, building, left, unsettled, .. } = self.counter;
        if building {
            return Comparison::Building;
        }
        if epoch.is_some_and(|epoch| epoch != self.epoch) {
            return Comparison::Stale;
        }
        if epoch.is_none() {
            return Comparison::NotCounted;
        }
        let most = total - left;
        let least = most - unsettled;
        match self.issued {
            (before, _) if before > most => Comparison::Drift(before - most),
            (_, after) if after < least => Comparison::Drift(after - least),
            _ => Comparison::Agree,
        }
    }
}

/// Looks at a coupon that drifts before it is counted anew.
const LOOKS_MAX: i64 = 15;

impl Engine {
    /// Looks at how far Redis is off, over all coupons that are issued.
    pub(crate) async fn look_at_drift(self: std::sync::Arc<Self>) {
        let Some(counter) = self.coupons.counter.clone() else { return };
        let Ok(live) = self.live_coupons().await else { return };
        let mut drift = 0;
        let mut seen = HashMap::new();
        let before = std::mem::take(&mut *held(&self.coupons.drifting));
        for coupon in live {
            let Ok(before_it) = self.count_of(&coupon.id).await else { continue };
            let Ok(counter) = counter.look(&coupon.id).await else { continue };
            let Ok(after_it) = self.count_of(&coupon.id).await else { continue };
            let issued = (before_it.issued, after_it.issued);
            let compared = Compared { counter, issued, epoch: after_it.epoch };
            let verdict = compared.verdict(coupon.total_quantity);
            let by = match verdict {
                Comparison::Drift(by) => by,
                // None that can be told, and yet wrong.
                Comparison::Stale | Comparison::Building => 0,
                _ => continue,
            };
            let looks = before.get(&coupon.id).map_or(1, |looks| looks + 1);
            if looks > 1 && by == 0 {
                // Nobody may be at it.
                self.put_right(&coupon).await;
                seen.insert(coupon.id.clone(), looks);
                continue;
            }
            // What is about to be given back passes.
            if looks > 1 {
                tracing::warn!(coupon = %coupon.id, by, ?compared, "Redis and the store do not agree");
                drift += by.abs();
            }
            if looks >= LOOKS_MAX {
                self.have_counted_anew(&coupon.id, compared.epoch).await;
            }
            seen.insert(coupon.id.clone(), looks);
        }
        *held(&self.coupons.drifting) = seen;
        self.metrics.coupon_drift.set(drift);
    }
}

#[cfg(test)]
mod tests {
    use super::{Compared, Comparison, Counter};

    #[test]
    fn what_agrees() {
        let of = |left: i64, unsettled: i64, before: i64, after: i64| {
            let counter = Counter { epoch: Some(3), building: false, marked: 3, left, unsettled };
            Compared { counter, issued: (before, after), epoch: 3 }.verdict(100)
        };
        for (left, unsettled, before, after, expected) in [
            (100, 0, 0, 0, Comparison::Agree),
            (60, 0, 40, 40, Comparison::Agree),
            // Ten are on their way, some of them stored.
            (50, 10, 40, 40, Comparison::Agree),
            (50, 10, 44, 44, Comparison::Agree),
            (50, 10, 50, 50, Comparison::Agree),
            // Stored while Redis was looked at.
            (50, 0, 40, 55, Comparison::Agree),
            (60, 0, 41, 41, Comparison::Drift(1)),
            (60, 0, 39, 39, Comparison::Drift(-1)),
            (50, 10, 39, 39, Comparison::Drift(-1)),
            (50, 10, 51, 51, Comparison::Drift(1)),
        ] {
            assert_eq!(of(left, unsettled, before, after), expected, "{left} {unsettled} {before} {after}");
        }
        let counter = Counter::default();
        assert_eq!(Compared { counter, issued: (0, 0), epoch: 0 }.verdict(5), Comparison::NotCounted);
        let counter = Counter { epoch: Some(2), marked: 2, ..Counter::default() };
        assert_eq!(Compared { counter, issued: (0, 0), epoch: 3 }.verdict(5), Comparison::Stale);
    }
}
