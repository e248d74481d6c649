//! The end of coupons that nobody used in time.

use super::Coupons;
use crate::engine::Engine;
use guerdon_core::coupons::{Coupon, UserCouponId, expire};
use guerdon_store::coupons::{self, held};
use guerdon_store::{Command, Fault, Priority, Tx, each};
use std::sync::Arc;

/// Rows that one transaction looks at.
const CHUNK: i64 = 500;
/// Coupons that are looked at in one round.
const COUPONS: i64 = 50;

impl Engine {
    /// Ends what has expired. People see it as expired from the moment on at which it is.
    pub(crate) async fn expire_coupons(self: Arc<Self>) {
        let now = self.now();
        let Ok(due) = self.read(move |tx| coupons::expiring(tx, now, COUPONS)).await else { return };
        for coupon in due {
            let coupon = self.coupons.know(coupon);
            let (mut after, mut open) = (Vec::new(), false);
            loop {
                let command = Expire {
                    coupon: Arc::clone(&coupon),
                    after: after.clone(),
                    open,
                    coupons: Arc::clone(&self.coupons),
                };
                match self.commit(command).await {
                    Ok(Expired { last: Some(last), open: more, .. }) => {
                        after = last.as_bytes().to_vec();
                        open |= more;
                    }
                    Ok(_) => break,
                    Err(failure) => {
                        tracing::debug!(%failure, "coupons are ended later");
                        return;
                    }
                }
            }
        }
    }
}

struct Expire {
    coupon: Arc<Coupon>,
    after: Vec<u8>,
    /// Whether one was seen that is not decided yet.
    open: bool,
    coupons: Arc<Coupons>,
}

#[derive(Default)]
struct Expired {
    /// Where to go on.
    last: Option<UserCouponId>,
    open: bool,
    moved: Vec<UserCouponId>,
}

impl Command for Expire {
    type Output = Expired;
    const NAME: &'static str = "expire_coupons";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Expired>, Fault> {
        each(batch, |command| {
            let (coupon, now) = (&command.coupon, tx.now());
            let rows = held::walk_locked(tx, &coupon.id, &command.after, CHUNK)?;
            let ended: Vec<_> = rows.iter().filter_map(|held| expire(held, coupon, now)).collect();
            held::update(tx, &ended)?;
            let last = rows.last().map(|held| held.id);
            let open = rows.iter().any(|held| held.state.is_pending());
            if last.is_none() && !command.open {
                coupons::note_expired(tx, &coupon.id)?;
            }
            Ok(Expired { last, open, moved: ended.iter().map(|held| held.id).collect() })
        })
    }

    fn committed(done: &[(&Self, &Expired)]) {
        for (command, expired) in done {
            command.coupons.moved(expired.moved.iter().copied());
        }
    }
}
