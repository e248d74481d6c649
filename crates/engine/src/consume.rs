//! The consumer: takes events from a broker, handles each, records it in a store of its own, and only then settles it.
//!
//! What happens in its store happens once, in one transaction with the record of the event. What a handler does outside
//! may happen again after a crash, under the same id.

use crate::clock::Clock;
use crate::entropy::Entropy;
use futures_util::StreamExt;
use guerdon_core::outbox::backoff_ms;
use guerdon_core::outbox::envelope::{self, Received};
use guerdon_store::outbox::processed::{self, Notification};
use guerdon_store::{Command, Fault, Priority, Store, Tx, each};
use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Aggregates whose events are handled at the same time.
const AT_ONCE: usize = 16;
/// Between two tries of what is away for the moment.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// Records that one transaction forgets.
const CHUNK: i64 = 500;
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Something that was taken from a broker, to be settled under its tag.
#[derive(Clone, Debug)]
pub struct Delivery {
    pub tag: u64,
    pub body: Vec<u8>,
}

/// What the broker is told of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It can be forgotten.
    Done,
    /// Nobody can handle it: to be kept apart.
    Dead,
}

pub type Takes<'a> = Pin<Box<dyn Future<Output = Result<Vec<Delivery>, String>> + Send + 'a>>;
pub type Settles<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;
pub type Handles<'a> = Pin<Box<dyn Future<Output = Handled> + Send + 'a>>;

/// Where events come from. Whatever is taken and not settled comes again.
pub trait Source: Send + Sync + 'static {
    /// Waits for one at least; connects first where it is not.
    fn take(&self) -> Takes<'_>;

    fn settle(&self, settled: Vec<(u64, Settled)>) -> Settles<'_>;
}

/// How a handler fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    Done,
    /// This event is not to its liking.
    Refused {
        reason: String,
    },
    /// It can do nothing at the moment.
    Later {
        reason: String,
        retry_after: Option<Duration>,
    },
}

/// What is done about an event, outside of our store.
pub trait Handler: Send + Sync + 'static {
    fn handle<'a>(&'a self, event: &'a Received, body: &'a [u8]) -> Handles<'a>;
}

/// Writes each event to the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogHandler;

impl Handler for LogHandler {
    fn handle<'a>(&'a self, event: &'a Received, _body: &'a [u8]) -> Handles<'a> {
        let recipient = recipient(event);
        tracing::info!(
            event_id = event.id,
            event_type = event.event_type,
            subject = event.subject,
            recipient,
            "notified"
        );
        Box::pin(std::future::ready(Handled::Done))
    }
}

#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// Under which events are recorded as handled.
    pub name: String,
    /// Refusals after which an event is dead.
    pub max_attempts: i64,
    /// How long it is remembered that an event was handled.
    pub ttl: Duration,
}

/// What a consumer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consumed {
    pub handled: u64,
    /// Had been handled before.
    pub again: u64,
    pub dead: u64,
}

pub struct Consumer {
    store: Store,
    clock: Arc<Clock>,
    source: Arc<dyn Source>,
    handler: Arc<dyn Handler>,
    options: ConsumerOptions,
}

/// One delivery that makes sense.
struct Opened {
    tag: u64,
    event: Received,
    body: Vec<u8>,
}

impl Consumer {
    pub fn new(
        store: Store,
        clock: Arc<Clock>,
        source: Arc<dyn Source>,
        handler: Arc<dyn Handler>,
        options: ConsumerOptions,
    ) -> Self {
        Self { store, clock, source, handler, options }
    }

    /// Consumes until it is told to stop; what it has taken and not handled by then comes again.
    pub async fn run(&self, mut stop: watch::Receiver<bool>) -> Consumed {
        let mut consumed = Consumed::default();
        let mut trouble = 0_u32;
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            let taken = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => return consumed,
                _ = sweep.tick() => { self.forget().await; continue }
                taken = self.source.take() => taken,
            };
            let batch = match taken {
                Ok(batch) => batch,
                Err(reason) => {
                    if trouble == 0 {
                        tracing::warn!(reason, "the broker is away; trying again");
                    }
                    trouble = trouble.saturating_add(1);
                    let _ = tokio::time::timeout(PAUSE, stop.wait_for(|stop| *stop)).await;
                    continue;
                }
            };
            if std::mem::take(&mut trouble) > 0 {
                tracing::info!("the broker is back");
            }
            let Some(settled) = self.work_off(batch, &mut stop, &mut consumed).await else { return consumed };
            if let Err(reason) = self.source.settle(settled).await {
                // They come again and are recognised.
                tracing::warn!(reason, "what was handled could not be acknowledged");
            }
        }
    }

    /// Handles and records a batch; None when it was told to stop before that was done.
    async fn work_off(
        &self,
        batch: Vec<Delivery>,
        stop: &mut watch::Receiver<bool>,
        consumed: &mut Consumed,
    ) -> Option<Vec<(u64, Settled)>> {
        let mut settled = Vec::with_capacity(batch.len());
        let mut opened = Vec::with_capacity(batch.len());
        for Delivery { tag, body } in batch {
            match envelope::open(&body) {
                Ok(event) => opened.push(Opened { tag, event, body }),
                Err(reason) => {
                    tracing::error!(reason, "a message makes no sense and is put among the dead");
                    consumed.dead += 1;
                    settled.push((tag, Settled::Dead));
                }
            }
        }
        let ids: Vec<_> = opened.iter().map(|opened| opened.event.id.clone()).collect();
        let mut known = self.known(ids, stop).await?;
        // Each aggregate's events one after the other, those of different aggregates side by side.
        let mut by_aggregate: BTreeMap<String, Vec<Opened>> = BTreeMap::new();
        for opened in opened {
            if known.insert(opened.event.id.clone()) {
                by_aggregate.entry(opened.event.subject.clone()).or_default().push(opened);
            } else {
                consumed.again += 1;
                settled.push((opened.tag, Settled::Done));
            }
        }
        let handling = by_aggregate.into_values().map(|events| self.handle_all(events, stop.clone()));
        let handled: Vec<_> = futures_util::stream::iter(handling).buffer_unordered(AT_ONCE).collect().await;
        let stopped = handled.iter().flatten().any(|(_, outcome)| outcome.is_none());
        let mut done = Vec::new();
        for (opened, outcome) in handled.into_iter().flatten() {
            match outcome {
                Some(Settled::Done) => {
                    settled.push((opened.tag, Settled::Done));
                    let id = Entropy.request_id(self.clock.now());
                    let recipient = recipient(&opened.event);
                    done.push(Notification { id: *id.as_bytes(), event: opened.event, recipient });
                }
                Some(Settled::Dead) => {
                    consumed.dead += 1;
                    settled.push((opened.tag, Settled::Dead));
                }
                None => {}
            }
        }
        // Recorded before it is acknowledged; what was handled is recorded also by one that is told to stop.
        consumed.handled += u64::try_from(done.len()).unwrap_or(0);
        self.record(done, stop).await?;
        if stopped {
            // Only what was done; the rest comes again.
            if let Err(reason) = self.source.settle(settled).await {
                tracing::warn!(reason, "what was handled could not be acknowledged");
            }
            return None;
        }
        Some(settled)
    }

    async fn handle_all(
        &self,
        events: Vec<Opened>,
        mut stop: watch::Receiver<bool>,
    ) -> Vec<(Opened, Option<Settled>)> {
        let mut handled: Vec<(Opened, Option<Settled>)> = Vec::with_capacity(events.len());
        for opened in events {
            let earlier_failed = handled.last().is_some_and(|(_, outcome)| outcome.is_none());
            let outcome = if earlier_failed { None } else { self.handle(&opened, &mut stop).await };
            handled.push((opened, outcome));
        }
        handled
    }

    /// Handles an event, trying again as often as it takes or may; None when it is told to stop.
    async fn handle(&self, opened: &Opened, stop: &mut watch::Receiver<bool>) -> Option<Settled> {
        let Received { id: event_id, event_type, .. } = &opened.event;
        let mut attempts = 0;
        loop {
            let pause = match self.handler.handle(&opened.event, &opened.body).await {
                Handled::Done => return Some(Settled::Done),
                Handled::Refused { reason } => {
                    attempts += 1;
                    if attempts >= self.options.max_attempts {
                        tracing::error!(
                            event_id,
                            event_type,
                            attempts,
                            reason,
                            "an event is put among the dead"
                        );
                        return Some(Settled::Dead);
                    }
                    tracing::warn!(
                        event_id,
                        event_type,
                        attempts,
                        reason,
                        "an event was refused; trying again"
                    );
                    let millis = backoff_ms(attempts, Entropy.number());
                    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
                }
                Handled::Later { reason, retry_after } => {
                    tracing::warn!(event_id, event_type, reason, "nobody can be notified for the moment");
                    retry_after.unwrap_or(PAUSE)
                }
            };
            let stopped = stop.wait_for(|stop| *stop);
            if tokio::time::timeout(pause.min(PAUSE_MAX), stopped).await.is_ok() {
                return None;
            }
        }
    }

    /// Which of these were handled before.
    async fn known(&self, ids: Vec<String>, stop: &mut watch::Receiver<bool>) -> Option<HashSet<String>> {
        let name = self.options.name.clone();
        let look = move |tx: &mut Tx<'_>| processed::find(tx, &name, &ids);
        self.insist(stop, || {
            let look = look.clone();
            async move { flat(self.store.read(look)).await }
        })
        .await
        .map(|found| found.into_iter().collect())
    }

    async fn record(&self, done: Vec<Notification>, stop: &mut watch::Receiver<bool>) -> Option<()> {
        if done.is_empty() {
            return Some(());
        }
        let done = Arc::new(done);
        self.insist(stop, || {
            let record = Record { consumer: self.options.name.clone(), done: Arc::clone(&done) };
            async move { flat(self.store.submit(record)).await }
        })
        .await
    }

    /// Tries until the store does it; None when it is told to stop before.
    async fn insist<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        stop: &mut watch::Receiver<bool>,
        call: impl Fn() -> F,
    ) -> Option<T> {
        loop {
            match call().await {
                Ok(value) => return Some(value),
                Err(fault) => tracing::warn!(%fault, "the consumer's store does not answer; trying again"),
            }
            if tokio::time::timeout(PAUSE, stop.wait_for(|stop| *stop)).await.is_ok() {
                return None;
            }
        }
    }

    /// Forgets what was handled long ago.
    async fn forget(&self) {
        let ttl = i64::try_from(self.options.ttl.as_millis()).unwrap_or(i64::MAX);
        let before = self.clock.now().plus_millis(-ttl);
        while flat(self.store.submit(Forget { before })).await.is_ok_and(|gone| gone >= CHUNK.unsigned_abs())
        {
        }
    }

    /// Ends the store's threads. Blocks.
    pub fn close(&self) {
        self.store.close();
    }
}

async fn flat<T>(
    pending: Result<tokio::sync::oneshot::Receiver<Result<T, Fault>>, Fault>,
) -> Result<T, Fault> {
    pending?.await.unwrap_or(Err(Fault::OutcomeUnknown))
}

/// Whom an event is about.
fn recipient(event: &Received) -> Option<String> {
    let data: serde_json::Value = serde_json::from_str(&event.data).ok()?;
    let user = data.get("userId").or_else(|| data.get("memberId"))?;
    user.as_str().map(str::to_owned)
}

struct Record {
    consumer: String,
    done: Arc<Vec<Notification>>,
}

impl Command for Record {
    type Output = ();
    const NAME: &'static str = "record_processed";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |record| {
            record.done.iter().try_for_each(|done| processed::record(tx, &record.consumer, done).map(drop))
        })
    }
}

struct Forget {
    before: guerdon_core::Timestamp,
}

impl Command for Forget {
    type Output = u64;
    const NAME: &'static str = "forget_processed";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<u64>, Fault> {
        each(batch, |forget| processed::forget(tx, forget.before, CHUNK))
    }
}
