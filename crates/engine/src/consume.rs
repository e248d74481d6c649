//! The consumer: takes events from a broker, handles each, records it in a store of its own, and only then settles it.
//!
//! What happens in its store happens once, in one transaction with the record of the event. What a handler does outside
//! may happen again after a crash, under the same id.

use crate::clock::Clock;
use crate::entropy::Entropy;
use crate::trace::{self, OpenSpan, SpanKind, Traces};
use futures_util::StreamExt;
use guerdon_core::outbox::backoff_ms;
use guerdon_core::outbox::envelope::{self, Received};
use guerdon_store::outbox::processed::{self, Notification};
use guerdon_store::{Command, Fault, Priority, Stopwatch, Store, Tx, each};
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
pub type Releases<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
pub type Handles<'a> = Pin<Box<dyn Future<Output = Handled> + Send + 'a>>;

/// Where events come from. Whatever is taken and not settled comes again.
pub trait Source: Send + Sync + 'static {
    /// Waits for one at least; connects first where it is not.
    fn take(&self) -> Takes<'_>;

    fn settle(&self, settled: Vec<(u64, Settled)>) -> Settles<'_>;

    /// How long something may be held without being settled.
    fn patience(&self) -> Duration;

    /// Gives back what was taken and is not settled; it comes again.
    fn release(&self) -> Releases<'_>;
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

impl Handled {
    fn failure(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Refused { reason } | Self::Later { reason, .. } => Some(reason.clone()),
        }
    }
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
    traces: Traces,
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
        traces: Traces,
    ) -> Self {
        Self { store, clock, source, handler, options, traces }
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
            let taken = batch.len();
            let settled = self.work_off(batch, &mut stop, &mut consumed).await;
            let all = settled.len() == taken;
            if let Err(reason) = self.source.settle(settled).await {
                // They come again and are recognised.
                tracing::warn!(reason, "what was handled could not be acknowledged");
            }
            if !all {
                self.source.release().await;
            }
        }
    }

    /// Handles and records a batch: what can be settled of it, which is all unless it was told to stop, or had to wait for
    /// longer than the broker would.
    async fn work_off(
        &self,
        batch: Vec<Delivery>,
        stop: &mut watch::Receiver<bool>,
        consumed: &mut Consumed,
    ) -> Vec<(u64, Settled)> {
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
        let Some(mut known) = self.known(ids, stop).await else { return settled };
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
        let mut done = Vec::new();
        for (opened, outcome) in handled.into_iter().flatten() {
            match outcome {
                Some(Settled::Done) => {
                    let id = Entropy.request_id(self.clock.now());
                    let recipient = recipient(&opened.event);
                    done.push((
                        opened.tag,
                        Notification { id: *id.as_bytes(), event: opened.event, recipient },
                    ));
                }
                Some(Settled::Dead) => {
                    consumed.dead += 1;
                    settled.push((opened.tag, Settled::Dead));
                }
                None => {}
            }
        }
        // Recorded before it is acknowledged, also by one that is told to stop.
        let recorded = self.record(done, stop).await;
        for (_, outcome) in &recorded {
            match outcome {
                Settled::Done => consumed.handled += 1,
                Settled::Dead => consumed.dead += 1,
            }
        }
        settled.extend(recorded);
        settled
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

    /// Handles an event, trying again as often as it takes or may; None when it is told to stop, or the broker
    /// would not wait any longer.
    async fn handle(&self, opened: &Opened, stop: &mut watch::Receiver<bool>) -> Option<Settled> {
        let Received { id: event_id, event_type, .. } = &opened.event;
        let mut attempts = 0;
        let begun = Stopwatch::start();
        loop {
            let span =
                self.traces.within(opened.event.trace, SpanKind::Consumer, || format!("handle {event_type}"));
            let within = span.as_ref().map(OpenSpan::trace).or(opened.event.trace);
            let handled = trace::within(within, self.handler.handle(&opened.event, &opened.body)).await;
            if let Some(mut span) = span {
                span.text("messaging.message.id", event_id.as_str());
                span.end(handled.failure());
            }
            let pause = match handled {
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
            if begun.elapsed() + pause > self.source.patience() {
                return None;
            }
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

    /// Records what was done, all in one transaction. One that the store refuses for itself is tried alone, and is dead in the
    /// end.
    async fn record(
        &self,
        done: Vec<(u64, Notification)>,
        stop: &mut watch::Receiver<bool>,
    ) -> Vec<(u64, Settled)> {
        let tags: Vec<_> = done.iter().map(|(tag, _)| *tag).collect();
        let done: Vec<_> = done.into_iter().map(|(_, done)| Arc::new(done)).collect();
        match self.record_all(done.clone(), stop).await {
            Recorded::Done => return tags.into_iter().map(|tag| (tag, Settled::Done)).collect(),
            Recorded::Stopped => return Vec::new(),
            Recorded::Refused => {}
        }
        let mut recorded = Vec::new();
        for (tag, one) in tags.into_iter().zip(done) {
            let mut attempts = 0;
            let outcome = loop {
                match self.record_all(vec![Arc::clone(&one)], stop).await {
                    Recorded::Done => break Settled::Done,
                    Recorded::Stopped => return recorded,
                    Recorded::Refused => attempts += 1,
                }
                if attempts >= self.options.max_attempts {
                    tracing::error!(
                        event_id = one.event.id,
                        "an event cannot be recorded and is put among the dead"
                    );
                    break Settled::Dead;
                }
                let millis = u64::try_from(backoff_ms(attempts, Entropy.number())).unwrap_or(0);
                if tokio::time::timeout(Duration::from_millis(millis), stop.wait_for(|stop| *stop))
                    .await
                    .is_ok()
                {
                    return recorded;
                }
            };
            recorded.push((tag, outcome));
        }
        recorded
    }

    async fn record_all(&self, done: Vec<Arc<Notification>>, stop: &mut watch::Receiver<bool>) -> Recorded {
        if done.is_empty() {
            return Recorded::Done;
        }
        let recorded = self.insist(stop, || {
            let record = Record { consumer: self.options.name.clone(), done: done.clone() };
            async move {
                match flat(self.store.submit(record)).await {
                    Ok(()) => Ok(true),
                    Err(fault @ (Fault::Statement(_) | Fault::Inconsistent(_))) => {
                        tracing::warn!(%fault, "what was handled could not be recorded");
                        Ok(false)
                    }
                    Err(fault) => Err(fault),
                }
            }
        });
        match recorded.await {
            Some(true) => Recorded::Done,
            Some(false) => Recorded::Refused,
            None => Recorded::Stopped,
        }
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
        let forget = || Forget { consumer: self.options.name.clone(), before };
        while flat(self.store.submit(forget())).await.is_ok_and(|gone| gone >= CHUNK.unsigned_abs()) {}
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
    // A database that has no NUL in its texts refuses the whole of it.
    user.as_str().filter(|user| !user.contains('\0')).map(str::to_owned)
}

enum Recorded {
    Done,
    /// By the store, for what it is.
    Refused,
    Stopped,
}

struct Record {
    consumer: String,
    done: Vec<Arc<Notification>>,
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
    consumer: String,
    before: guerdon_core::Timestamp,
}

impl Command for Forget {
    type Output = u64;
    const NAME: &'static str = "forget_processed";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<u64>, Fault> {
        each(batch, |forget| processed::forget(tx, &forget.consumer, forget.before, CHUNK))
    }
}
