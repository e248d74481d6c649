//! Coupons: as many as are counted, each in a place that its user can have, each decision told.

use super::{Audit, Phase};
use guerdon_core::coupons::{About, State, UserCoupon};
use guerdon_store::audit::{self, coupons as rows};
use guerdon_store::coupons::queue;
use guerdon_store::{Fault, Tx};
use std::collections::{BTreeMap, BTreeSet};

const ROWS: i64 = 300;
/// For how long one may be pending: whoever counts may be away.
const PENDING_LAG_MS: i64 = 900_000;

/// The coupons that there are: the number of each, and how many a user can have.
#[derive(Debug, Default)]
pub(super) struct CouponScan {
    after: String,
    known: BTreeMap<String, (i64, i64)>,
}

impl Audit {
    pub(super) fn look_at_coupons(
        &mut self,
        tx: &mut Tx<'_>,
        mut scan: Box<CouponScan>,
    ) -> Result<Phase, Fault> {
        let Some(at) = rows::next(tx, &scan.after)? else {
            return Ok(Phase::UserCoupons { after: Vec::new(), coupons: scan });
        };
        self.looked_at += 1;
        let id = &at.coupon_id;
        self.checks.coupons.expect(at.issued == at.held, || {
            format!("{id}: {} are counted as issued, {} are held", at.issued, at.held)
        });
        let within = at.issued <= at.total && at.total == at.counted_total;
        self.checks.coupons.expect(within, || format!("{id}: {} of {} are issued", at.issued, at.total));
        scan.known.insert(id.clone(), (at.number, at.per_user_limit));
        scan.after = at.coupon_id;
        Ok(Phase::Coupons(scan))
    }

    pub(super) fn look_at_user_coupons(
        &mut self,
        tx: &mut Tx<'_>,
        after: &[u8],
        mut scan: Box<CouponScan>,
    ) -> Result<Phase, Fault> {
        let page = rows::page(tx, after, ROWS)?;
        let Some(last) = page.last().map(|held| held.id.as_bytes().to_vec()) else {
            return Ok(Phase::Sums);
        };
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        for held in &page {
            let name = held.coupon_id.as_str();
            // Made while the audit ran.
            if !scan.known.contains_key(name)
                && let Some(coupon) = guerdon_store::coupons::find(tx, &held.coupon_id)?
            {
                scan.known.insert(name.to_owned(), (coupon.number, coupon.per_user_limit));
            }
            let known = scan.known.get(name).copied();
            self.look_at_user_coupon(tx, held, known)?;
        }
        self.look_for_coupon_messages(tx, &page)?;
        Ok(Phase::UserCoupons { after: last, coupons: scan })
    }

    fn look_at_user_coupon(
        &mut self,
        tx: &mut Tx<'_>,
        held: &UserCoupon,
        coupon: Option<(i64, i64)>,
    ) -> Result<(), Fault> {
        let what = |why: &str| format!("{} of {} for {}: {why}", held.id, held.coupon_id, held.user_id);
        let Some((number, limit)) = coupon else {
            self.checks.user_coupons.expect(false, || what("there is no such coupon"));
            return Ok(());
        };
        let fits = held.state.slot().is_none_or(|slot| (1..=limit).contains(&slot));
        self.checks.user_coupons.expect(fits, || what("it is more than its user can have"));
        self.checks
            .user_coupons
            .expect(held.id.coupon_number() == number, || what("its id is of another coupon"));
        let all = rows::of_its_user(tx, held)?;
        let (itself, others): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.id == held.id);
        let listed = itself.first();
        // On SQLite the index of who has what is a table of its own, and its tail is another.
        self.checks.user_coupons.expect(listed.is_some(), || what("its user would not find it"));
        if let Some(itself) = listed {
            let once = others.iter().all(|other| other.key != itself.key);
            self.checks.user_coupons.expect(once, || what("its key was used for another as well"));
            let slot = itself.state.slot();
            let alone = slot.is_none() || others.iter().all(|other| other.state.slot() != slot);
            self.checks.user_coupons.expect(alone, || what("another has its place"));
        }
        let late = held.state.is_pending() && held.requested_at.plus_millis(PENDING_LAG_MS) < self.now;
        self.checks.leases.expect(!late, || what("is pending, and nobody has decided about it"));
        Ok(())
    }

    /// A decision was told to others, and a wish to whoever counts.
    fn look_for_coupon_messages(&mut self, tx: &mut Tx<'_>, page: &[UserCoupon]) -> Result<(), Fault> {
        let told: Vec<_> = page
            .iter()
            .filter_map(|held| {
                let at = match &held.state {
                    State::Pending => return None,
                    State::Confirmed { at, .. }
                    | State::Rejected { at, .. }
                    | State::Used { at, .. }
                    | State::Expired { at, .. } => *at,
                    State::Revoked { at, .. } => (*at)?,
                };
                Some((held.id.message(About::Decision), at))
            })
            .collect();
        let missing = audit::missing_messages(tx, &told)?;
        let pending: Vec<_> = page
            .iter()
            .filter(|held| held.state.is_pending())
            .map(|held| held.id.message(About::Request))
            .collect();
        let waiting: BTreeSet<_> = queue::waiting(tx, &pending)?.into_iter().collect();
        for held in page {
            let id = held.id;
            if held.state.is_pending() {
                // It may have been decided between the two looks.
                let asked = waiting.contains(&id.message(About::Request))
                    || guerdon_store::coupons::held::find(tx, id)?.is_some_and(|now| !now.state.is_pending());
                self.checks
                    .coupon_messages
                    .expect(asked, || format!("{id}: is pending, and nobody was asked"));
            } else {
                let told = !missing.contains(&id.message(About::Decision));
                self.checks
                    .coupon_messages
                    .expect(told, || format!("{id}: nobody was told what became of it"));
            }
        }
        Ok(())
    }
}
