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

use crate::engine::Engine;
use crate::failure::Failure;
use crate::idempotency::{Begun, RenderProblem, Work};
use crate::metrics::EngineMetrics;
use begin::Begin;
use guerdon_core::IdempotencyKey;
use guerdon_core::audit::Actor;
use guerdon_core::idempotency::{KeyName, StoredAnswer};
use guerdon_core::wallet::{Asking, TransferId, Wish};
use guerdon_store::Fault;
use guerdon_store::outbox::Publishing;
use post::{Post, Posting};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug)]
pub struct WalletOptions {
    /// How long an issued key can be claimed.
    pub key_ttl: Duration,
    /// How long work under a key may take.
    pub timeout: Duration,
    pub watchdog_interval: Duration,
    pub render: RenderProblem,
}

impl WalletOptions {
    pub(crate) fn key_ttl_ms(&self) -> i64 {
        millis(self.key_ttl)
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// What every transfer needs at hand.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) options: WalletOptions,
    pub(crate) metrics: EngineMetrics,
    publishing: Publishing,
    /// Tells the ledger that it owes entries.
    owed: Notify,
    /// How far the ledger was looked through.
    walked: Mutex<TransferId>,
}

impl Desk {
    pub(crate) fn new(options: WalletOptions, publishing: Publishing, metrics: EngineMetrics) -> Self {
        let walked = Mutex::new(TransferId::from_bytes([0; 16]));
        Self { options, metrics, publishing, owed: Notify::new(), walked }
    }
}

/// What became of a call that brought a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// The answer that was stored, now or earlier.
    Answered(StoredAnswer),
    /// Somebody is at it.
    InProgress,
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
        let name = KeyName { key, client: asking.user.clone(), scope: wish.kind().scope() };
        let (engine, call) = (Arc::clone(self), Call { name, wish, asking, actor });
        // On its own: a caller who goes away between the claim and the work leaves no claim behind.
        let carried = tokio::spawn(async move { engine.carry_out_call(&call).await });
        carried.await.map_err(|_| Fault::Panicked)?
    }

    async fn carry_out_call(&self, call: &Call) -> Result<Carried, Failure> {
        loop {
            let begin = Begin {
                name: call.name.clone(),
                wish: call.wish,
                asking: call.asking.clone(),
                resource: self.new_resource(),
                lease_ms: millis(self.desk.options.timeout),
            };
            let work = match self.commit(begin).await? {
                Begun::Work(work) => work,
                Begun::Wait => return Ok(Carried::InProgress),
                Begun::Replay(answer) => return Ok(Carried::Answered(answer)),
                Begun::Refused(rejection) => return Err(rejection.into()),
            };
            tracing::debug!(idempotency_key = %call.name.key, epoch = work.epoch, "claimed");
            match self.commit(self.post(call, &work)).await? {
                Posting::Done(done) => return Ok(Carried::Answered(done.answer)),
                // The claim did not stand any more; what stands instead is looked up.
                Posting::LeftOut => {}
            }
        }
    }

    fn post(&self, call: &Call, work: &Work<guerdon_core::wallet::Movement>) -> Post {
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
        }
    }
}
