//! The publisher: holds shards, takes each aggregate's oldest unsent message, hands it to the sink, notes what became of it.
//!
//! A lease on a shard is committed before anything of it is published, and renewed well before it ends. No transaction is
//! open while the sink is waited for. A message that the sink has confirmed is noted as sent; if that is lost, it is
//! published again.

use super::port::{Away, Published, Sink, Time, Verdict};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::trace::{OpenSpan, SpanKind};
use guerdon_core::Timestamp;
use guerdon_core::outbox::{Message, MessageId, backoff_ms, share};
use guerdon_store::outbox::publishing::Place;
use guerdon_store::outbox::{disabled, publishing, shards};
use guerdon_store::{Command, Fault, Intake, Priority, Stopwatch, Tx, each, ring_others};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, watch};

/// Messages that are handed over at once, and noted in one transaction.
const BATCH: usize = 512;
/// How often all that is unsent is looked through for what nobody rang for.
const REST: Duration = Duration::from_secs(1);
/// Between such looks only messages of the last minute are looked for: before them an index may be full of the remains of
/// what was sent.
const RECENT_MS: i64 = 60_000;
/// Other processes are rung for at the most this often.
const RING_PAUSE: Duration = Duration::from_millis(5);
/// A sink that is away is tried again after this, and then after twice as long each time.
const AWAY_FIRST: Duration = Duration::from_millis(100);
const AWAY_MAX: Duration = Duration::from_secs(5);
/// People come faster than they are let in when the intake's groups are larger than this, and there are so many a second.
const CALM_GROUP: u64 = 8;
const CALM_RATE: u128 = 2_500;
/// In a surge the publisher rests up to so many times as long as it worked, and no longer than that.
const SURGE_RESTS: u64 = 9;
const SURGE_REST_MAX: Duration = Duration::from_secs(1);
/// No sink can ask for more than this.
const RETRY_AFTER_MAX: Duration = Duration::from_hours(1);

pub(crate) struct Publisher {
    pub(super) sink: Arc<dyn Sink>,
    worker: String,
    state: Mutex<State>,
    /// Whether other processes may hold shards.
    others: AtomicBool,
    stopping: watch::Sender<bool>,
}

/// What the publisher's loop knows.
struct State {
    news: watch::Receiver<u64>,
    held: Vec<i64>,
    /// When the shards were last asked for, just before that.
    held_since: Option<Stopwatch>,
    /// When all that is unsent was last looked through, and how far that has come if it is not done.
    looked: Option<Stopwatch>,
    place: Option<Place>,
    /// Confirmed, and not noted yet.
    unnoted: Vec<MessageId>,
    /// How often in a row the sink was away, and since when until when nothing is tried.
    away: u32,
    paused: Option<(Stopwatch, Duration)>,
    disabled: bool,
    /// As it was when the publisher last worked, and when that was.
    intake: (Intake, Stopwatch),
}

impl Publisher {
    pub(crate) fn new(sink: Arc<dyn Sink>, worker: String, news: watch::Receiver<u64>) -> Self {
        let state = State {
            news,
            held: Vec::new(),
            held_since: None,
            looked: None,
            place: None,
            unnoted: Vec::new(),
            away: 0,
            paused: None,
            // An earlier process may have been told so.
            disabled: true,
            intake: (Intake::default(), Stopwatch::start()),
        };
        Self {
            sink,
            worker,
            state: Mutex::new(state),
            others: AtomicBool::new(false),
            stopping: watch::Sender::new(false),
        }
    }

    /// Waits for news, or for as long as it may.
    async fn rest(&self, state: &mut State, most: Duration) {
        let mut stopping = self.stopping.subscribe();
        tokio::select! {
            _ = tokio::time::timeout(most, state.news.changed()) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    }

    async fn pause(&self, most: Duration) {
        let mut stopping = self.stopping.subscribe();
        let _ = tokio::time::timeout(most, stopping.wait_for(|stopping| *stopping)).await;
    }
}

impl State {
    /// How many times as long as it worked the publisher has to rest, by how people have come since it was last asked.
    fn rests(&mut self, now: Intake) -> u32 {
        let (before, since) = std::mem::replace(&mut self.intake, (now, Stopwatch::start()));
        let groups = now.groups.saturating_sub(before.groups).max(1);
        let commands = now.commands.saturating_sub(before.commands);
        if u128::from(commands) * 1_000_000 < CALM_RATE * since.elapsed().as_micros() {
            return 0;
        }
        let group = commands / groups;
        u32::try_from((group.saturating_sub(CALM_GROUP) / 2).min(SURGE_RESTS)).unwrap_or(0)
    }

    /// Whether all is looked through, rather than what is recent.
    fn looks_at_all(&self) -> bool {
        self.place.is_some() || self.looked.is_none_or(|looked| looked.elapsed() >= REST)
    }
}

impl Engine {
    /// Publishes what is due, or waits for something to be.
    pub(crate) async fn publish_some(self: Arc<Self>) {
        let Some(publisher) = &self.publisher else { return };
        let mut state = publisher.state.lock().await;
        if *publisher.stopping.borrow() {
            drop(state);
            // Whoever stops it ends this loop.
            return std::future::pending().await;
        }
        let lease = self.options.outbox.lease;
        if let Err(failure) = self.publish_with(publisher, &mut state).await {
            // Nothing is lost; it is only later.
            tracing::warn!(%failure, "messages are published later");
            publisher.pause(REST.min(lease / 4)).await;
        }
    }

    async fn publish_with(&self, publisher: &Publisher, state: &mut State) -> Result<(), Failure> {
        let lease = self.options.outbox.lease;
        // Before a shard can be given away: whoever gets it would publish these again.
        self.note_sent(state).await?;
        self.hold_shards(publisher, state).await?;
        if state.held.is_empty() {
            publisher.rest(state, REST.min(lease / 4)).await;
            return Ok(());
        }
        if let Some((since, pause)) = &state.paused {
            let left = pause.saturating_sub(since.elapsed());
            if !left.is_zero() {
                publisher.pause(left.min(REST).min(lease / 4)).await;
                return Ok(());
            }
            state.paused = None;
        }
        if state.disabled && self.is_disabled(publisher).await? {
            publisher.pause(REST.min(lease / 4)).await;
            return Ok(());
        }
        state.disabled = false;
        state.news.mark_unchanged();
        let worked = Stopwatch::start();
        let mut batch = self.due(state).await?;
        if batch.is_empty() {
            publisher.rest(state, REST.min(lease / 4)).await;
            return Ok(());
        }
        self.hand_over(publisher, state, &mut batch).await?;
        // Whoever is in line goes first; what waits here loses nothing by it.
        let rest = worked.elapsed() * state.rests(self.store().intake());
        if !rest.is_zero() {
            publisher.pause(rest.min(SURGE_REST_MAX)).await;
        }
        Ok(())
    }

    /// Has as many shards as are this process's part, for as long as the lease.
    async fn hold_shards(&self, publisher: &Publisher, state: &mut State) -> Result<(), Failure> {
        let lease = self.options.outbox.lease;
        let due = if state.held.is_empty() { REST.min(lease / 4) } else { lease / 3 };
        if state.held_since.is_some_and(|since| since.elapsed() < due) {
            return Ok(());
        }
        let asked = Stopwatch::start();
        let lost = state.held_since.is_some_and(|since| since.elapsed() >= lease);
        if lost && !state.held.is_empty() {
            tracing::warn!(shards = ?state.held, "the lease on these shards ended before it was renewed");
            state.held.clear();
        }
        let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        let held = self.commit(Hold { worker: publisher.worker.clone(), lease_ms }).await?;
        publisher.others.store(held.alive > 1, Ordering::Relaxed);
        if held.shards != state.held {
            tracing::info!(shards = ?held.shards, publishers = held.alive, "publishing these shards");
            (state.looked, state.place) = (None, None);
        }
        state.held = held.shards;
        state.held_since = Some(asked);
        Ok(())
    }

    async fn is_disabled(&self, publisher: &Publisher) -> Result<bool, Failure> {
        let address = publisher.sink.address().to_owned();
        Ok(self.read_first(move |tx| disabled::find(tx, &address)).await?.is_some())
    }

    /// The next messages, no two about one aggregate, and none before an earlier one about its aggregate.
    async fn due(&self, state: &mut State) -> Result<Vec<Message>, Failure> {
        let all = state.looks_at_all();
        let now = self.now();
        let since = |time| (time, MessageId::from_bytes([0; 16]));
        let recent = since(now.plus_millis(-RECENT_MS));
        let after = if all { state.place.unwrap_or(since(Timestamp::from_millis(0))) } else { recent };
        let limit = i64::try_from(BATCH).unwrap_or(i64::MAX);
        let (held, dead_hold) = (state.held.clone(), self.options.outbox.dead_hold);
        let look = move |tx: &mut Tx<'_>| publishing::due(tx, &held, after, now, limit, dead_hold);
        let found = self.read_first(look).await;
        if all {
            // A look that found as much as it could goes on from there; one that took too long is not repeated at once.
            let full =
                found.as_ref().ok().filter(|found| found.len() >= BATCH).and_then(|found| found.last());
            state.place = full.map(|message| (message.created_at, message.id));
            state.looked = Some(Stopwatch::start());
        }
        let mut found = found?;
        let mut seen = HashSet::new();
        found.retain(|message| seen.insert((message.aggregate_type.clone(), message.aggregate_id.clone())));
        Ok(found)
    }

    async fn hand_over(
        &self,
        publisher: &Publisher,
        state: &mut State,
        batch: &mut [Message],
    ) -> Result<(), Failure> {
        let lease = self.options.outbox.lease;
        let held = state.held_since.map_or(lease, |since| since.elapsed());
        // Whoever was stopped in between has to ask again before it may go on.
        let Some(left) = lease.checked_sub(held).filter(|left| !left.is_zero()) else { return Ok(()) };
        let time = Time::new(left, publisher.stopping.subscribe());
        let spans = self.publications(publisher, batch);
        let outcome = tokio::time::timeout(left, publisher.sink.publish(batch, time)).await;
        if state.held_since.is_none_or(|since| since.elapsed() >= lease) {
            let ids: Vec<_> = batch.iter().map(|message| message.id).collect();
            tracing::warn!(event_ids = ?texts(&ids), "the lease had ended when these were published: others may have done so too");
        }
        let Published { verdicts, away } = outcome.unwrap_or_else(|_| {
            let reason = format!("it did not answer within {} s", left.as_secs());
            Published::none(batch.len(), Away::ForNow { reason, retry_after: None })
        });
        let now = self.now();
        let mut refused = Vec::new();
        for ((message, verdict), span) in batch.iter().zip(verdicts).zip(spans) {
            if let Some(span) = span {
                span.end(verdict.failure());
            }
            match verdict {
                Verdict::Sent => {
                    let waited = u64::try_from(now.millis_since(message.created_at)).unwrap_or(0);
                    self.metrics.outbox_publish_seconds.observe(Duration::from_millis(waited).as_secs_f64());
                    self.metrics.outbox_published.inc();
                    state.unnoted.push(message.id);
                }
                Verdict::Refused { reason, retry_after } => {
                    self.metrics.outbox_refused.inc();
                    refused.push(self.refuse(message, reason, retry_after, now));
                }
                Verdict::Unknown => {}
            }
        }
        self.note_away(publisher, state, away).await?;
        self.note_sent(state).await?;
        if !refused.is_empty() {
            self.commit_patiently(NoteRefused(refused)).await?;
        }
        Ok(())
    }

    /// Begins a span for each message that belongs in a trace; whoever gets the message goes on from there.
    fn publications(&self, publisher: &Publisher, batch: &mut [Message]) -> Vec<Option<OpenSpan>> {
        let begin = |message: &mut Message| {
            let name = || format!("publish {}", message.event_type);
            let mut span = self.traces.within(message.trace, SpanKind::Producer, name)?;
            span.text("messaging.system", publisher.sink.name());
            span.text("messaging.message.id", message.id.to_string());
            message.trace = Some(span.trace());
            Some(span)
        };
        batch.iter_mut().map(begin).collect()
    }

    /// When a message that was refused is tried again, if it is.
    fn refuse(
        &self,
        message: &Message,
        reason: String,
        retry_after: Option<Duration>,
        now: Timestamp,
    ) -> publishing::Refused {
        let attempts = message.attempts + 1;
        let max_attempts = self.options.outbox.max_attempts;
        let (event_id, event_type) = (message.id.to_string(), &message.event_type);
        let again_at = if max_attempts > 0 && attempts >= max_attempts {
            tracing::error!(event_id, event_type, attempts, reason, "a message is dead");
            None
        } else {
            tracing::warn!(event_id, event_type, attempts, reason, "a message was refused");
            let asked = retry_after
                .map_or(0, |after| i64::try_from(after.min(RETRY_AFTER_MAX).as_millis()).unwrap_or(i64::MAX));
            Some(now.plus_millis(backoff_ms(attempts, self.random()).max(asked)))
        };
        publishing::Refused { id: message.id, reason, again_at }
    }

    async fn note_away(
        &self,
        publisher: &Publisher,
        state: &mut State,
        away: Option<Away>,
    ) -> Result<(), Failure> {
        let (sink, address) = (publisher.sink.name(), publisher.sink.address());
        self.metrics.outbox_sink_up.set(i64::from(away.is_none()));
        let Some(away) = away else {
            if std::mem::take(&mut state.away) > 0 {
                tracing::info!(sink, address, "the sink is back");
            }
            return Ok(());
        };
        match away {
            Away::ForNow { reason, retry_after } => {
                if state.away == 0 {
                    tracing::warn!(
                        sink,
                        address,
                        reason,
                        "the sink is away; messages are kept and tried again"
                    );
                }
                let doubled = AWAY_FIRST * 2_u32.saturating_pow(state.away.min(10));
                let chance = Duration::from_millis(self.random() % 50);
                let pause = retry_after.unwrap_or_default().max(doubled.min(AWAY_MAX) + chance);
                let pause = pause.min(RETRY_AFTER_MAX);
                state.away = state.away.saturating_add(1);
                state.paused = Some((Stopwatch::start(), pause));
            }
            Away::ForGood { reason } => {
                tracing::error!(
                    sink,
                    address,
                    reason,
                    "the sink wants nothing more; it is off until an operator turns it on"
                );
                self.commit(Disable { address: address.to_owned(), reason }).await?;
                state.disabled = true;
            }
        }
        Ok(())
    }

    async fn note_sent(&self, state: &mut State) -> Result<(), Failure> {
        while !state.unnoted.is_empty() {
            let count = state.unnoted.len().min(BATCH);
            let ids = state.unnoted[..count].to_vec();
            let noted = self.commit_patiently(NoteSent(ids)).await?;
            let again = u64::try_from(count).unwrap_or(0).saturating_sub(noted);
            if again > 0 {
                tracing::warn!(messages = again, event_ids = ?texts(&state.unnoted[..count]), "published by another process as well");
                self.metrics.outbox_published_again.inc_by(again);
            }
            state.unnoted.drain(..count);
        }
        Ok(())
    }

    /// Tells other processes that something was committed, for the shards that they have.
    pub(crate) async fn ring_others(self: Arc<Self>) {
        let Some(publisher) = &self.publisher else { return };
        let mut commits = self.store().own_news();
        loop {
            if commits.changed().await.is_err() {
                return;
            }
            if publisher.others.load(Ordering::Relaxed) {
                if let Err(failure) = self.read_first(ring_others).await {
                    tracing::debug!(%failure, "other processes were not rung for");
                }
                tokio::time::sleep(RING_PAUSE).await;
            }
        }
    }

    /// Finishes what is being published, and leaves the rest to others.
    pub async fn stop_publishing(&self) {
        let Some(publisher) = &self.publisher else { return };
        publisher.stopping.send_replace(true);
        let stopped = async {
            let mut state = publisher.state.lock().await;
            let _ = self.note_sent(&mut state).await;
            if let Err(failure) = self.commit(Leave(publisher.worker.clone())).await {
                tracing::debug!(%failure, "the shards are free once their lease has ended");
            }
        };
        // No call of a sink lasts longer than half of the lease.
        let _ = tokio::time::timeout(self.options.outbox.lease, stopped).await;
    }
}

fn texts(ids: &[MessageId]) -> Vec<String> {
    ids.iter().map(MessageId::to_string).collect()
}

/// What a publisher has.
struct Held {
    shards: Vec<i64>,
    alive: usize,
}

struct Hold {
    worker: String,
    lease_ms: i64,
}

impl Command for Hold {
    type Output = Held;
    const NAME: &'static str = "hold_shards";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Held>, Fault> {
        each(batch, |hold| {
            let leases = shards::leases(tx)?;
            let now = tx.now();
            let until = now.plus_millis(hold.lease_ms);
            let alive = shards::be_alive(tx, &hold.worker, until)?;
            // A file that is served by nobody else has no other publisher, whatever a dead one left behind.
            let as_of = if tx.engine() == guerdon_store::Engine::Sqlite { Timestamp::MAX } else { now };
            let share = share(&leases, &hold.worker, alive, as_of);
            shards::give(tx, &hold.worker, &share.give)?;
            let mut held: Vec<_> = share.keep.into_iter().chain(share.take).collect();
            held.sort_unstable();
            shards::hold(tx, &hold.worker, held.iter().copied(), until)?;
            Ok(Held { shards: held, alive })
        })
    }
}

struct Leave(String);

impl Command for Leave {
    type Output = ();
    const NAME: &'static str = "leave_shards";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |leave| shards::leave(tx, &leave.0))
    }
}

struct NoteSent(Vec<MessageId>);

impl Command for NoteSent {
    /// How many were not noted before.
    type Output = u64;
    const NAME: &'static str = "note_sent";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;
    // What is lost of it is published again.
    const DURABLE: bool = false;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<u64>, Fault> {
        each(batch, |sent| publishing::sent(tx, &sent.0))
    }
}

struct NoteRefused(Vec<publishing::Refused>);

impl Command for NoteRefused {
    type Output = ();
    const NAME: &'static str = "note_refused";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |refused| publishing::refused(tx, &refused.0).map(drop))
    }
}

struct Disable {
    address: String,
    reason: String,
}

impl Command for Disable {
    type Output = ();
    const NAME: &'static str = "disable_sink";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |off| disabled::disable(tx, &off.address, &off.reason))
    }
}
