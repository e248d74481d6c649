//! What becomes of a coupon that somebody has: it is used, given back, or taken back.

use super::{Coupons, IssuedCoupon, Issuer, key_of_grant, news};
use crate::engine::Engine;
use crate::entropy::Entropy;
use crate::failure::Failure;
use crate::trace;
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::coupons::view::UserCouponView;
use guerdon_core::coupons::{self as rules, Coupon, Moved, State, UserCoupon, UserCouponId};
use guerdon_core::{Code, Rejection, Trace, UserId};
use guerdon_store::coupons::queue::{self, Kind, Task};
use guerdon_store::coupons::{counting, held};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Tx, audit_log, each};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// Uses a coupon for an order.
    pub async fn use_coupon(
        &self,
        id: UserCouponId,
        sees: Option<&UserId>,
        order: String,
    ) -> Result<IssuedCoupon, Failure> {
        self.move_coupon(id, sees, Wish::Use(order), None).await
    }

    /// Gives a coupon back whose order was called off.
    pub async fn cancel_coupon_use(
        &self,
        id: UserCouponId,
        sees: Option<&UserId>,
        order: String,
    ) -> Result<IssuedCoupon, Failure> {
        self.move_coupon(id, sees, Wish::CancelUse(order), None).await
    }

    /// Takes a coupon back.
    pub async fn revoke_coupon(
        &self,
        actor: Actor,
        id: UserCouponId,
        note: String,
    ) -> Result<IssuedCoupon, Failure> {
        self.move_coupon(id, None, Wish::Revoke(note), Some(actor)).await
    }

    async fn move_coupon(
        &self,
        id: UserCouponId,
        sees: Option<&UserId>,
        wish: Wish,
        actor: Option<Actor>,
    ) -> Result<IssuedCoupon, Failure> {
        let IssuedCoupon { coupon, held, .. } = self.user_coupon(id, sees).await?;
        let change = Change {
            which: Which::Id(id),
            coupon: Arc::clone(&coupon),
            wish,
            actor,
            coupons: Arc::clone(&self.coupons),
            publishing: self.intake().publishing,
            trace: trace::current(),
        };
        match self.commit(change).await? {
            // It is nowhere but in Redis.
            Err(rejection) if rejection.code == Code::UserCouponNotFound && held.state.is_pending() => {
                Err(Rejection::new(Code::CouponNotUsable, "it is not decided yet").into())
            }
            Err(rejection) => Err(rejection.into()),
            Ok(held) => Ok(IssuedCoupon { held, coupon, duplicate: false }),
        }
    }

    /// Takes back what was granted under a key, or sees to it that it is never granted.
    pub(super) async fn revoke_grant(
        &self,
        coupon: Arc<Coupon>,
        user: UserId,
        key: &str,
    ) -> Result<UserCoupon, Failure> {
        let id = self.coupons.turns.id(&coupon, self.now());
        let change = Change {
            which: Which::Grant { user, key: key_of_grant(key), id },
            coupon,
            wish: Wish::Revoke("the reward was taken back".into()),
            actor: None,
            coupons: Arc::clone(&self.coupons),
            publishing: self.intake().publishing,
            trace: trace::current(),
        };
        Ok(self.commit(change).await??)
    }
}

enum Wish {
    Use(String),
    CancelUse(String),
    Revoke(String),
}

enum Which {
    Id(UserCouponId),
    /// Under the key of a reward; where there is none, this is going to be one that was taken back.
    Grant {
        user: UserId,
        key: String,
        id: UserCouponId,
    },
}

struct Change {
    which: Which,
    coupon: Arc<Coupon>,
    wish: Wish,
    actor: Option<Actor>,
    coupons: Arc<Coupons>,
    publishing: Publishing,
    trace: Option<Trace>,
}

impl Command for Change {
    type Output = Result<UserCoupon, Rejection>;
    const NAME: &'static str = "move_coupon";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        // Counts are held before coupons, and in one order.
        let mut counted: Vec<_> =
            batch.iter().filter(|change| change.counts()).map(|change| &change.coupon.id).collect();
        counted.sort_unstable();
        counted.dedup();
        for id in counted {
            counting::lock(tx, id)?;
        }
        let mut wanted = Vec::with_capacity(batch.len());
        for change in batch {
            wanted.push(change.find(tx)?);
        }
        let ids: BTreeSet<_> = wanted.iter().flatten().copied().collect();
        held::lock(tx, &ids.into_iter().collect::<Vec<_>>())?;
        let mut found = wanted.into_iter();
        each(batch, |change| change.run(tx, found.next().flatten()))
    }

    fn committed(done: &[(&Self, &Self::Output)]) {
        for (change, outcome) in done {
            if let Ok(held) = outcome {
                change.coupons.moved([held.id]);
                if change.counts() {
                    change.coupons.bell.notify_one();
                }
            }
        }
    }
}

impl Change {
    /// Whether it changes how many are issued.
    fn counts(&self) -> bool {
        matches!(self.wish, Wish::Revoke(_))
    }

    /// Which one it is about, if it is there.
    fn find(&self, tx: &mut Tx<'_>) -> Result<Option<UserCouponId>, Fault> {
        match &self.which {
            Which::Id(id) => Ok(Some(*id)),
            Which::Grant { user, key, .. } => {
                let mut known = held::of_users(tx, &self.coupon.id, &[(user.as_str(), key.as_str())])?;
                let of_user = known.remove(user.as_str()).unwrap_or_default();
                let same = |held: &&UserCoupon| held.key == *key && held.coupon_id == self.coupon.id;
                Ok(of_user.iter().find(same).map(|held| held.id))
            }
        }
    }

    /// Moves the one that was found; it is held.
    fn run(
        &self,
        tx: &mut Tx<'_>,
        found: Option<UserCouponId>,
    ) -> Result<Result<UserCoupon, Rejection>, Fault> {
        let (coupon, now) = (&self.coupon, tx.now());
        // The same may have been barred a moment ago, in this transaction.
        let found = match found {
            None => self.find(tx)?,
            found => found,
        };
        let before = match (found, &self.which) {
            (Some(id), _) => held::find(tx, id)?,
            (None, Which::Grant { user, key, .. }) => return self.bar(tx, user, key),
            (None, Which::Id(_)) => None,
        };
        let Some(before) = before else {
            return Ok(Err(Rejection::new(Code::UserCouponNotFound, "there is no such user coupon")));
        };
        let moved: Moved = match &self.wish {
            Wish::Use(order) => rules::use_for(&before, coupon, order, now),
            Wish::CancelUse(order) => rules::cancel_use(&before, coupon, order, now),
            Wish::Revoke(note) => rules::revoke(&before, note, now),
        };
        let after = match moved {
            Err(rejection) => return Ok(Err(rejection)),
            Ok(None) => return Ok(Ok(before)),
            Ok(Some(after)) => after,
        };
        tx.follow(&after.id, self.trace);
        held::update(tx, std::slice::from_ref(&after))?;
        if before.status().is_issued() && !after.status().is_issued() {
            self.give_back(tx, &after)?;
        }
        news::tell(tx, self.publishing, [&after])?;
        self.log(tx, &before, &after)?;
        Ok(Ok(after))
    }

    /// One less is issued, and Redis is told so.
    fn give_back(&self, tx: &mut Tx<'_>, after: &UserCoupon) -> Result<(), Fault> {
        let odd = || Fault::Inconsistent(format!("the count of {} is wrong", self.coupon.id));
        let count = counting::lock(tx, &self.coupon.id)?.ok_or_else(odd)?;
        if !counting::add(tx, &self.coupon.id, -1)? {
            return Err(odd());
        }
        if self.coupons.options.issuer == Issuer::Store {
            return counting::disown(tx, &self.coupon.id, &count);
        }
        let task = Task {
            message: *Entropy.request_id(tx.now()).as_bytes(),
            id: after.id,
            coupon_id: after.coupon_id.clone(),
            user_id: after.user_id.clone(),
            kind: Kind::GiveBack { epoch: count.epoch },
            trace: None,
        };
        queue::append(tx, &[task])
    }

    /// A reward that is taken back before it was granted will never be.
    fn bar(&self, tx: &mut Tx<'_>, user: &UserId, key: &str) -> Result<Result<UserCoupon, Rejection>, Fault> {
        let (Which::Grant { id, .. }, Wish::Revoke(note)) = (&self.which, &self.wish) else {
            return Err(Fault::Panicked);
        };
        let barred = UserCoupon {
            id: *id,
            coupon_id: self.coupon.id.clone(),
            user_id: user.clone(),
            key: key.to_owned(),
            version: 1,
            requested_at: tx.now(),
            state: State::Revoked { at: None, revoked_at: tx.now(), note: note.clone() },
        };
        if held::insert(tx, &self.coupon.id, std::slice::from_ref(&barred))? == 0 {
            return Err(Fault::Conflict("the grant came at the same time".into()));
        }
        Ok(Ok(barred))
    }

    fn log(&self, tx: &mut Tx<'_>, before: &UserCoupon, after: &UserCoupon) -> Result<(), Fault> {
        let Some(actor) = &self.actor else { return Ok(()) };
        let now = tx.now();
        let snapshot = |held: &UserCoupon| {
            serde_json::to_value(UserCouponView::for_operators(held, &self.coupon, now))
                .map_err(|error| Fault::Inconsistent(error.to_string()))
        };
        let line = AuditEntry {
            at: now,
            actor: actor.clone(),
            action: Action::UserCouponRevoked,
            target_id: after.id.to_string(),
            before: Some(snapshot(before)?),
            after: Some(snapshot(after)?),
        };
        audit_log::append(tx, &[line])
    }
}
