//! Coupons as rewards: the same port as that of any provider, so that deliveries and claims need not know the difference.

use super::{IssuedCoupon, Issuer, key_of_grant};
use crate::allocations::{Asks, Calls, Grant, Provider, Revocation};
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::allocations::Answer;
use guerdon_core::allocations::answer::Found;
use guerdon_core::coupons::{Coupon, State};
use guerdon_core::{Code, CouponId, UserId};
use guerdon_store::Fault;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// As rewards name it.
pub(crate) const COUPON: &str = "coupon";
/// How long a grant waits for Redis to count it; what takes longer is asked about again.
const WAIT: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(4);
const CONCURRENCY: usize = 128;

/// The house's own provider of coupons.
#[derive(Default)]
pub(crate) struct CouponProvider {
    engine: OnceLock<Weak<Engine>>,
}

impl CouponProvider {
    pub(crate) fn belongs_to(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get()?.upgrade()
    }
}

fn refused(reason: impl Into<String>) -> Answer {
    Answer::Refused { reason: reason.into() }
}

/// What is known after a failure.
fn failed(failure: &Failure) -> Answer {
    match failure {
        Failure::Broken(Fault::OutcomeUnknown) => Answer::Lost { reason: failure.to_string() },
        Failure::Broken(_) => refused(failure.to_string()),
        Failure::Rejected(rejection) => match rejection.code {
            Code::CouponOutOfStock | Code::CouponDuplicate => Answer::Never { reason: rejection.to_string() },
            // It may be counted, and nobody heard of it.
            Code::IssuerUnavailable => Answer::Lost { reason: rejection.to_string() },
            // One that is not there yet, or whose time has not come.
            _ => refused(rejection.to_string()),
        },
    }
}

async fn named(engine: &Engine, grant: &Grant) -> Result<(Arc<Coupon>, UserId), Answer> {
    let id = grant.details.get("couponId").and_then(|id| id.as_str()).unwrap_or_default();
    let id = CouponId::parse(id).map_err(|reason| Answer::Never { reason: format!("couponId {reason}") })?;
    let user = UserId::parse(grant.user_id.as_str()).map_err(|reason| Answer::Never { reason })?;
    let coupon = engine.coupon(&id).await.map_err(|failure| failed(&failure))?;
    Ok((coupon, user))
}

async fn give(engine: &Arc<Engine>, grant: &Grant) -> Answer {
    let (coupon, user) = match named(engine, grant).await {
        Ok(named) => named,
        Err(answer) => return answer,
    };
    let over = engine.now() >= coupon.valid_until;
    let issued = match engine.ask_for_coupon(coupon, user, key_of_grant(&grant.key)).await {
        Ok(issued) => issued,
        Err(Failure::Rejected(rejection)) if over && rejection.code == Code::CouponNotValid => {
            return Answer::Never { reason: rejection.to_string() };
        }
        Err(failure) => return failed(&failure),
    };
    let IssuedCoupon { held, .. } = issued;
    let held = if held.state.is_pending() { engine.await_coupon(held, WAIT).await } else { held };
    match held.state {
        State::Pending => Answer::Lost { reason: "it is not decided yet".into() },
        State::Rejected { why, .. } => Answer::Never { reason: why.as_str().into() },
        State::Revoked { .. } => Answer::Never { reason: "it was taken back".into() },
        State::Confirmed { .. } | State::Used { .. } | State::Expired { .. } => {
            Answer::Status { status: 200, transaction_id: Some(held.id.to_string()), retry_after_ms: None }
        }
    }
}

async fn take_back(engine: &Engine, revocation: &Revocation) -> Answer {
    let (coupon, user) = match named(engine, &revocation.grant).await {
        Ok(named) => named,
        Err(answer) => return answer,
    };
    // What is only in Redis yet is barred by its key: the store refuses it when it comes.
    match engine.revoke_grant(coupon, user, &revocation.grant.key).await {
        Ok(_) => Answer::Status { status: 200, transaction_id: None, retry_after_ms: None },
        // It was used: somebody has to see to it.
        Err(Failure::Rejected(rejection)) => Answer::Lost { reason: rejection.to_string() },
        Err(failure) => failed(&failure),
    }
}

impl Provider for CouponProvider {
    fn name(&self) -> &str {
        COUPON
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }

    fn timeout(&self) -> Duration {
        TIMEOUT
    }

    fn grant<'a>(&'a self, grant: &'a Grant) -> Calls<'a> {
        Box::pin(async move {
            match self.engine() {
                Some(engine) => {
                    tokio::time::timeout(TIMEOUT, give(&engine, grant)).await.unwrap_or(Answer::TimedOut)
                }
                None => refused("the server is stopping"),
            }
        })
    }

    fn revoke<'a>(&'a self, revocation: &'a Revocation) -> Calls<'a> {
        Box::pin(async move {
            match self.engine() {
                Some(engine) => {
                    let taking = take_back(&engine, revocation);
                    tokio::time::timeout(TIMEOUT, taking).await.unwrap_or(Answer::TimedOut)
                }
                None => refused("the server is stopping"),
            }
        })
    }

    fn look<'a>(&'a self, grant: &'a Grant) -> Asks<'a> {
        Box::pin(async move {
            match self.engine() {
                Some(engine) => find(&engine, grant).await,
                None => Found::Failed(refused("the server is stopping")),
            }
        })
    }
}

/// What became of a grant, as the store has it.
async fn find(engine: &Engine, grant: &Grant) -> Found {
    let (coupon, user) = match named(engine, grant).await {
        Ok(named) => named,
        Err(answer) => return Found::Failed(answer),
    };
    let key = key_of_grant(&grant.key);
    match engine.coupon_under_key(&coupon, &user, &key).await {
        Err(failure) => Found::Failed(failed(&failure)),
        // Redis may have it, where it keeps who asked.
        Ok(None) if engine.coupons.options.issuer == Issuer::RedisStream => {
            let Some(counter) = engine.coupons.counter.clone() else { return Found::CannotTell };
            match counter.known(&coupon.id, &user, &key).await {
                Ok(Some(false)) => Found::NotApplied,
                _ => Found::CannotTell,
            }
        }
        Ok(None) => Found::NotApplied,
        Ok(Some(held)) => match held.state {
            // To grant it again under the same key tells, and it can be taken back.
            State::Pending => Found::CannotTell,
            State::Rejected { .. } | State::Revoked { .. } => Found::NotApplied,
            State::Confirmed { .. } | State::Used { .. } | State::Expired { .. } => {
                Found::Applied { transaction_id: Some(held.id.to_string()) }
            }
        },
    }
}
