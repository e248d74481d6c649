//! Taking messages from Kafka.

use super::{config, make_topic, producer, servers};
use futures_util::FutureExt;
use guerdon_engine::{Delivery, Releases, Settled, Settles, Source, Takes};
use rdkafka::Message;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::OwnedMessage;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::Mutex;

/// Messages that are taken at once.
const TAKEN: usize = 256;

/// Messages come from a topic of a Kafka, shared among all consumers of one name.
pub struct KafkaSource {
    servers: String,
    topic: String,
    group: String,
    timeout: Duration,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    consumer: Option<StreamConsumer>,
    dead_letters: Option<FutureProducer>,
    given: HashMap<u64, OwnedMessage>,
    last_tag: u64,
}

impl KafkaSource {
    pub fn new(url: &str, topic: String, group: String, timeout: Duration) -> Self {
        Self { servers: servers(url), topic, group, timeout, line: Mutex::default() }
    }

    fn dead_topic(&self) -> String {
        format!("{}.dead", self.topic)
    }

    async fn connect(&self) -> Result<StreamConsumer, String> {
        for topic in [&self.topic, &self.dead_topic()] {
            make_topic(&self.servers, topic, self.timeout).await?;
        }
        let consumer: StreamConsumer = config(&self.servers)
            .set("group.id", &self.group)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", "10000")
            .create()
            .map_err(|error| error.to_string())?;
        consumer.subscribe(&[&self.topic]).map_err(|error| error.to_string())?;
        tracing::info!(topic = self.topic, group = self.group, "consuming");
        Ok(consumer)
    }

    async fn take(&self, line: &mut Line) -> Result<Vec<Delivery>, String> {
        if line.consumer.is_none() {
            line.given.clear();
            line.consumer = Some(self.connect().await?);
        }
        let Line { consumer: Some(consumer), given, last_tag, .. } = line else { return Ok(Vec::new()) };
        let mut taken = Vec::new();
        let mut troubled = false;
        let mut next = consumer.recv().await;
        loop {
            let message = match next {
                Ok(message) => message.detach(),
                // What was taken before it is handled first; the trouble will still be there.
                Err(_) if !taken.is_empty() => return Ok(taken),
                // It goes on by itself, and tells of every try: to rest after each would put off what comes behind them.
                Err(error) if consumer.client().fatal_error().is_none() => {
                    if !troubled {
                        tracing::warn!(%error, "not consuming for the moment");
                    }
                    troubled = true;
                    next = consumer.recv().await;
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            };
            *last_tag += 1;
            taken.push(Delivery { tag: *last_tag, body: message.payload().unwrap_or_default().to_vec() });
            given.insert(*last_tag, message);
            if taken.len() >= TAKEN {
                return Ok(taken);
            }
            next = match consumer.recv().now_or_never() {
                Some(next) => next,
                None => return Ok(taken),
            };
        }
    }

    /// Puts a message among the dead, and waits until it is safe there.
    async fn bury(&self, line: &mut Line, message: &OwnedMessage) -> Result<(), String> {
        if line.dead_letters.is_none() {
            line.dead_letters =
                Some(producer(&self.servers, self.timeout).map_err(|error| error.to_string())?);
        }
        let Some(producer) = &line.dead_letters else { return Ok(()) };
        let topic = self.dead_topic();
        let mut record = FutureRecord::to(&topic).payload(message.payload().unwrap_or_default());
        if let Some(key) = message.key() {
            record = record.key(key);
        }
        if let Some(headers) = message.headers() {
            record = record.headers(headers.clone());
        }
        let buried = producer.send(record, self.timeout).await;
        buried.map(drop).map_err(|(error, _)| {
            // It may have failed for good.
            line.dead_letters = None;
            error.to_string()
        })
    }

    async fn settle(&self, line: &mut Line, settled: Vec<(u64, Settled)>) -> Result<(), String> {
        let mut offsets: HashMap<i32, i64> = HashMap::new();
        for (tag, settled) in settled {
            let Some(message) = line.given.remove(&tag) else { continue };
            if settled == Settled::Dead {
                self.bury(line, &message).await?;
            }
            let next = offsets.entry(message.partition()).or_default();
            *next = (*next).max(message.offset() + 1);
        }
        // What is not settled yet holds up what comes after it in its partition.
        for message in line.given.values() {
            if let Some(next) = offsets.get_mut(&message.partition()) {
                *next = (*next).min(message.offset());
            }
        }
        let Some(consumer) = &line.consumer else { return Ok(()) };
        if offsets.is_empty() {
            return Ok(());
        }
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(&self.topic, partition, Offset::Offset(offset))
                .map_err(|error| error.to_string())?;
        }
        // On a thread of this runtime: the answer of the broker is waited for, but not for ever.
        tokio::task::block_in_place(|| consumer.commit(&list, CommitMode::Sync))
            .map_err(|error| error.to_string())
    }
}

impl Source for KafkaSource {
    fn patience(&self) -> Duration {
        // Whoever takes nothing for five minutes has lost its partitions.
        Duration::from_mins(2)
    }

    fn release(&self) -> Releases<'_> {
        Box::pin(async move {
            self.line.lock().await.consumer = None;
        })
    }

    fn take(&self) -> Takes<'_> {
        Box::pin(async move {
            let mut line = self.line.lock().await;
            let taken = self.take(&mut line).await;
            if taken.is_err() {
                line.consumer = None;
            }
            taken
        })
    }

    fn settle(&self, settled: Vec<(u64, Settled)>) -> Settles<'_> {
        Box::pin(async move {
            let mut line = self.line.lock().await;
            let told = self.settle(&mut line, settled).await;
            if told.is_err() {
                // What is not settled comes again, to whoever has the partition then.
                line.consumer = None;
            }
            told
        })
    }
}
