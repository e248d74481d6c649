//! Making coupons.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::coupons::view::CouponView;
use guerdon_core::coupons::{Coupon, CouponBody, NewCoupon};
use guerdon_core::{Code, Rejection};
use guerdon_store::{Command, Fault, Priority, Tx, audit_log, coupons, each};

impl Engine {
    pub async fn create_coupon(&self, actor: Actor, body: CouponBody) -> Result<Coupon, Failure> {
        let wanted = body.validate(self.now())?;
        let id = wanted.id.clone();
        let made = self.commit(Create { wanted, actor }).await?;
        let exists =
            || Rejection::new(Code::CouponExists, format!("there is a coupon {id}; it does not change"));
        Ok(made.ok_or_else(exists)?)
    }
}

struct Create {
    wanted: NewCoupon,
    actor: Actor,
}

impl Command for Create {
    type Output = Option<Coupon>;
    const NAME: &'static str = "create_coupon";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        each(batch, |Self { wanted, actor }| {
            let made = coupons::create(tx, wanted)?;
            if let Some(coupon) = &made {
                let after = serde_json::to_value(CouponView::of(coupon, 0, 0))
                    .map_err(|error| Fault::Inconsistent(error.to_string()))?;
                let line = AuditEntry {
                    at: tx.now(),
                    actor: actor.clone(),
                    action: Action::CouponCreated,
                    target_id: coupon.id.to_string(),
                    before: None,
                    after: Some(after),
                };
                audit_log::append(tx, &[line])?;
            }
            Ok(made)
        })
    }
}
