//! Figures that have to be looked up: how far what follows the transactions is behind them.

use crate::engine::Engine;
use guerdon_core::Timestamp;
use guerdon_store::outbox;
use guerdon_store::wallet::ledger;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Backlogs are counted up to this: more is as bad.
const COUNTED: i64 = 10_000;

impl Engine {
    /// Looks at how far the ledger and the outbox are behind.
    pub(crate) async fn take_figures(&self) {
        let now = self.now();
        let looked = self.read(|tx| Ok((ledger::backlog(tx, COUNTED)?, outbox::backlog(tx, COUNTED)?))).await;
        let Ok((owed, messages)) = looked else { return };
        let metrics = &self.metrics;
        metrics.ledger_backlog.set(owed.transfers);
        set_age(&metrics.ledger_lag_seconds, now, owed.oldest);
        metrics.outbox_backlog.set(messages.unsent);
        metrics.outbox_dead.set(messages.dead);
        set_age(&metrics.outbox_oldest_seconds, now, messages.oldest);
    }
}

fn set_age(gauge: &Gauge<f64, AtomicU64>, now: Timestamp, oldest: Option<Timestamp>) {
    let millis = oldest.map_or(0, |oldest| now.millis_since(oldest).max(0));
    gauge.set(Duration::from_millis(millis.unsigned_abs()).as_secs_f64());
}
