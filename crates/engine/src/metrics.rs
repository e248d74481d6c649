//! What the engine tells about itself.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
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
    pub(crate) coupon_holders_pending: Gauge,
    pub(crate) keys_finished: Family<OutcomeLabels, Counter>,
    pub(crate) key_seconds: Histogram,
    pub(crate) ledger_backlog: Gauge,
    pub(crate) ledger_lag_seconds: Gauge<f64, AtomicU64>,
    pub(crate) ledger_repairs: Counter,
    pub(crate) outbox_backlog: Gauge,
    pub(crate) outbox_oldest_seconds: Gauge<f64, AtomicU64>,
    pub(crate) outbox_dead: Gauge,
    pub(crate) outbox_published: Counter,
    pub(crate) outbox_published_again: Counter,
    pub(crate) outbox_refused: Counter,
    pub(crate) outbox_sink_up: Gauge,
    pub(crate) outbox_publish_seconds: Histogram,
    pub(crate) deliveries: Family<DeliveryLabels, Counter>,
    pub(crate) delivery_seconds: Histogram,
    pub(crate) provider_seconds: Family<ProviderLabels, Histogram, fn() -> Histogram>,
    pub(crate) breaker_open: Family<ServiceLabels, Gauge>,
    pub(crate) claims_ended: Family<ClaimLabels, Counter>,
    pub(crate) claim_seconds: Histogram,
    pub(crate) claim_step_seconds: Family<StepLabels, Histogram, fn() -> Histogram>,
    pub(crate) claims_waiting: Family<ServiceLabels, Gauge>,
    pub(crate) claims_overdue_seconds: Family<ServiceLabels, Gauge<f64, AtomicU64>>,
    pub(crate) claims_needing_hand: Gauge,
    pub(crate) coupons_asked: Family<IssueLabels, Counter>,
    pub(crate) coupons_waiting: Gauge,
    pub(crate) coupons_oldest_seconds: Gauge<f64, AtomicU64>,
    pub(crate) coupon_recounts: Counter,
    pub(crate) coupon_drift: Gauge,
    pub(crate) coupons_lost: Counter,
    pub(crate) allocations_waiting: Family<ProviderLabels, Gauge>,
    pub(crate) allocations_overdue_seconds: Family<ProviderLabels, Gauge<f64, AtomicU64>>,
}

/// Who delivers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ProviderLabels {
    pub(crate) provider: String,
}

/// Who counts, and what was said of a wish at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct IssueLabels {
    pub(crate) issuer: &'static str,
    pub(crate) result: &'static str,
}

/// How a claim ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ClaimLabels {
    pub(crate) status: &'static str,
}

/// Whose turn it was.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct StepLabels {
    pub(crate) step: String,
    /// Waiting for it, at it, or writing it down.
    pub(crate) part: &'static str,
}

/// A service outside.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ServiceLabels {
    pub(crate) service: String,
}

/// Who delivered, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DeliveryLabels {
    pub(crate) provider: String,
    pub(crate) outcome: &'static str,
}

fn call_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

/// What a key was for, and how the work under it ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OutcomeLabels {
    pub(crate) scope: &'static str,
    pub(crate) outcome: &'static str,
}

impl EngineMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            loop_restarts: Family::default(),
            clock_skew_seconds: Gauge::default(),
            users_not_active: Gauge::default(),
            user_index_pending: Gauge::default(),
            user_index_filter: Gauge::default(),
            coupon_holders_pending: Gauge::default(),
            keys_finished: Family::default(),
            key_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 18)),
            ledger_backlog: Gauge::default(),
            ledger_lag_seconds: Gauge::default(),
            ledger_repairs: Counter::default(),
            outbox_backlog: Gauge::default(),
            outbox_oldest_seconds: Gauge::default(),
            outbox_dead: Gauge::default(),
            outbox_published: Counter::default(),
            outbox_published_again: Counter::default(),
            outbox_refused: Counter::default(),
            outbox_sink_up: Gauge::default(),
            outbox_publish_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 18)),
            deliveries: Family::default(),
            delivery_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 22)),
            provider_seconds: Family::new_with_constructor(call_seconds),
            breaker_open: Family::default(),
            claims_ended: Family::default(),
            claim_seconds: Histogram::new(exponential_buckets(0.001, 2.0, 22)),
            claim_step_seconds: Family::new_with_constructor(call_seconds),
            claims_waiting: Family::default(),
            claims_overdue_seconds: Family::default(),
            claims_needing_hand: Gauge::default(),
            coupons_asked: Family::default(),
            coupons_waiting: Gauge::default(),
            coupons_oldest_seconds: Gauge::default(),
            coupon_recounts: Counter::default(),
            coupon_drift: Gauge::default(),
            coupons_lost: Counter::default(),
            allocations_waiting: Family::default(),
            allocations_overdue_seconds: Family::default(),
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
        engine.register(
            "coupon_holders_pending",
            "Coupons that are not yet in SQLite's index of who has which",
            m.coupon_holders_pending.clone(),
        );
        metrics.register_wallet(engine);
        metrics.register_outbox(engine);
        metrics.register_allocations(engine);
        metrics.register_claims(engine);
        metrics.register_coupons(engine);
        metrics
    }

    fn register_wallet(&self, engine: &mut Registry) {
        engine.register(
            "idempotency_keys_finished",
            "Idempotency keys whose work ended, by scope and by outcome: SUCCEEDED, or the code of the failure",
            self.keys_finished.clone(),
        );
        engine.register_with_unit(
            "idempotency_in_progress",
            "How long keys were in progress",
            Unit::Seconds,
            self.key_seconds.clone(),
        );
        engine.register(
            "ledger_backlog",
            "Transfers whose entries are not yet in the ledger, counted up to 10000",
            self.ledger_backlog.clone(),
        );
        engine.register_with_unit(
            "ledger_lag",
            "The age of the oldest of them",
            Unit::Seconds,
            self.ledger_lag_seconds.clone(),
        );
        engine.register(
            "ledger_repairs",
            "Transfers that were found without their entries and without anybody owing them",
            self.ledger_repairs.clone(),
        );
    }

    fn register_claims(&self, engine: &mut Registry) {
        engine.register(
            "claims_ended",
            "Claims that came to an end, or that need a hand, by status",
            self.claims_ended.clone(),
        );
        engine.register_with_unit(
            "claim",
            "From a claim's call to its end",
            Unit::Seconds,
            self.claim_seconds.clone(),
        );
        engine.register_with_unit(
            "claim_step",
            "How long claims waited for a step, called somebody, and were written, by step and part: waits, called, written",
            Unit::Seconds,
            self.claim_step_seconds.clone(),
        );
        engine.register(
            "claims_waiting",
            "Claims that are not at their end, by whom they wait for, counted up to 10000",
            self.claims_waiting.clone(),
        );
        engine.register_with_unit(
            "claims_overdue",
            "How long the first of them has been due",
            Unit::Seconds,
            self.claims_overdue_seconds.clone(),
        );
        engine.register(
            "claims_needing_hand",
            "Claims that could not be undone and wait for an operator, counted up to 10000",
            self.claims_needing_hand.clone(),
        );
    }

    fn register_coupons(&self, engine: &mut Registry) {
        engine.register(
            "coupons_asked",
            "Coupons that were asked for and not refused at once, by issuer and by result: ISSUED, PENDING",
            self.coupons_asked.clone(),
        );
        engine.register(
            "coupons_waiting",
            "Messages about coupons that Redis has yet to count, counted up to 10000",
            self.coupons_waiting.clone(),
        );
        engine.register_with_unit(
            "coupons_oldest",
            "The age of the oldest of them",
            Unit::Seconds,
            self.coupons_oldest_seconds.clone(),
        );
        engine.register(
            "coupon_recounts",
            "How often this process counted a coupon in Redis anew, from the store",
            self.coupon_recounts.clone(),
        );
        engine.register(
            "coupon_drift",
            "By how many Redis and the store disagree, over all coupons, beyond what is under way",
            self.coupon_drift.clone(),
        );
        engine.register(
            "coupons_lost",
            "Issues that this process accepted and Redis lost before the store had them; the log names them",
            self.coupons_lost.clone(),
        );
    }

    fn register_allocations(&self, engine: &mut Registry) {
        engine.register(
            "deliveries",
            "Tries to deliver a reward, by provider and by outcome: SUCCESS, FAILED, FAILED_FINAL, CANCELLED",
            self.deliveries.clone(),
        );
        engine.register_with_unit(
            "delivery",
            "From winning a reward to its delivery",
            Unit::Seconds,
            self.delivery_seconds.clone(),
        );
        engine.register_with_unit(
            "provider_call",
            "How long a delivery's calls took, by provider",
            Unit::Seconds,
            self.provider_seconds.clone(),
        );
        engine.register(
            "breaker_open",
            "1 while a service outside is left alone because it does not work: a provider by its name, or auth, gameData",
            self.breaker_open.clone(),
        );
        engine.register(
            "allocations_waiting",
            "Rewards that are yet to be delivered, by provider, counted up to 10000",
            self.allocations_waiting.clone(),
        );
        engine.register_with_unit(
            "allocations_overdue",
            "How long the first of them has been due",
            Unit::Seconds,
            self.allocations_overdue_seconds.clone(),
        );
    }

    fn register_outbox(&self, engine: &mut Registry) {
        engine.register(
            "outbox_backlog",
            "Messages that are yet to be sent, counted up to 10000",
            self.outbox_backlog.clone(),
        );
        engine.register_with_unit(
            "outbox_oldest",
            "The age of the oldest of them",
            Unit::Seconds,
            self.outbox_oldest_seconds.clone(),
        );
        engine.register(
            "outbox_dead",
            "Messages that were refused too often, counted up to 10000",
            self.outbox_dead.clone(),
        );
        engine.register(
            "outbox_published",
            "Messages that the sink confirmed",
            self.outbox_published.clone(),
        );
        engine.register(
            "outbox_published_again",
            "Messages among them that another process had noted as sent before",
            self.outbox_published_again.clone(),
        );
        engine.register(
            "outbox_refused",
            "Attempts to publish a message that the sink refused",
            self.outbox_refused.clone(),
        );
        engine.register(
            "outbox_sink_up",
            "1 when the sink took what it was last given",
            self.outbox_sink_up.clone(),
        );
        engine.register_with_unit(
            "outbox_publish",
            "From a message's transaction to the sink's confirmation",
            Unit::Seconds,
            self.outbox_publish_seconds.clone(),
        );
    }
}
