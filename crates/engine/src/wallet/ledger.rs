//! TX2: the ledger's entries, from a backlog, retried until they are written; and a walk that looks for any that lack.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::wallet::TransferId;
use guerdon_store::wallet::ledger;
use guerdon_store::{Command, Fault, Priority, Stopwatch, Tx, each};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Transfers that one transaction enters: three rows each.
const CHUNK: usize = 500;
/// How often the backlog is looked at for what nobody told of: another process may have left something behind.
const REST: Duration = Duration::from_secs(1);
/// Transfers that are remembered; more are found in the backlog.
const TOLD_MAX: usize = 20_000;
/// Transfers that are looked at in one step of the walk.
const WALKED: i64 = 250;

/// What the ledger's loop knows.
#[derive(Debug, Default)]
pub(super) struct Clerk {
    /// Transfers of this process that are owed their entries. The backlog has them too; it is read from its beginning,
    /// where it is full of the remains of what was done, so it is only looked at now and then.
    told: Mutex<VecDeque<TransferId>>,
    news: Notify,
    /// When the backlog was last looked at.
    looked: Mutex<Option<Stopwatch>>,
    walk: Mutex<Walk>,
}

/// A walk over all transfers: where it is, and where it ends.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    after: Option<TransferId>,
    up_to: Option<TransferId>,
}

impl Clerk {
    pub(super) fn owe(&self, transfers: impl Iterator<Item = TransferId>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let room = TOLD_MAX.saturating_sub(told.len());
        told.extend(transfers.take(room));
        drop(told);
        self.news.notify_one();
    }

    /// Whether it is time to look at the backlog, also while there is always something else to do.
    fn looks(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let due = looked.is_none_or(|looked| looked.elapsed() >= REST);
        if due {
            *looked = Some(Stopwatch::start());
        }
        due
    }

    fn next(&self) -> Vec<TransferId> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let count = told.len().min(CHUNK);
        told.drain(..count).collect()
    }
}

impl Engine {
    /// Writes the entries that are owed, as soon as there are any.
    pub(crate) async fn catch_up_ledger(self: Arc<Self>) {
        let clerk = &self.desk.ledger;
        let _ = tokio::time::timeout(REST, clerk.news.notified()).await;
        let mut entered = Ok(());
        while entered.is_ok() {
            let transfers = clerk.next();
            if clerk.looks() {
                entered = self.enter_leftovers().await;
            }
            if transfers.is_empty() || entered.is_err() {
                break;
            }
            entered = self.enter(transfers).await;
        }
        if let Err(failure) = entered {
            // The transfers stand; their entries are tried again.
            tracing::warn!(%failure, "the ledger's entries could not be written");
            tokio::time::sleep(REST).await;
        }
    }

    async fn enter_leftovers(&self) -> Result<(), Failure> {
        let most = i64::try_from(CHUNK).unwrap_or(i64::MAX);
        loop {
            let owed = self.read(move |tx| ledger::owed(tx, most)).await?;
            let count = owed.len();
            if count > 0 {
                self.enter(owed).await?;
            }
            if count < CHUNK {
                return Ok(());
            }
        }
    }

    /// Writes the entries of these; one that cannot be entered does not keep the others from it.
    async fn enter(&self, transfers: Vec<TransferId>) -> Result<(), Failure> {
        let failure = match self.commit_patiently(CatchUp(transfers.clone())).await {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if !matches!(failure, Failure::Broken(Fault::Statement(_) | Fault::Inconsistent(_)))
            || transfers.len() == 1
        {
            return Err(failure);
        }
        let mut last = Ok(());
        for transfer in transfers {
            if let Err(failure) = self.commit_patiently(CatchUp(vec![transfer])).await {
                tracing::error!(transferId = %transfer, %failure, "a transfer's entries could not be written");
                last = Err(failure);
            }
        }
        last
    }

    /// Goes on looking through all transfers for any without entries, from the first to the last and again.
    pub(crate) async fn repair_ledger(&self) {
        let place = *self.desk.ledger.walk.lock().unwrap_or_else(PoisonError::into_inner);
        let walked = async {
            let walked = self.read(move |tx| {
                let up_to = match place.up_to {
                    Some(up_to) => Some(up_to),
                    None => ledger::newest(tx)?,
                };
                let after = place.after.unwrap_or(TransferId::from_bytes([0; 16]));
                Ok((up_to, ledger::walk(tx, after, WALKED)?))
            });
            let (up_to, (last, lacking)) = walked.await?;
            if !lacking.is_empty() {
                tracing::warn!(transfers = ?lacking, "transfers without their entries in the ledger");
                let owed = self.commit(Owe(lacking)).await?;
                self.metrics.ledger_repairs.inc_by(owed);
            }
            // Those that were made after the walk began are for the next one.
            let more = last.is_some() && last < up_to;
            let next = if more { Walk { after: last, up_to } } else { Walk::default() };
            *self.desk.ledger.walk.lock().unwrap_or_else(PoisonError::into_inner) = next;
            Ok::<_, Failure>(())
        };
        if let Err(failure) = walked.await {
            tracing::debug!(%failure, "the ledger is looked through later");
        }
    }
}

struct CatchUp(Vec<TransferId>);

impl Command for CatchUp {
    type Output = ();
    const NAME: &'static str = "catch_up_ledger";
    const PRIORITY: Priority = Priority::Following;
    // Entries that are lost are owed again, for what is owed is lost no earlier.
    const DURABLE: bool = false;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |owed| ledger::enter(tx, &owed.0))
    }
}

struct Owe(Vec<TransferId>);

impl Command for Owe {
    type Output = u64;
    const NAME: &'static str = "owe_entries";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<u64>, Fault> {
        each(batch, |owe| ledger::owe(tx, &owe.0))
    }
}
