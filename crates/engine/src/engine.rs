//! The engine: the store, the clock, what is kept in memory, and the loops.

use crate::allocations::{AllocationOptions, Deliveries, Provider};
use crate::claims::{ClaimOptions, ClaimServices, Claims};
use crate::clock::Clock;
use crate::coupons::{CouponCounter, CouponOptions, CouponProvider, Coupons};
use crate::draws::UnderWay;
use crate::entropy::Entropy;
use crate::failure::Failure;
use crate::idempotency::{KeyOptions, Keys};
use crate::loops::Loops;
use crate::metrics::EngineMetrics;
use crate::outbox::{OutboxOptions, Publisher, Sink};
use crate::pace::Paces;
use crate::requests::{Intake, Watch};
use crate::trace::{self, OpenSpan, SpanKind, Traces};
use crate::users::{UnknownUsers, UserBook};
use crate::wallet::Desk;
use guerdon_core::Timestamp;
use guerdon_core::draw::Secret;
use guerdon_core::requests::RequestId;
use guerdon_core::wallet::timed_out;
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Engine as Database, Fault, Store, Tx};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a caller waits for the store. A commit that takes longer has an outcome that we do not know.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the registry's changes are looked at: well within the second that they may be late.
const USERS_INTERVAL: Duration = Duration::from_millis(250);
const DATABASE_CLOCK_INTERVAL: Duration = Duration::from_secs(5);
const USER_INDEX_INTERVAL: Duration = Duration::from_millis(200);
const CANCELLED_INTERVAL: Duration = Duration::from_millis(500);
const DRAWS_INTERVAL: Duration = Duration::from_millis(200);
/// How many documents of draws are begun at the same time.
const DOCUMENTS_AT_ONCE: usize = 2;
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// An event's pace is counted in whole seconds.
const PACES_INTERVAL: Duration = Duration::from_millis(500);
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);
/// The ledger's loop waits for news by itself.
const LEDGER_PAUSE: Duration = Duration::from_millis(1);
const MISSING_INTERVAL: Duration = Duration::from_secs(1);
const FIGURES_INTERVAL: Duration = Duration::from_secs(1);
/// The publisher's loops wait for news by themselves.
const PUBLISHER_PAUSE: Duration = Duration::ZERO;

#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    pub unknown_users: UnknownUsers,
    /// How long requests are kept after they ended, and after their event's end.
    pub requests_ttl: Duration,
    pub requests_ttl_after_event: Duration,
    pub allocations: AllocationOptions,
    pub claims: ClaimOptions,
    pub coupons: CouponOptions,
    pub keys: KeyOptions,
    pub outbox: OutboxOptions,
}

/// Services that the engine works with.
#[derive(Default)]
pub struct Outside {
    /// Where messages are published to, if anywhere.
    pub sink: Option<Arc<dyn Sink>>,
    /// Who delivers rewards, beside the wallet.
    pub providers: Vec<Arc<dyn Provider>>,
    /// Whom claims ask, where it is not the house.
    pub services: ClaimServices,
    /// Who counts coupons, where it is not the store alone.
    pub counter: Option<Arc<dyn CouponCounter>>,
    /// Who keeps what happened when.
    pub traces: Traces,
}

pub struct Engine {
    store: Store,
    clock: Arc<Clock>,
    entropy: Entropy,
    pub(crate) metrics: EngineMetrics,
    pub(crate) users: UserBook,
    intake: Arc<Intake>,
    pub(crate) watch: Watch,
    pub(crate) paces: Paces,
    pub(crate) draws: UnderWay,
    pub(crate) keys: Arc<Keys>,
    pub(crate) desk: Arc<Desk>,
    /// Where messages are published to somewhere.
    pub(crate) publisher: Option<Publisher>,
    pub(crate) deliveries: Arc<Deliveries>,
    pub(crate) claims: Arc<Claims>,
    pub(crate) coupons: Arc<Coupons>,
    /// Whom rows belong to that this process has taken up.
    worker_id: String,
    /// Held by whoever works out a draw's winners again.
    pub(crate) documents: tokio::sync::Semaphore,
    /// Held by whoever runs an audit.
    pub(crate) auditing: tokio::sync::Mutex<()>,
    pub(crate) options: EngineOptions,
    pub(crate) traces: Traces,
    loops: Loops,
}

impl Engine {
    /// Reads what has to be in memory and starts the loops.
    pub async fn start(
        store: Store,
        clock: Arc<Clock>,
        options: EngineOptions,
        outside: Outside,
        metrics: EngineMetrics,
    ) -> Result<Arc<Self>, Failure> {
        let users = UserBook::new(options.unknown_users);
        let loops = Loops::default();
        let Outside { sink, mut providers, services, counter, traces } = outside;
        let coupon_provider = Arc::new(CouponProvider::default());
        providers.push(Arc::clone(&coupon_provider) as Arc<dyn Provider>);
        let coupons = Arc::new(Coupons::new(options.coupons, counter));
        let publishing = if sink.is_some() { Publishing::Broker } else { Publishing::Nobody };
        let deliveries = Arc::new(Deliveries::new(options.allocations, providers));
        let claims = Claims::new(options.claims, options.unknown_users, services, &deliveries);
        let intake = Arc::new(Intake::new(&options, store.engine(), publishing, Arc::clone(&deliveries)));
        let (watch, draws) = (Watch::default(), UnderWay::default());
        let keys = Arc::new(Keys::new(options.keys, metrics.clone(), timed_out));
        let desk = Arc::new(Desk::new(Arc::clone(&keys), publishing));
        let worker_id = Entropy.id(clock.now());
        let publisher = sink.map(|sink| Publisher::new(sink, worker_id.clone(), store.news()));
        let engine = Arc::new(Self {
            store,
            clock,
            entropy: Entropy,
            metrics,
            users,
            intake,
            watch,
            paces: Paces::default(),
            draws,
            keys,
            desk,
            publisher,
            deliveries,
            claims: Arc::new(claims),
            coupons,
            worker_id,
            documents: tokio::sync::Semaphore::new(DOCUMENTS_AT_ONCE),
            auditing: tokio::sync::Mutex::default(),
            options,
            traces,
            loops,
        });
        coupon_provider.belongs_to(&engine);
        if engine.store.engine() == Database::Postgres {
            // Before anything is decided by a time.
            engine.follow_database_clock().await?;
        }
        engine.refresh_users().await?;
        engine.load_user_index().await?;
        engine.load_coupon_holders().await?;
        engine.write_indexes_later();
        engine.every("cancelled_lines", CANCELLED_INTERVAL, |engine| async move {
            engine.end_cancelled_lines().await;
            engine.end_cancelled_allocations().await;
        });
        engine.every(
            "retries",
            CANCELLED_INTERVAL,
            |engine| async move { engine.go_on_with_retries().await },
        );
        engine.start_deliveries();
        engine.start_claims();
        engine.start_coupons();
        engine.every("missing_providers", MISSING_INTERVAL, Self::find_missing_providers);
        engine.every("draws", DRAWS_INTERVAL, Self::advance_draws);
        engine.every("paces", PACES_INTERVAL, |engine| async move { engine.look_at_paces().await });
        engine.every("watch", WATCH_INTERVAL, |engine| async move { engine.look_at_watched_lines().await });
        engine.every(
            "requests_sweeper",
            SWEEP_INTERVAL,
            |engine| async move { engine.sweep_requests().await },
        );
        engine.every("wallet_watchdog", options.keys.watchdog_interval, |engine| async move {
            engine.end_overdue_keys().await;
        });
        engine.every("idempotency_sweeper", SWEEP_INTERVAL, |engine| async move {
            engine.forget_old_keys().await;
        });
        if engine.publisher.is_some() {
            engine.every("publisher", PUBLISHER_PAUSE, Self::publish_some);
            engine.every("outbox_bell", PUBLISHER_PAUSE, Self::ring_others);
        }
        engine.every("outbox_sweeper", SWEEP_INTERVAL, |engine| async move { engine.sweep_outbox().await });
        engine.every("ledger", LEDGER_PAUSE, Self::catch_up_ledger);
        engine.every("ledger_repair", FIGURES_INTERVAL, |engine| async move { engine.repair_ledger().await });
        engine.every("figures", FIGURES_INTERVAL, |engine| async move { engine.take_figures().await });
        engine.every("users", USERS_INTERVAL, |engine| async move {
            if let Err(failure) = engine.refresh_users().await {
                tracing::debug!(%failure, "the user registry could not be read");
            }
        });
        if engine.store.engine() == Database::Postgres {
            engine.every("database_clock", DATABASE_CLOCK_INTERVAL, |engine| async move {
                if let Err(failure) = engine.follow_database_clock().await {
                    tracing::debug!(%failure, "the database's clock could not be read");
                }
            });
        }
        Ok(engine)
    }

    /// Runs a step of the engine again and again, for as long as the engine is there.
    pub(crate) fn every<F>(
        self: &Arc<Self>,
        name: &'static str,
        pause: Duration,
        step: impl Fn(Arc<Self>) -> F + Send + Sync + Clone + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let weak = Arc::downgrade(self);
        self.loops.every(name, pause, &self.metrics, move || {
            let work = weak.upgrade().map(&step);
            async move {
                if let Some(work) = work {
                    work.await;
                }
            }
        });
    }

    /// Runs something that goes on by itself, and again when it panics.
    pub(crate) fn spawn_watched<F>(
        &self,
        name: &'static str,
        run: impl Fn() -> F + Send + Sync + Clone + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        self.loops.every(name, Duration::ZERO, &self.metrics, run);
    }

    /// SQLite's indexes in the users' order.
    fn write_indexes_later(self: &Arc<Self>) {
        self.every(
            "user_index",
            USER_INDEX_INTERVAL,
            |engine| async move { engine.merge_user_index().await },
        );
        self.every("coupon_holders", USER_INDEX_INTERVAL, |engine| async move {
            engine.merge_coupon_holders().await;
        });
    }

    /// Makes spans of what is done.
    pub fn traces(&self) -> &Traces {
        &self.traces
    }

    pub(crate) fn worker_id(&self) -> &str {
        &self.worker_id
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn new_id(&self) -> String {
        self.entropy.id(self.now())
    }

    pub(crate) fn new_request_id(&self) -> RequestId {
        self.entropy.request_id(self.now())
    }

    /// The same for anything else that is made once.
    pub(crate) fn new_resource(&self) -> [u8; 16] {
        *self.new_request_id().as_bytes()
    }

    /// For chance that nothing depends on.
    pub(crate) fn random(&self) -> u64 {
        self.entropy.number()
    }

    pub(crate) fn new_secret(&self) -> Secret {
        Secret::new(self.entropy.bytes())
    }

    pub(crate) fn intake(&self) -> &Arc<Intake> {
        &self.intake
    }

    /// For a command that has to know what time it is once it holds what it waited for.
    pub(crate) fn clock_handle(&self) -> Arc<Clock> {
        Arc::clone(&self.clock)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Commits a command and waits until it is durable.
    pub(crate) async fn commit<C: Command>(&self, command: C) -> Result<C::Output, Failure> {
        let span = self.commit_span::<C>();
        let pending = self.store.submit(command)?;
        let outcome = match tokio::time::timeout(STORE_TIMEOUT, pending).await {
            Ok(Ok(outcome)) => outcome,
            // The committer is gone without an answer, or slower than anyone would wait.
            Ok(Err(_)) | Err(_) => Err(Fault::OutcomeUnknown),
        };
        trace::end(span, || outcome.as_ref().err().map(ToString::to_string));
        Ok(outcome?)
    }

    /// The same without a limit of its own, for what goes on whether or not anybody waits for it.
    pub(crate) async fn commit_patiently<C: Command>(&self, command: C) -> Result<C::Output, Failure> {
        let span = self.commit_span::<C>();
        let outcome = self.store.submit(command)?.await.unwrap_or(Err(Fault::OutcomeUnknown));
        trace::end(span, || outcome.as_ref().err().map(ToString::to_string));
        Ok(outcome?)
    }

    fn commit_span<C: Command>(&self) -> Option<OpenSpan> {
        self.traces.within(trace::current(), SpanKind::Internal, || format!("commit {}", C::NAME))
    }

    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Failure> {
        answer_of(self.store.read(read)?).await
    }

    /// Reads ahead of whatever callers have asked for: what the house itself needs to go on.
    pub(crate) async fn read_first<T: Send + 'static>(
        &self,
        read: impl Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Failure> {
        answer_of(self.store.read_first(read)?).await
    }

    /// Ends the loops, commits what waits and closes the store. Blocks.
    pub fn close(&self) {
        self.loops.stop();
        self.store.close();
    }
}

async fn answer_of<T>(pending: oneshot::Receiver<Result<T, Fault>>) -> Result<T, Failure> {
    match tokio::time::timeout(STORE_TIMEOUT, pending).await {
        Ok(Ok(outcome)) => Ok(outcome?),
        Ok(Err(_)) => Err(Fault::Stopping.into()),
        Err(_) => Err(Fault::TimedOut("no reader was free".into()).into()),
    }
}
