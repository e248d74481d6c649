//! Figures that have to be looked up: how far what follows the transactions is behind them.

use crate::engine::Engine;
use crate::metrics::{ProviderLabels, ServiceLabels};
use guerdon_core::Timestamp;
use guerdon_store::allocations::moving;
use guerdon_store::coupons::queue;
use guerdon_store::wallet::ledger;
use guerdon_store::{claims, outbox};
use prometheus_client::metrics::gauge::Gauge;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Backlogs are counted up to this: more is as bad.
const COUNTED: i64 = 10_000;

impl Engine {
    /// Looks at how far the ledger and the outbox are behind.
    pub(crate) async fn take_figures(&self) {
        let now = self.now();
        let looked = self.read(|tx| {
            Ok((ledger::backlog(tx, COUNTED)?, outbox::backlog(tx, COUNTED)?, queue::backlog(tx, COUNTED)?))
        });
        let Ok((owed, messages, (coupons, oldest))) = looked.await else { return };
        self.look_at_allocations(now).await;
        self.look_at_claims(now).await;
        let metrics = &self.metrics;
        metrics.ledger_backlog.set(owed.transfers);
        set_age(&metrics.ledger_lag_seconds, now, owed.oldest);
        metrics.outbox_backlog.set(messages.unsent);
        metrics.outbox_dead.set(messages.dead);
        set_age(&metrics.outbox_oldest_seconds, now, messages.oldest);
        metrics.coupons_waiting.set(coupons);
        set_age(&metrics.coupons_oldest_seconds, now, oldest);
    }
}

impl Engine {
    /// Looks at what providers have yet to deliver.
    async fn look_at_allocations(&self, now: Timestamp) {
        let looked = self.read(|tx| {
            let mut found = Vec::new();
            for provider in moving::providers(tx)? {
                let backlog = moving::backlog(tx, &provider, COUNTED)?;
                found.push((provider, backlog));
            }
            Ok(found)
        });
        let Ok(found) = looked.await else { return };
        let metrics = &self.metrics;
        // Who has nothing left to deliver is not among them.
        let names = self.deliveries.names().into_iter().map(|name| (name, (0, None)));
        let mut all: BTreeMap<_, _> = names.collect();
        all.extend(found);
        for (provider, (waiting, due)) in all {
            let labels = ProviderLabels { provider };
            metrics.allocations_waiting.get_or_create(&labels).set(waiting);
            set_age(&metrics.allocations_overdue_seconds.get_or_create(&labels), now, due);
        }
    }
}

impl Engine {
    /// Looks at claims that are not at their end.
    async fn look_at_claims(&self, now: Timestamp) {
        let names = self.claims.lane_names();
        let looked = self.read(move |tx| {
            let mut found = Vec::with_capacity(names.len());
            for name in &names {
                found.push((name.clone(), claims::waiting(tx, name, COUNTED)?));
            }
            Ok((found, claims::needing_hand(tx, COUNTED)?))
        });
        let Ok((found, needing_hand)) = looked.await else { return };
        let metrics = &self.metrics;
        metrics.claims_needing_hand.set(needing_hand);
        for gate in self.claims.gates() {
            let labels = ServiceLabels { service: gate.name().to_owned() };
            metrics.breaker_open.get_or_create(&labels).set(i64::from(gate.is_in_trouble(now)));
        }
        for (service, (waiting, due)) in found {
            let labels = ServiceLabels { service };
            metrics.claims_waiting.get_or_create(&labels).set(waiting);
            set_age(&metrics.claims_overdue_seconds.get_or_create(&labels), now, due);
        }
    }
}

fn set_age(gauge: &Gauge<f64, AtomicU64>, now: Timestamp, oldest: Option<Timestamp>) {
    let millis = oldest.map_or(0, |oldest| now.millis_since(oldest).max(0));
    gauge.set(Duration::from_millis(millis.unsigned_abs()).as_secs_f64());
}
