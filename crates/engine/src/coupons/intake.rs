//! Asking for a coupon.

use super::{Coupons, Issuer, confirm, news, take_of};
use crate::engine::Engine;
use crate::failpoint;
use crate::failure::Failure;
use crate::groups::by_key;
use crate::trace;
use guerdon_core::coupons::{
    About, Coupon, CouponResult, State, UserCoupon, UserCouponId, check_issuing, decide, refusal,
};
use guerdon_core::idempotency::Advice;
use guerdon_core::{Code, CouponId, IdempotencyKey, Rejection, Trace, UserId};
use guerdon_store::coupons::queue::{self, Kind, Task};
use guerdon_store::coupons::{counting, held};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Tx};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A user coupon that was asked for, now or before.
#[derive(Clone, Debug)]
pub struct IssuedCoupon {
    pub held: UserCoupon,
    pub coupon: Arc<Coupon>,
    /// Whether it had been asked for before under the same key.
    pub duplicate: bool,
}

impl Engine {
    /// Asks for a coupon, once for each key, and waits so long for the decision where that is not made at once.
    pub async fn issue_coupon(
        self: &Arc<Self>,
        coupon_id: &CouponId,
        user: UserId,
        key: IdempotencyKey,
        wait: Duration,
    ) -> Result<IssuedCoupon, Failure> {
        let coupon = self.coupon(coupon_id).await?;
        let issued = self.ask_for_coupon(coupon, user, key.into()).await?;
        if !issued.held.state.is_pending() || wait.is_zero() {
            return Ok(issued);
        }
        let held = self.await_coupon(issued.held, wait).await;
        Ok(IssuedCoupon { held, ..issued })
    }

    pub(super) async fn ask_for_coupon(
        self: &Arc<Self>,
        coupon: Arc<Coupon>,
        user: UserId,
        key: String,
    ) -> Result<IssuedCoupon, Failure> {
        let now = self.now();
        let id = self.coupons.turns.id(&coupon, now);
        let ask = Ask {
            coupon: Arc::clone(&coupon),
            user,
            key,
            id,
            coupons: Arc::clone(&self.coupons),
            publishing: self.intake().publishing,
            trace: trace::current(),
        };
        let (held, duplicate) = match self.coupons.options.issuer {
            Issuer::Store => self.commit(IssueNow(ask)).await??,
            Issuer::RedisOutbox => self.commit(WriteDown(ask)).await??,
            Issuer::RedisStream => {
                let take = take_of(&ask.coupon, id, &ask.user, &ask.key, now);
                self.ask_counter(&ask.coupon, take).await?
            }
        };
        let result = held.state.result().map_or("PENDING", CouponResult::as_str);
        self.count_issue(result, duplicate);
        Ok(IssuedCoupon { held, coupon, duplicate })
    }
}

struct Ask {
    coupon: Arc<Coupon>,
    user: UserId,
    key: String,
    id: UserCouponId,
    coupons: Arc<Coupons>,
    publishing: Publishing,
    trace: Option<Trace>,
}

type Outcome = Result<(UserCoupon, bool), Rejection>;

pub(super) fn other_coupon(before: &UserCoupon) -> Rejection {
    let detail =
        format!("the first request with this key was for {}; this one was not carried out", before.coupon_id);
    Advice::NewKey.on(Rejection::new(Code::IdempotencyHashMismatch, detail))
}

impl Ask {
    fn pending(&self, tx: &Tx<'_>) -> UserCoupon {
        UserCoupon {
            id: self.id,
            coupon_id: self.coupon.id.clone(),
            user_id: self.user.clone(),
            key: self.key.clone(),
            version: 0,
            requested_at: tx.now(),
            state: State::Pending,
        }
    }

    /// What was asked for under this key before, if anything was.
    fn before(&self, known: &HashMap<String, Vec<UserCoupon>>) -> Option<Outcome> {
        let all = known.get(self.user.as_str())?;
        let before = all.iter().find(|held| held.key == self.key)?;
        Some(if before.coupon_id == self.coupon.id {
            Ok((before.clone(), true))
        } else {
            Err(other_coupon(before))
        })
    }
}

/// Those who ask, each with the key that they bring.
fn wanted<'a>(asks: &[&'a Ask]) -> Vec<(&'a str, &'a str)> {
    asks.iter().map(|ask| (ask.user.as_str(), ask.key.as_str())).collect()
}

/// Counted and issued by the store, in one transaction.
struct IssueNow(Ask);

impl Command for IssueNow {
    type Output = Outcome;
    const NAME: &'static str = "issue_coupon";
    const PRIORITY: Priority = Priority::Intake;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Outcome>, Fault> {
        by_key(
            tx,
            batch,
            |Self(ask)| &ask.coupon.id,
            |tx, asks| {
                let asks: Vec<_> = asks.iter().map(|Self(ask)| ask).collect();
                issue_all(tx, &asks)
            },
        )
    }
}

/// Issues one coupon to those who ask for it, in their order.
fn issue_all(tx: &mut Tx<'_>, asks: &[&Ask]) -> Result<Vec<Outcome>, Fault> {
    let (coupon, publishing, now) = (&asks[0].coupon, asks[0].publishing, tx.now());
    let count = counting::lock(tx, &coupon.id)?
        .ok_or_else(|| Fault::Inconsistent(format!("{} is not counted", coupon.id)))?;
    let admission = check_issuing(coupon, now);
    let mut left = coupon.total_quantity - count.issued;
    let mut known = held::of_users(tx, &coupon.id, &wanted(asks))?;
    let mut new: Vec<UserCoupon> = Vec::new();
    let mut outcomes = Vec::with_capacity(asks.len());
    for ask in asks {
        if let Some(before) = ask.before(&known) {
            outcomes.push(before);
            continue;
        }
        let slots = confirm::slots(known.get(ask.user.as_str()), &coupon.id);
        let decided =
            admission.clone().and_then(|()| decide(coupon, left, &slots).map_err(|why| refusal(coupon, why)));
        outcomes.push(match decided {
            Ok(slot) => {
                let issued = ask.pending(tx).decided(Ok(slot), now);
                tx.follow(&issued.id, ask.trace);
                left -= 1;
                known.entry(ask.user.to_string()).or_default().push(issued.clone());
                new.push(issued.clone());
                Ok((issued, false))
            }
            // Nothing is written: whoever comes again with the same key is judged again.
            Err(rejection) => Err(Advice::EitherKey.on(rejection)),
        });
    }
    if !new.is_empty() {
        confirm::write_new(tx, coupon, &new)?;
        counting::disown(tx, &coupon.id, &count)?;
        news::tell(tx, publishing, &new)?;
    }
    Ok(outcomes)
}

/// Written down, to be counted by Redis.
struct WriteDown(Ask);

impl Command for WriteDown {
    type Output = Outcome;
    const NAME: &'static str = "ask_for_coupon";
    const PRIORITY: Priority = Priority::Intake;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Outcome>, Fault> {
        let outcomes = by_key(
            tx,
            batch,
            |Self(ask)| &ask.coupon.id,
            |tx, asks| {
                let asks: Vec<_> = asks.iter().map(|Self(ask)| ask).collect();
                write_down_all(tx, &asks)
            },
        )?;
        failpoint::at("a coupon was asked for, before the commit");
        Ok(outcomes)
    }

    fn committed(done: &[(&Self, &Outcome)]) {
        failpoint::at("a coupon was asked for, after the commit");
        if let Some((Self(ask), _)) = done.first() {
            ask.coupons.bell.notify_one();
        }
    }
}

fn write_down_all(tx: &mut Tx<'_>, asks: &[&Ask]) -> Result<Vec<Outcome>, Fault> {
    let coupon = &asks[0].coupon;
    let admission = check_issuing(coupon, tx.now());
    let mut known = held::of_users(tx, &coupon.id, &wanted(asks))?;
    let mut new: Vec<UserCoupon> = Vec::new();
    let mut outcomes = Vec::with_capacity(asks.len());
    for ask in asks {
        if let Some(before) = ask.before(&known) {
            outcomes.push(before);
            continue;
        }
        if let Err(rejection) = &admission {
            outcomes.push(Err(Advice::EitherKey.on(rejection.clone())));
            continue;
        }
        let pending = ask.pending(tx);
        tx.follow(&pending.id, ask.trace);
        known.entry(ask.user.to_string()).or_default().push(pending.clone());
        new.push(pending.clone());
        outcomes.push(Ok((pending, false)));
    }
    if held::insert(tx, &coupon.id, &new)? != u64::try_from(new.len()).unwrap_or(u64::MAX) {
        // Another process was faster with the same key: run again, it is found.
        return Err(Fault::Conflict("the same key came twice".into()));
    }
    let task = |held: &UserCoupon| Task {
        message: held.id.message(About::Request),
        id: held.id,
        coupon_id: held.coupon_id.clone(),
        user_id: held.user_id.clone(),
        kind: Kind::Take,
        trace: None,
    };
    queue::append(tx, &new.iter().map(task).collect::<Vec<_>>())?;
    Ok(outcomes)
}
