//! TX2: the ledger's entries, from a backlog, retried until they are written; and a walk that looks for any that lack.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::Timestamp;
use guerdon_core::wallet::TransferId;
use guerdon_store::wallet::ledger;
use guerdon_store::{Command, Fault, Priority, Tx, each, outbox};
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// Transfers that one transaction enters: three rows each.
const CHUNK: i64 = 500;
/// How long the ledger rests when nobody tells it of anything; another process may have left something behind.
const REST: Duration = Duration::from_millis(250);
/// Transfers that are looked at in one step of the walk.
const WALKED: i64 = 1_000;

impl Engine {
    /// Writes the entries that are owed, as soon as there are any.
    pub(crate) async fn catch_up_ledger(self: Arc<Self>) {
        let told = tokio::time::timeout(REST, self.desk.owed.notified()).await;
        // Nobody said anything: the writer is not disturbed for nothing.
        if told.is_err() && !self.read(ledger::is_behind).await.unwrap_or(true) {
            return;
        }
        loop {
            match self.commit(CatchUp).await {
                Ok(entered) if i64::try_from(entered).is_ok_and(|count| count >= CHUNK) => {}
                Ok(_) => return,
                Err(failure) => {
                    // The transfers stand; their entries are tried again.
                    tracing::warn!(%failure, "the ledger's entries could not be written");
                    tokio::time::sleep(REST).await;
                    return;
                }
            }
        }
    }

    /// Goes on looking through all transfers for any without entries, from the first to the last and again.
    pub(crate) async fn repair_ledger(&self) {
        let after = *self.desk.walked.lock().unwrap_or_else(PoisonError::into_inner);
        let walked = async {
            let (last, lacking) = self.read(move |tx| ledger::walk(tx, after, WALKED)).await?;
            if !lacking.is_empty() {
                tracing::warn!(transfers = ?lacking, "transfers without their entries in the ledger");
                let owed = self.commit(Owe(lacking)).await?;
                self.desk.metrics.ledger_repairs.inc_by(owed);
                self.desk.owed.notify_one();
            }
            let from = last.unwrap_or(TransferId::from_bytes([0; 16]));
            *self.desk.walked.lock().unwrap_or_else(PoisonError::into_inner) = from;
            Ok::<_, Failure>(())
        };
        if let Err(failure) = walked.await {
            tracing::debug!(%failure, "the ledger is looked through later");
        }
    }

    /// Looks at how far the ledger and the outbox are behind.
    pub(crate) async fn take_figures(&self) {
        let now = self.now();
        let looked = self.read(|tx| Ok((ledger::backlog(tx)?, outbox::backlog(tx)?))).await;
        let Ok((owed, (unsent, oldest))) = looked else { return };
        let metrics = &self.metrics;
        metrics.ledger_backlog.set(owed.transfers);
        set_age(&metrics.ledger_lag_seconds, now, owed.oldest);
        metrics.outbox_backlog.set(unsent);
        set_age(&metrics.outbox_oldest_seconds, now, oldest);
    }
}

fn set_age(gauge: &Gauge<f64, AtomicU64>, now: Timestamp, oldest: Option<Timestamp>) {
    let millis = oldest.map_or(0, |oldest| now.millis_since(oldest).max(0));
    gauge.set(Duration::from_millis(millis.unsigned_abs()).as_secs_f64());
}

struct CatchUp;

impl Command for CatchUp {
    /// How many transfers were entered.
    type Output = usize;
    const NAME: &'static str = "catch_up_ledger";
    const PRIORITY: Priority = Priority::Following;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<usize>, Fault> {
        each(batch, |_| ledger::catch_up(tx, CHUNK))
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
