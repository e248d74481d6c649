//! Whoever receives what is published, and notes how old it is.

use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use futures_util::StreamExt;
use guerdon_engine::Clock;
use guerdon_store::Stopwatch;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties, ExchangeKind};
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer, StreamConsumer};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Runtime;

/// What arrived.
#[derive(Default)]
struct Seen {
    /// Milliseconds from the transaction to the arrival.
    ages: Vec<u32>,
    all: u64,
    /// What arrives before is counted and not measured.
    measured: Option<(Stopwatch, Duration)>,
}

#[derive(Clone)]
struct Notes {
    seen: Arc<Mutex<Seen>>,
    clock: Arc<Clock>,
}

impl Notes {
    fn new() -> Self {
        Self { seen: Arc::default(), clock: Arc::new(Clock::new(0)) }
    }

    /// Notes an event by the time at which its request was decided.
    fn note(&self, body: &[u8]) {
        let now = self.clock.now().as_millis();
        let event: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let Some(decided) = event["data"]["finishedAt"].as_i64() else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.all += 1;
        if seen.measured.as_ref().is_some_and(|(since, after)| since.elapsed() >= *after) {
            seen.ages.push(u32::try_from(now - decided).unwrap_or(0));
        }
    }
}

pub(super) struct Arrivals {
    /// Where to publish to, if the receiver says.
    pub(super) url: Option<String>,
    notes: Notes,
    _runtime: Runtime,
}

impl Arrivals {
    pub(super) fn webhook() -> Result<Self, Box<dyn std::error::Error>> {
        let (runtime, notes) = (runtime()?, Notes::new());
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let url = Some(format!("http://{}/", listener.local_addr()?));
        let noting = notes.clone();
        let take = move |body: Bytes| {
            noting.note(&body);
            std::future::ready(axum::http::StatusCode::NO_CONTENT)
        };
        runtime.spawn(async move {
            let _ = axum::serve(listener, Router::new().route("/", post(take))).await;
        });
        Ok(Self { url, notes, _runtime: runtime })
    }

    /// A queue of its own beside the one that the server makes.
    pub(super) fn rabbitmq(url: &str, topic: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let (runtime, notes) = (runtime()?, Notes::new());
        let queue = format!("{topic}.arrivals");
        let (connection, mut consumer) = runtime.block_on(async {
            let connection = Connection::connect(url, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let none = FieldTable::default;
            channel.exchange_declare(topic.into(), ExchangeKind::Topic, durable, none()).await?;
            let mut quorum = FieldTable::default();
            quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
            let name = || queue.as_str().into();
            channel.queue_declare(name(), QueueDeclareOptions::durable(), quorum).await?;
            channel.queue_bind(name(), topic.into(), "#".into(), QueueBindOptions::default(), none()).await?;
            channel.basic_qos(1_000, BasicQosOptions::default()).await?;
            let consumer =
                channel.basic_consume(name(), "".into(), BasicConsumeOptions::default(), none()).await?;
            Ok::<_, lapin::Error>((connection, consumer))
        })?;
        let noting = notes.clone();
        runtime.spawn(async move {
            let _connection = connection;
            while let Some(Ok(delivery)) = consumer.next().await {
                noting.note(&delivery.data);
                let _ = delivery.ack(BasicAckOptions::default()).await;
            }
        });
        Ok(Self { url: None, notes, _runtime: runtime })
    }

    pub(super) fn kafka(url: &str, topic: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let (runtime, notes) = (runtime()?, Notes::new());
        let consumer: StreamConsumer = {
            let _inside = runtime.enter();
            ClientConfig::new()
                .set("bootstrap.servers", url.trim_start_matches("kafka://"))
                .set("group.id", topic)
                .set("auto.offset.reset", "earliest")
                .set("enable.auto.commit", "false")
                .set("allow.auto.create.topics", "true")
                .set("topic.metadata.refresh.interval.ms", "500")
                .create()?
        };
        consumer.subscribe(&[topic])?;
        let noting = notes.clone();
        runtime.spawn(async move {
            loop {
                if let Ok(message) = consumer.recv().await {
                    noting.note(message.payload().unwrap_or_default());
                }
            }
        });
        Ok(Self { url: None, notes, _runtime: runtime })
    }

    /// Measures what arrives from some time on.
    pub(super) fn count_after(&self, time: Duration) {
        let mut seen = self.notes.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.measured = Some((Stopwatch::start(), time));
    }

    /// The median and the 99th percentile, once all have arrived.
    pub(super) fn percentiles(&self, all: u64) -> Result<(f64, f64), Box<dyn std::error::Error>> {
        let waited = Stopwatch::start();
        loop {
            let mut seen = self.notes.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.all >= all {
                seen.ages.sort_unstable();
                let at = |hundredth: usize| {
                    let index = (seen.ages.len() * hundredth / 100).min(seen.ages.len().saturating_sub(1));
                    f64::from(seen.ages.get(index).copied().unwrap_or(0))
                };
                return Ok((at(50), at(99)));
            }
            if waited.elapsed() > Duration::from_mins(1) {
                return Err(format!("{} of {all} have arrived", seen.all).into());
            }
            drop(seen);
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}
