//! Kafka: a topic, keyed by the aggregate, so that what is about one aggregate stays in its order.

mod source;

pub use source::KafkaSource;

use guerdon_core::outbox::Message;
use guerdon_core::outbox::envelope::{self, CONTENT_TYPE};
use guerdon_engine::{Away, Published, Publishes, Sink, Time, Verdict};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use rdkafka::types::RDKafkaErrorCode as Code;
use std::time::Duration;
use tokio::sync::Mutex;

/// Messages go to a topic of a Kafka.
pub struct KafkaSink {
    servers: String,
    topic: String,
    source: String,
    timeout: Duration,
    producer: Mutex<Option<FutureProducer>>,
}

/// `kafka://HOST:PORT,HOST:PORT`, or without the beginning.
fn servers(url: &str) -> String {
    let servers = url.strip_prefix("kafka://").unwrap_or(url).trim_end_matches('/');
    servers.rsplit_once('@').map_or(servers, |(_, servers)| servers).to_owned()
}

fn config(servers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", servers)
        .set("client.id", "guerdon")
        .set("socket.keepalive.enable", "true")
        .set("reconnect.backoff.max.ms", "1000");
    config
}

/// A producer whose confirmations mean that every replica that counts has the message, once and in its place.
fn producer(servers: &str, timeout: Duration) -> Result<FutureProducer, KafkaError> {
    config(servers)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", timeout.as_millis().to_string())
        .set("linger.ms", "1")
        .create()
}

/// Makes a topic as the broker would by default, or finds it there.
async fn make_topic(servers: &str, topic: &str, timeout: Duration) -> Result<(), String> {
    let admin: AdminClient<DefaultClientContext> =
        config(servers).create().map_err(|error| error.to_string())?;
    let options = AdminOptions::new().operation_timeout(Some(timeout)).request_timeout(Some(timeout));
    let wanted = NewTopic::new(topic, -1, TopicReplication::Fixed(-1));
    match admin.create_topics([&wanted], &options).await.map_err(|error| error.to_string())?.pop() {
        Some(Err((_, code))) if code != Code::TopicAlreadyExists => Err(code.to_string()),
        _ => Ok(()),
    }
}

impl KafkaSink {
    pub fn new(url: &str, topic: String, source: String, timeout: Duration) -> Self {
        Self { servers: servers(url), topic, source, timeout, producer: Mutex::new(None) }
    }

    async fn connect(&self) -> Result<FutureProducer, String> {
        make_topic(&self.servers, &self.topic, self.timeout).await?;
        producer(&self.servers, self.timeout).map_err(|error| error.to_string())
    }

    async fn hand_over(
        &self,
        producer: &FutureProducer,
        messages: &[Message],
    ) -> (Vec<Verdict>, Result<(), String>) {
        let mut verdicts = vec![Verdict::Unknown; messages.len()];
        let mut confirmations = Vec::with_capacity(messages.len());
        let mut broken = Ok(());
        for (index, message) in messages.iter().enumerate() {
            let body = match envelope::seal(message, &self.source) {
                Ok(body) => body,
                Err(error) => {
                    verdicts[index] = refused(error.to_string());
                    continue;
                }
            };
            let record = FutureRecord::to(&self.topic)
                .key(&message.aggregate_id)
                .payload(&body)
                .headers(headers(message));
            match producer.send_result(record) {
                Ok(confirmation) => confirmations.push((index, confirmation)),
                Err((error, _)) if is_about_the_message(&error) => {
                    verdicts[index] = refused(error.to_string());
                }
                Err((error, _)) => {
                    broken = Err(error.to_string());
                    break;
                }
            }
        }
        for (index, confirmation) in confirmations {
            match confirmation.await {
                Ok(Ok(_)) => verdicts[index] = Verdict::Sent,
                Ok(Err((error, _))) if is_about_the_message(&error) => {
                    verdicts[index] = refused(error.to_string());
                }
                Ok(Err((error, _))) => broken = Err(error.to_string()),
                Err(_) => broken = Err("the producer has ended".into()),
            }
        }
        (verdicts, broken)
    }
}

fn refused(reason: String) -> Verdict {
    Verdict::Refused { reason, retry_after: None }
}

/// Whether another message may do better.
fn is_about_the_message(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidMessage
                | RDKafkaErrorCode::InvalidMessageSize
                | RDKafkaErrorCode::InvalidRecord
        )
    )
}

fn headers(message: &Message) -> OwnedHeaders {
    let sequence = message.sequence.to_string();
    let id = message.id.to_string();
    let trace = message.trace.map(|trace| trace.to_string());
    let pairs = [
        ("content-type", CONTENT_TYPE),
        ("event_id", &id),
        ("event_type", &message.event_type),
        ("aggregate_type", &message.aggregate_type),
        ("sequence", &sequence),
    ];
    let pairs = pairs.into_iter().chain(trace.as_deref().map(|trace| ("traceparent", trace)));
    pairs.fold(OwnedHeaders::new_with_capacity(6), |headers, (key, value)| {
        headers.insert(Header { key, value: Some(value) })
    })
}

impl Sink for KafkaSink {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn address(&self) -> &str {
        &self.servers
    }

    fn publish<'a>(&'a self, messages: &'a [Message], time: Time) -> Publishes<'a> {
        Box::pin(async move {
            let away = |reason: String| Away::ForNow { reason, retry_after: None };
            let mut held = self.producer.lock().await;
            let producer = match held.take() {
                Some(producer) => producer,
                None => match self.connect().await {
                    Ok(producer) => producer,
                    Err(reason) => return Published::none(messages.len(), away(reason)),
                },
            };
            if !time.allows(self.timeout) {
                *held = Some(producer);
                return Published { verdicts: vec![Verdict::Unknown; messages.len()], away: None };
            }
            let (verdicts, handed) = self.hand_over(&producer, messages).await;
            match handed {
                Ok(()) => {
                    *held = Some(producer);
                    Published { verdicts, away: None }
                }
                Err(reason) => {
                    // It finds the broker by itself when that is back, unless it has lost count of what it sent.
                    if producer.client().fatal_error().is_none() {
                        *held = Some(producer);
                    }
                    Published { verdicts, away: Some(away(reason)) }
                }
            }
        })
    }
}
