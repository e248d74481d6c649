//! What others hear of coupons.

use crate::entropy::Entropy;
use guerdon_core::coupons::view::CouponNews;
use guerdon_core::coupons::{About, State, UserCoupon};
use guerdon_store::outbox::{self, OutboxEvent, Publishing};
use guerdon_store::{Fault, Tx};
use std::collections::BTreeMap;

/// Writes the news, in the transaction that brought them there.
pub(super) fn tell<'a>(
    tx: &mut Tx<'_>,
    publishing: Publishing,
    moved: impl IntoIterator<Item = &'a UserCoupon>,
) -> Result<(), Fault> {
    let now = tx.now();
    let mut by_type: BTreeMap<&'static str, Vec<OutboxEvent>> = BTreeMap::new();
    for held in moved {
        let Some(event_type) = CouponNews::event_type(&held.state) else { continue };
        let payload = serde_json::to_string(&CouponNews::of(held))
            .map_err(|error| Fault::Inconsistent(error.to_string()))?;
        // A decision is told once, and the audit knows under which id.
        let decided =
            matches!(held.state, State::Confirmed { cancelled_order: None, .. } | State::Rejected { .. });
        let id = if decided { held.id.message(About::Decision) } else { *Entropy.request_id(now).as_bytes() };
        let event = OutboxEvent { id, sequence: held.version, aggregate_id: held.id.to_string(), payload };
        by_type.entry(event_type).or_default().push(event);
    }
    for (event_type, events) in by_type {
        let batch = outbox::Batch { aggregate_type: "USER_COUPON", event_type, created_at: now, publishing };
        outbox::append(tx, batch, &events)?;
    }
    Ok(())
}
