//! What the store tells about itself.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct CommandLabels {
    pub(crate) command: &'static str,
}

#[derive(Clone, Debug)]
pub struct StoreMetrics {
    pub(crate) waiting: Gauge,
    pub(crate) running: Gauge,
    pub(crate) group_commands: Histogram,
    pub(crate) group_seconds: Family<CommandLabels, Histogram>,
    pub(crate) commands: Family<CommandLabels, Counter>,
    pub(crate) failed_commands: Family<CommandLabels, Counter>,
    pub(crate) isolated_groups: Counter,
    pub(crate) retried_groups: Counter,
    pub(crate) unknown_commits: Counter,
    pub(crate) reconnects: Counter,
    pub(crate) wal_bytes: Gauge,
    pub(crate) checkpoints: Counter,
    pub(crate) halted: Gauge,
}

impl StoreMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_1, 2.0, 16));
        let metrics = Self {
            waiting: Gauge::default(),
            running: Gauge::default(),
            group_commands: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            group_seconds: Family::new_with_constructor(seconds),
            commands: Family::default(),
            failed_commands: Family::default(),
            isolated_groups: Counter::default(),
            retried_groups: Counter::default(),
            unknown_commits: Counter::default(),
            reconnects: Counter::default(),
            wal_bytes: Gauge::default(),
            checkpoints: Counter::default(),
            halted: Gauge::default(),
        };
        let store = registry.sub_registry_with_prefix("guerdon_store");
        let m = &metrics;
        store.register("waiting_commands", "Commands that wait for the committer", m.waiting.clone());
        store.register(
            "running_commands",
            "Commands of the group that is being committed",
            m.running.clone(),
        );
        store.register("group_commands", "Commands that were committed together", m.group_commands.clone());
        store.register_with_unit(
            "group",
            "From the start of a group's transaction to the end of its commit",
            Unit::Seconds,
            m.group_seconds.clone(),
        );
        store.register("commands", "Commands that were committed", m.commands.clone());
        store.register("failed_commands", "Commands that ended in a fault", m.failed_commands.clone());
        store.register(
            "isolated_groups",
            "Groups that were run again one command at a time to find a culprit",
            m.isolated_groups.clone(),
        );
        store.register(
            "retried_groups",
            "Groups that were run again after a deadlock, a serialization failure or a lost connection",
            m.retried_groups.clone(),
        );
        store.register("unknown_commits", "COMMITs whose answer was lost", m.unknown_commits.clone());
        store.register("reconnects", "Connections to the database that were made anew", m.reconnects.clone());
        store.register_with_unit("wal", "Size of SQLite's write-ahead log", Unit::Bytes, m.wal_bytes.clone());
        store.register("checkpoints", "Checkpoints of SQLite's write-ahead log", m.checkpoints.clone());
        store.register("halted", "1 after an I/O error, until the file was reopened", m.halted.clone());
        metrics
    }
}
