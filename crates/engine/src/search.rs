//! What an id is the id of: a look at each part's own key, never a scan.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::requests::Intake;
use guerdon_core::allocations::view::AllocationFilter;
use guerdon_core::allocations::{Allocation, AllocationId};
use guerdon_core::claims::view::ClaimFilter;
use guerdon_core::coupons::UserCouponId;
use guerdon_core::outbox::MessageId;
use guerdon_core::requests::RequestId;
use guerdon_core::search::{Hit, HitKind};
use guerdon_core::wallet::{AccountId, TransferId};
use guerdon_core::{CouponId, EventId, UserId};
use guerdon_store::allocations::listing as allocations;
use guerdon_store::coupons::{self, held};
use guerdon_store::wallet::{accounts, transfers};
use guerdon_store::{Fault, Tx, activity, claims, events, idempotency, outbox, requests, users};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Uses of one key that are shown.
const USES_MAX: i64 = 20;

impl Engine {
    /// Everything that has this id, or was made under it as a key.
    pub async fn search(&self, text: String) -> Result<Vec<Hit>, Failure> {
        let intake = Arc::clone(self.intake());
        self.read(move |tx| {
            let mut hits = Vec::new();
            by_name(tx, &text, &mut hits)?;
            by_uuid(tx, &text, &mut hits)?;
            by_key(tx, &text, &mut hits)?;
            if let Ok(user) = UserId::parse(text.as_str()) {
                hits.extend(of_user(tx, &intake, &user)?);
            }
            Ok(hits)
        })
        .await
    }
}

/// Ids that people choose, and numbers.
fn by_name(tx: &mut Tx<'_>, text: &str, hits: &mut Vec<Hit>) -> Result<(), Fault> {
    if let Ok(id) = EventId::parse(text)
        && let Some(event) = events::find(tx, &id)?
    {
        hits.push(
            Hit::new(HitKind::Event, id.to_string())
                .named(&event.settings.name)
                .status(event.status().as_str()),
        );
    }
    if let Ok(id) = CouponId::parse(text)
        && let Some(coupon) = coupons::find(tx, &id)?
    {
        hits.push(Hit::new(HitKind::Coupon, id.to_string()).named(&coupon.name));
    }
    for stored in claims::by_keys(tx, &[text])? {
        let claim = &stored.claim;
        let hit = Hit::new(HitKind::Claim, text.to_string()).status(claim.status().as_str());
        hits.push(hit.event(claim.event_id.as_str()).user(claim.user_id.as_str()));
    }
    if let Some(id) = AccountId::parse(text)
        && let Some(account) = accounts::find(tx, &BTreeSet::from([id]))?.remove(&id)
    {
        let hit = Hit::new(HitKind::Account, text.to_string()).status(account.status.as_str());
        hits.push(hit.named(account.currency.as_str()).user(&account.owner));
    }
    Ok(())
}

/// Ids that were given out.
fn by_uuid(tx: &mut Tx<'_>, text: &str, hits: &mut Vec<Hit>) -> Result<(), Fault> {
    if let Some(id) = RequestId::parse(text)
        && let Some(row) = requests::find(tx, id)?
        && let Some(event) = requests::event_of_key(tx, row.key.event_key())?
    {
        let hit = Hit::new(HitKind::Request, id.to_string()).status(row.state.status().as_str());
        hits.push(hit.event(event.as_str()).user(row.user_id.as_str()));
    }
    if let Some(id) = AllocationId::parse(text) {
        hits.extend(allocations::find(tx, id)?.as_ref().map(of_allocation));
    }
    if let Some(id) = UserCouponId::parse(text)
        && let Some(held) = held::find(tx, id)?
    {
        let hit = Hit::new(HitKind::UserCoupon, id.to_string()).status(held.status().as_str());
        hits.push(hit.named(held.coupon_id.as_str()).user(held.user_id.as_str()));
    }
    if let Some(id) = TransferId::parse(text)
        && let Some(transfer) = transfers::find(tx, id)?
    {
        hits.push(Hit::new(HitKind::Transfer, id.to_string()).named(transfer.kind.as_str()));
    }
    if let Some(id) = MessageId::parse(text)
        && let Some(stored) = outbox::listing::find(tx, id)?
    {
        let hit = Hit::new(HitKind::Message, id.to_string()).status(stored.status.as_str());
        hits.push(hit.named(&stored.message.event_type));
    }
    Ok(())
}

/// What was done under a key.
fn by_key(tx: &mut Tx<'_>, text: &str, hits: &mut Vec<Hit>) -> Result<(), Fault> {
    hits.extend(allocations::by_key(tx, text)?.as_ref().map(of_allocation));
    for used in idempotency::uses_of(tx, text, USES_MAX)? {
        let hit =
            Hit::new(HitKind::IdempotencyKey, text.to_string()).named(&used.scope).user(&used.client_id);
        hits.push(match &used.status {
            Some(status) => hit.status(status),
            None => hit,
        });
        if let Some(id) = used.resource.map(TransferId::from_bytes)
            && let Some(transfer) = transfers::find(tx, id)?
        {
            hits.push(
                Hit::new(HitKind::Transfer, id.to_string())
                    .named(transfer.kind.as_str())
                    .user(&used.client_id),
            );
        }
    }
    Ok(())
}

fn of_allocation(row: &Allocation) -> Hit {
    let hit = Hit::new(HitKind::Allocation, row.id.to_string())
        .status(row.status.as_str())
        .named(row.reward_id.as_str());
    hit.event(row.event_id.as_str()).user(row.member_id.as_str())
}

/// A user whom anything here knows.
fn of_user(tx: &mut Tx<'_>, intake: &Intake, user: &UserId) -> Result<Option<Hit>, Fault> {
    let hit = Hit::new(HitKind::User, user.to_string());
    if let Some(status) = users::find(tx, user)? {
        return Ok(Some(hit.status(status.as_str())));
    }
    let won = AllocationFilter { member_id: Some(user.clone()), ..AllocationFilter::default() };
    let claimed = ClaimFilter { user_id: Some(user.clone()), ..ClaimFilter::default() };
    let known = !allocations::list(tx, &won, None, 1)?.rows.is_empty()
        || !claims::listing::list(tx, &claimed, None, 1)?.rows.is_empty()
        || !held::mine(tx, user, UserCouponId::from_bytes([0xff; 16]), 1)?.is_empty()
        || !accounts::of_owner(tx, user, "", 1)?.is_empty()
        || activity::find(tx, user)?.is_some()
        || !requests::of_user(tx, &intake.index, user, 1)?.is_empty();
    Ok(known.then_some(hit))
}
