//! TX1: the money moves, the answer is stored, and others are told, all of it or nothing.
//!
//! Keys come first, in their order, and only claims that still stand: whoever the watchdog was faster with is left out
//! whole, and while a key is held here the watchdog passes it by. Then the accounts, in the order of their numbers, each
//! read once and written once however many transfers of the group it has a part in.

use super::Desk;
use crate::idempotency::note_finished;
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::idempotency::{KeyName, StoredAnswer};
use guerdon_core::wallet::view::{Receipt, TransferNews};
use guerdon_core::wallet::{
    Books, Movement, Transfer, TransferId, TransferKind, check_rest, failed, no_transfer,
};
use guerdon_core::{Code, Rejection, Timestamp, Trace};
use guerdon_store::idempotency::{self, Finish, Only};
use guerdon_store::outbox::Publishing;
use guerdon_store::wallet::accounts;
use guerdon_store::wallet::transfers::{self, Made};
use guerdon_store::{Command, Fault, Priority, Tx, audit_log};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) struct Post {
    pub(super) name: KeyName,
    pub(super) epoch: i64,
    pub(super) started_at: Timestamp,
    pub(super) id: TransferId,
    pub(super) kind: TransferKind,
    pub(super) movement: Movement,
    pub(super) operates: bool,
    pub(super) actor: Actor,
    pub(super) desk: Arc<Desk>,
    pub(super) trace: Option<Trace>,
}

/// What became of a movement whose key was claimed.
#[derive(Clone, Debug)]
pub(super) enum Posting {
    Done(Done),
    /// The claim did not stand any more, and nothing was done.
    LeftOut,
}

#[derive(Clone, Debug)]
pub(super) struct Done {
    pub(super) answer: StoredAnswer,
    error: Option<Code>,
    millis: i64,
}

/// What a transaction has made of some of its movements.
#[derive(Default)]
struct Results {
    made: Vec<Made>,
    lines: Vec<AuditEntry>,
}

impl Command for Post {
    type Output = Posting;
    const NAME: &'static str = "post_transfer";
    const PRIORITY: Priority = Priority::Intake;
    // Its claim was let in; turned away here, the key would be stuck until the watchdog comes.
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Posting>, Fault> {
        // Nearly all of them succeed, and what is said of one that does is known beforehand.
        let hoped: Vec<_> = batch.iter().map(Post::success).collect::<Result<_, _>>()?;
        let standing = idempotency::finish(tx, &hoped, Only::InProgress)?;
        let stands = |post: &Post| standing.get(&post.name) == Some(&post.epoch);
        let posts: Vec<_> = batch.iter().filter(|post| stands(post)).collect();

        let mut originals = lock_originals(tx, &posts)?;
        let wanted: BTreeSet<_> =
            posts.iter().flat_map(|post| [post.movement.from, post.movement.to]).collect();
        let mut books = accounts::lock(tx, &wanted)?;

        let mut results = Results::default();
        let mut refused = BTreeMap::<&KeyName, Finish<'_>>::new();
        for post in &posts {
            if let Err(rejection) = post.apply_one(tx, &mut books, &mut originals, &mut results)? {
                refused.insert(&post.name, post.failure(rejection));
            }
        }
        let publishing = batch.first().map_or(Publishing::Nobody, |post| post.desk.publishing);
        transfers::write(tx, &books, &results.made, publishing)?;
        let failures: Vec<_> = refused.values().cloned().collect();
        if idempotency::finish(tx, &failures, Only::Succeeded)?.len() != failures.len() {
            return Err(Fault::Inconsistent("a key that is held was finished by somebody else".into()));
        }
        audit_log::append(tx, &results.lines)?;

        let now = tx.now();
        let outcome = |(post, hoped): (&Post, Finish<'_>)| {
            if !stands(post) {
                return Posting::LeftOut;
            }
            let Finish { answer, error, .. } = refused.remove(&post.name).unwrap_or(hoped);
            Posting::Done(Done { answer, error, millis: now.millis_since(post.started_at) })
        };
        Ok(batch.iter().zip(hoped).map(outcome).collect())
    }

    fn committed(done: &[(&Self, &Posting)]) {
        let Some((first, _)) = done.first() else { return };
        let made =
            done.iter().filter(|(_, posting)| matches!(posting, Posting::Done(Done { error: None, .. })));
        first.desk.owe(made.map(|(post, _)| post.id));
        for (post, posting) in done {
            let (idempotency_key, id) = (&post.name.key, &post.id);
            match posting {
                Posting::Done(Done { error, millis, .. }) => {
                    let event_id = TransferId::from_bytes(post.id.message_id());
                    let error_code = error.map(Code::as_str);
                    tracing::debug!(%idempotency_key, transferId = %id, %event_id, error_code, "finished");
                    note_finished(&post.desk.keys.metrics, post.name.scope, *error, *millis);
                }
                Posting::LeftOut => {
                    tracing::warn!(%idempotency_key, transferId = %id, "left out: its claim had ended");
                }
            }
        }
    }
}

/// Holds the transfers that are to be given back, in the order of their ids.
fn lock_originals(tx: &mut Tx<'_>, posts: &[&Post]) -> Result<BTreeMap<TransferId, Transfer>, Fault> {
    let wanted: BTreeSet<_> = posts.iter().filter_map(|post| post.movement.refund_of).collect();
    let mut held = BTreeMap::new();
    for id in wanted {
        held.extend(transfers::lock(tx, id)?.map(|transfer| (id, transfer)));
    }
    Ok(held)
}

impl Post {
    fn success(&self) -> Result<Finish<'_>, Fault> {
        let body = serde_json::to_string(&Receipt::of(self.id)).map_err(|error| inconsistent(&error))?;
        let answer = StoredAnswer { status: 200, body: body.into() };
        Ok(Finish { name: &self.name, epoch: self.epoch, answer, error: None })
    }

    fn failure(&self, rejection: Rejection) -> Finish<'_> {
        let code = rejection.code;
        let answer = (self.desk.keys.options.render)(&failed(rejection), &self.actor.request_id);
        Finish { name: &self.name, epoch: self.epoch, answer, error: Some(code) }
    }

    /// Makes one movement in the books that are held, or says why not.
    fn apply_one(
        &self,
        tx: &mut Tx<'_>,
        books: &mut Books,
        originals: &mut BTreeMap<TransferId, Transfer>,
        results: &mut Results,
    ) -> Result<Result<(), Rejection>, Fault> {
        let Movement { from, to, refund_of, .. } = self.movement;
        let amount = match self.amount(originals) {
            Ok(amount) => amount,
            Err(rejection) => return Ok(Err(rejection)),
        };
        let posted = match books.post(from, to, amount, tx.now()) {
            Ok(posted) => posted,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if let Some(original) = refund_of {
            if !transfers::refund(tx, original, amount)? {
                return Err(Fault::Inconsistent(format!(
                    "the transfer {original} changed while it was held"
                )));
            }
            if let Some(original) = originals.get_mut(&original) {
                original.refunded += amount;
            }
        }
        let transfer = Transfer {
            id: self.id,
            kind: self.kind,
            posted,
            refunded: 0,
            refund_of,
            client: self.name.client.clone(),
            key: self.name.key.clone(),
        };
        let book = books.book(from).map_err(|rejection| Fault::Inconsistent(rejection.to_string()))?;
        let news = TransferNews::of(&transfer, &book.currency, book.scale);
        let payload = serde_json::to_string(&news).map_err(|error| inconsistent(&error))?;
        if self.operates {
            results.lines.push(self.line(&news, tx.now())?);
        }
        tx.follow(&self.id, self.trace);
        results.made.push(Made { transfer, payload });
        Ok(Ok(()))
    }

    /// How much is moved; what is left of a transfer is known once it is held.
    fn amount(&self, originals: &BTreeMap<TransferId, Transfer>) -> Result<i64, Rejection> {
        match (self.movement.refund_of, self.movement.amount) {
            (Some(id), amount) => check_rest(originals.get(&id).ok_or_else(|| no_transfer(id))?, amount),
            (None, Some(amount)) => Ok(amount),
            (None, None) => Err(Rejection::new(Code::InvalidFields, "amount is required")),
        }
    }

    /// What an operator did is told in the audit log.
    fn line(&self, news: &TransferNews<'_>, at: Timestamp) -> Result<AuditEntry, Fault> {
        let (action, target_id) = match self.movement.refund_of {
            Some(original) => (Action::TransferRefunded, original.to_string()),
            None => (Action::AccountDeposited, self.movement.to.to_string()),
        };
        let after = serde_json::to_value(news).map_err(|error| inconsistent(&error))?;
        Ok(AuditEntry { at, actor: self.actor.clone(), action, target_id, before: None, after: Some(after) })
    }
}

fn inconsistent(error: &serde_json::Error) -> Fault {
    Fault::Inconsistent(error.to_string())
}
