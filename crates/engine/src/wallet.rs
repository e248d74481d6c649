//! The wallet: transfers, deposits and refunds, each under an idempotency key, and the ledger that follows them.
//!
//! A call claims its key in one transaction (A), moves the money in another (TX1), which also stores the answer and the
//! message for others, and is answered; the ledger's entries come in a third (TX2), from a backlog that TX1 wrote.

mod accounts;
mod begin;
mod ledger;
mod post;
mod reads;
#[cfg(test)]
mod tests;

pub use reads::EntryPlace;

use crate::engine::{Engine, STORE_TIMEOUT};
use crate::failure::Failure;
use crate::idempotency::{Begun, Carried, Keys, Work};
use crate::trace;
use begin::Begin;
use guerdon_core::IdempotencyKey;
use guerdon_core::audit::Actor;
use guerdon_core::idempotency::KeyName;
use guerdon_core::wallet::{Asking, Movement, TransferId, Wish};
use guerdon_store::Fault;
use guerdon_store::outbox::Publishing;
use post::{Post, Posting};
use std::sync::Arc;
use std::time::Duration;

/// Between two tries to finish what was claimed.
const RETRY: Duration = Duration::from_millis(100);

/// What every transfer needs at hand.
#[derive(Debug)]
pub(crate) struct Desk {
    keys: Arc<Keys>,
    publishing: Publishing,
    ledger: ledger::Clerk,
}

impl Desk {
    pub(crate) fn new(keys: Arc<Keys>, publishing: Publishing) -> Self {
        Self { keys, publishing, ledger: ledger::Clerk::default() }
    }

    /// Tells the ledger of transfers that it owes entries.
    pub(crate) fn owe(&self, transfers: impl Iterator<Item = TransferId>) {
        self.ledger.owe(transfers);
    }
}

/// A call that wants something done once.
struct Call {
    name: KeyName,
    wish: Wish,
    asking: Asking,
    actor: Actor,
}

impl Engine {
    /// Does what is wished, once, and gives the same answer again to whoever asks again with the same key.
    pub async fn carry_out(
        self: &Arc<Self>,
        asking: Asking,
        actor: Actor,
        key: IdempotencyKey,
        wish: Wish,
    ) -> Result<Carried, Failure> {
        let name = KeyName { key, client: asking.user.clone(), scope: wish.scope() };
        let (engine, call) = (Arc::clone(self), Call { name, wish, asking, actor });
        // On its own: a caller who goes away between the claim and the work leaves no claim behind.
        let work = async move { engine.carry_out_call(&call).await };
        let carried = tokio::spawn(trace::within(trace::current(), work));
        match tokio::time::timeout(STORE_TIMEOUT, carried).await {
            Ok(carried) => carried.map_err(|_| Fault::Panicked)?,
            Err(_) => Err(Fault::OutcomeUnknown.into()),
        }
    }

    async fn carry_out_call(&self, call: &Call) -> Result<Carried, Failure> {
        loop {
            let begin = Begin {
                name: call.name.clone(),
                wish: call.wish,
                asking: call.asking.clone(),
                resource: self.new_resource(),
                lease_ms: self.keys.lease_ms(),
            };
            let work = match self.commit_patiently(begin).await? {
                Begun::Work(work) => work,
                Begun::Wait => return Ok(Carried::InProgress),
                Begun::Replay(answer) => return Ok(Carried::Answered(answer)),
                Begun::Refused(rejection) => return Err(rejection.into()),
            };
            tracing::debug!(idempotency_key = %call.name.key, epoch = work.epoch, "claimed");
            match self.post_claimed(call, &work).await? {
                Posting::Done(done) => return Ok(Carried::Answered(done.answer)),
                // The claim did not stand any more; what stands instead is looked up.
                Posting::LeftOut => {}
            }
        }
    }

    /// Tries for as long as the claim's lease lasts: nobody else will. To try again does no harm, since a claim is only
    /// finished once.
    async fn post_claimed(&self, call: &Call, work: &Work<Movement>) -> Result<Posting, Failure> {
        let deadline = work.started_at.plus_millis(self.keys.lease_ms());
        loop {
            let failure = match self.commit_patiently(self.post(call, work)).await {
                Ok(posting) => return Ok(posting),
                Err(failure) => failure,
            };
            let Failure::Broken(fault) = &failure else { return Err(failure) };
            let passing = matches!(
                fault,
                Fault::Busy
                    | Fault::Conflict(_)
                    | Fault::TimedOut(_)
                    | Fault::Unavailable(_)
                    | Fault::OutcomeUnknown
            );
            if !passing || self.now() >= deadline {
                return Err(failure);
            }
            tracing::warn!(idempotency_key = %call.name.key, %fault, "a claimed transfer is tried again");
            tokio::time::sleep(RETRY).await;
        }
    }

    fn post(&self, call: &Call, work: &Work<Movement>) -> Post {
        Post {
            name: call.name.clone(),
            epoch: work.epoch,
            started_at: work.started_at,
            id: TransferId::from_bytes(work.resource),
            kind: call.wish.kind(),
            movement: work.plan,
            operates: call.asking.operates,
            actor: call.actor.clone(),
            desk: Arc::clone(&self.desk),
            trace: trace::current(),
        }
    }
}
