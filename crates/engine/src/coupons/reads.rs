//! Coupons as people see them, and waiting for what becomes of one.

use super::IssuedCoupon;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::coupons::{Count, Coupon, UserCoupon, UserCouponId, UserCouponStatus};
use guerdon_core::{Code, CouponId, Rejection, UserId};
use guerdon_store::Listed;
use guerdon_store::coupons::{self, held};
use std::sync::Arc;
use std::time::Duration;

/// After the last of all ids.
const END: UserCouponId = UserCouponId::from_bytes([0xff; 16]);

fn not_found(id: UserCouponId) -> Rejection {
    Rejection::new(Code::UserCouponNotFound, format!("there is no user coupon {id}"))
}

impl Engine {
    /// A user coupon, of whoever the caller may see: nobody learns that somebody else has one.
    pub async fn user_coupon(
        &self,
        id: UserCouponId,
        sees: Option<&UserId>,
    ) -> Result<IssuedCoupon, Failure> {
        let stored = self.read(move |tx| held::find(tx, id)).await?;
        let (held, coupon) = match stored {
            Some(held) => {
                let coupon = self.coupon(&held.coupon_id).await?;
                (Some(held), Some(coupon))
            }
            None => match self.coupon_by_number(id.coupon_number()).await? {
                Some(coupon) => (self.waiting_coupon(&coupon, id).await?, Some(coupon)),
                None => (None, None),
            },
        };
        // Stored between the two looks.
        let held = match (held, &coupon) {
            (None, Some(_)) => self.read(move |tx| held::find(tx, id)).await?,
            (held, _) => held,
        };
        let held = held.filter(|held| sees.is_none_or(|user| held.user_id == *user));
        match (held, coupon) {
            (Some(held), Some(coupon)) => Ok(IssuedCoupon { held, coupon, duplicate: true }),
            _ => Err(not_found(id).into()),
        }
    }

    /// What a user asked for under a key, as the store has it.
    pub(super) async fn coupon_under_key(
        &self,
        coupon: &Coupon,
        user: &UserId,
        key: &str,
    ) -> Result<Option<UserCoupon>, Failure> {
        let (coupon_id, user, key) = (coupon.id.clone(), user.to_string(), key.to_owned());
        let found = self.read(move |tx| {
            let mut all = held::of_users(tx, &coupon_id, &[(user.as_str(), key.as_str())])?;
            let of_user = all.remove(&user).unwrap_or_default();
            Ok(of_user.into_iter().find(|held| held.key == key && held.coupon_id == coupon_id))
        });
        found.await
    }

    /// A user's coupons, the newest first.
    pub async fn coupons_of(
        &self,
        user: &UserId,
        request: PageRequest<String>,
    ) -> Result<Page<(UserCoupon, Arc<Coupon>), String>, Failure> {
        let (user, before, rows) = (user.clone(), place(&request)?, request.rows());
        let rows = self.read(move |tx| held::mine(tx, &user, before, rows)).await?;
        let found = Listed { rows, end: None };
        self.with_coupons(&request, found).await
    }

    /// Who has a coupon, the newest first. A page of one status may come back short.
    pub async fn holders_of(
        &self,
        coupon_id: &CouponId,
        status: Option<UserCouponStatus>,
        request: PageRequest<String>,
    ) -> Result<Page<(UserCoupon, Arc<Coupon>), String>, Failure> {
        let coupon = self.coupon(coupon_id).await?;
        let (before, rows) = (place(&request)?, request.rows());
        let found = self.read(move |tx| held::of_coupon(tx, &coupon.id, before, rows, status)).await?;
        self.with_coupons(&request, found).await
    }

    async fn with_coupons(
        &self,
        request: &PageRequest<String>,
        found: Listed<UserCoupon, UserCouponId>,
    ) -> Result<Page<(UserCoupon, Arc<Coupon>), String>, Failure> {
        let mut rows = Vec::with_capacity(found.rows.len());
        for held in found.rows {
            let coupon = self.coupon(&held.coupon_id).await?;
            rows.push((held, coupon));
        }
        let found = Listed { rows, end: found.end };
        Ok(request.page_of(found, |(held, _)| held.id.to_string(), |end| end.to_string()))
    }

    /// Coupons in the order of their ids.
    pub async fn all_coupons(
        &self,
        request: PageRequest<String>,
    ) -> Result<Page<(Coupon, Count), String>, Failure> {
        let (after, rows) = (request.after.clone().unwrap_or_default(), request.rows());
        let found = self.read(move |tx| coupons::list(tx, &after, rows)).await?;
        Ok(request.page(found, |(coupon, _)| coupon.id.to_string()))
    }

    pub async fn counted_coupon(&self, id: &CouponId) -> Result<(Coupon, Count), Failure> {
        let wanted = id.clone();
        let found = self.read(move |tx| coupons::with_count(tx, &wanted)).await?;
        let missing = || Rejection::new(Code::CouponNotFound, format!("there is no coupon {id}"));
        Ok(found.ok_or_else(missing)?)
    }

    /// Comes when something became of a user coupon, as far as that is known here, or after a while.
    pub async fn coupon_changed(&self, id: UserCouponId, at_the_latest: Duration) {
        let mut changes = self.coupons.watch(id);
        let _ = tokio::time::timeout(at_the_latest, changes.changed()).await;
    }

    /// Waits for the decision, so long at the most; how it stands then.
    pub(super) async fn await_coupon(&self, held: UserCoupon, wait: Duration) -> UserCoupon {
        let id = held.id;
        let mut changes = self.coupons.watch(id);
        let decided = async {
            loop {
                if let Ok(Some(now)) = self.read(move |tx| held::find(tx, id)).await
                    && !now.state.is_pending()
                {
                    return now;
                }
                if changes.changed().await.is_err() {
                    // Nobody tells: look now and then.
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            }
        };
        tokio::time::timeout(wait, decided).await.unwrap_or(held)
    }

    /// Looks at those that somebody waits for: another process may have decided about them.
    pub(crate) async fn look_at_awaited_coupons(&self) {
        const CHUNK: usize = 500;
        for ids in self.coupons.awaited().chunks(CHUNK) {
            let wanted = ids.to_vec();
            let Ok(found) = self.read(move |tx| held::find_many(tx, &wanted)).await else { return };
            let decided = found.iter().filter(|held| !held.state.is_pending());
            self.coupons.moved(decided.map(|held| held.id));
        }
    }
}

fn place(request: &PageRequest<String>) -> Result<UserCouponId, Rejection> {
    match &request.after {
        None => Ok(END),
        Some(text) => UserCouponId::parse(text)
            .ok_or_else(|| Rejection::new(Code::BadCursor, "the cursor names no user coupon")),
    }
}
