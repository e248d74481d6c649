//! What the engine tells about itself.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct LoopLabels {
    pub(crate) name: &'static str,
}

#[derive(Clone, Debug)]
pub struct EngineMetrics {
    pub(crate) loop_restarts: Family<LoopLabels, Counter>,
    pub(crate) clock_skew_seconds: Gauge<f64, AtomicU64>,
    pub(crate) users_not_active: Gauge,
    pub(crate) user_index_pending: Gauge,
    pub(crate) user_index_filter: Gauge,
}

impl EngineMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            loop_restarts: Family::default(),
            clock_skew_seconds: Gauge::default(),
            users_not_active: Gauge::default(),
            user_index_pending: Gauge::default(),
            user_index_filter: Gauge::default(),
        };
        let engine = registry.sub_registry_with_prefix("guerdon");
        let m = &metrics;
        engine.register(
            "loop_restarts",
            "Background loops that panicked and were started again",
            m.loop_restarts.clone(),
        );
        engine.register_with_unit(
            "clock_skew",
            "How far this machine's clock is behind the database's",
            Unit::Seconds,
            m.clock_skew_seconds.clone(),
        );
        engine.register(
            "users_not_active",
            "Users that are refused because of their status",
            m.users_not_active.clone(),
        );
        engine.register(
            "user_index_pending",
            "People in line who are not yet in SQLite's user index",
            m.user_index_pending.clone(),
        );
        engine.register(
            "user_index_filter",
            "1 once newcomers need no look-up in SQLite's user index",
            m.user_index_filter.clone(),
        );
        metrics
    }
}
