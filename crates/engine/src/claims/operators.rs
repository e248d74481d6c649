//! What operators can do about a claim that could not be undone.

use super::local::{Local, illegal};
use super::reads::not_found;
use super::{Claims, news};
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::claims::Claim;
use guerdon_core::claims::view::ClaimView;
use guerdon_core::{ClaimKey, Code, Rejection, Timestamp};
use guerdon_store::claims::{self, Change, Stored};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Tx, audit_log, each};
use serde_json::Value;
use std::sync::Arc;

impl Engine {
    /// Has a compensation tried again, as often as a new one.
    pub async fn retry_claim(&self, actor: Actor, key: ClaimKey) -> Result<Claim, Failure> {
        self.attend(actor, key, Wish::Retry).await
    }

    /// Notes that an operator has seen to it.
    pub async fn resolve_claim(
        &self,
        actor: Actor,
        key: ClaimKey,
        note: String,
        return_stock: bool,
    ) -> Result<Claim, Failure> {
        self.attend(actor, key, Wish::Resolve { note, return_stock }).await
    }

    async fn attend(&self, actor: Actor, key: ClaimKey, wish: Wish) -> Result<Claim, Failure> {
        let (claims, publishing) = (Arc::clone(&self.claims), self.intake().publishing);
        let change = Attend { key, wish, actor, at: self.now(), claims, publishing };
        let stored = self.commit(change).await??;
        news::count(&self.metrics, &stored.claim);
        Ok(stored.claim)
    }
}

#[derive(Clone, Debug)]
enum Wish {
    Retry,
    Resolve { note: String, return_stock: bool },
}

struct Attend {
    key: ClaimKey,
    wish: Wish,
    actor: Actor,
    at: Timestamp,
    claims: Arc<Claims>,
    publishing: Publishing,
}

impl Command for Attend {
    type Output = Result<Stored, Rejection>;
    const NAME: &'static str = "attend_claim";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        each(batch, |attend| attend.run(tx))
    }

    fn committed(done: &[(&Self, &Self::Output)]) {
        for (attend, outcome) in done {
            if let Ok(stored) = outcome {
                attend.claims.hand_over([stored], stored.claim.updated_at);
            }
        }
    }
}

impl Attend {
    fn run(&self, tx: &mut Tx<'_>) -> Result<Result<Stored, Rejection>, Fault> {
        let found = claims::by_keys(tx, &[self.key.as_str()])?.pop();
        let Some(id) = found.map(|stored| stored.claim.id) else { return Ok(Err(not_found(&self.key))) };
        let Some(Stored { mut claim, .. }) = claims::lock(tx, &[id])?.pop() else {
            return Ok(Err(not_found(&self.key)));
        };
        let (epoch, status, before, now) = (claim.epoch, claim.status(), snapshot(&claim)?, tx.now());
        let mut local = Local::open(
            tx,
            &self.claims,
            std::iter::once((&claim.event_id.clone(), &claim.user_id.clone())),
        )?;
        local.hold_stock(tx, std::iter::once(&claim))?;
        let mut returned = Vec::new();
        let (done, action) = match &self.wish {
            Wish::Retry => (claim.tried_again(now, &self.claims.rules()), Action::ClaimRetried),
            Wish::Resolve { note, return_stock } => {
                (claim.resolved(note, *return_stock, now, &mut returned), Action::ClaimResolved)
            }
        };
        if !done.map_err(illegal)? {
            let detail = format!("it is {}, which needs no hand", status.as_str());
            return Ok(Err(Rejection::new(Code::ClaimRefused, detail)));
        }
        local.give_back(&claim, &returned);
        local.close(tx)?;
        claim.epoch = epoch + 1;
        let after = snapshot(&claim)?;
        let stored = self.claims.waiting_for(claim, now);
        claims::write(tx, &[Change { now: stored.clone(), epoch, status, worker: None }])?;
        news::tell(tx, self.publishing, [&stored.claim])?;
        let line = AuditEntry {
            at: self.at,
            actor: self.actor.clone(),
            action,
            target_id: self.key.to_string(),
            before: Some(before),
            after: Some(after),
        };
        audit_log::append(tx, &[line])?;
        Ok(Ok(stored))
    }
}

fn snapshot(claim: &Claim) -> Result<Value, Fault> {
    serde_json::to_value(ClaimView::for_operators(claim))
        .map_err(|error| Fault::Inconsistent(error.to_string()))
}
