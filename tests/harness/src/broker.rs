//! Brokers: those that the test script started, and ones of a test's own that it can kill; and what can be read from them.

use crate::ports::free_ports;
use crate::wait::until;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties, ExchangeKind};
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::Value;
use std::fs::File;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(60);
/// Its own, and two for what stands beside it, as scripts/broker says.
const PORTS: u16 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerKind {
    RabbitMq,
    Kafka,
}

impl BrokerKind {
    /// As the settings name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::RabbitMq => "rabbitmq",
            Self::Kafka => "kafka",
        }
    }

    /// Where the one is that the test script started.
    pub fn shared_url(self) -> String {
        let variable = match self {
            Self::RabbitMq => "TEST_RABBITMQ_URL",
            Self::Kafka => "TEST_KAFKA_URL",
        };
        std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is not set: ./scripts/test starts it"))
    }
}

/// A broker that belongs to one test.
pub struct OwnBroker {
    pub kind: BrokerKind,
    port: u16,
    folder: tempfile::TempDir,
    child: Option<Child>,
}

impl OwnBroker {
    pub fn start(kind: BrokerKind) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the broker");
        let mut broker = Self { kind, port: free_ports(PORTS), folder, child: None };
        broker.restart();
        broker
    }

    pub fn url(&self) -> String {
        match self.kind {
            BrokerKind::RabbitMq => format!("amqp://guest:guest@127.0.0.1:{}/%2f", self.port),
            BrokerKind::Kafka => format!("kafka://127.0.0.1:{}", self.port),
        }
    }

    /// Starts it again with the data that it has, and waits until it listens.
    pub fn restart(&mut self) {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/broker");
        let child = Command::new(script)
            .args([self.kind.name(), &self.folder.path().to_string_lossy(), &self.port.to_string()])
            .stdin(Stdio::null())
            .stdout(self.output())
            .stderr(self.output())
            .process_group(0)
            .spawn()
            .expect("scripts/broker");
        self.child = Some(child);
        until("the broker to listen", PATIENCE, || TcpStream::connect(("127.0.0.1", self.port)).ok());
    }

    /// Where it writes what it has to say, appended over restarts.
    fn output(&self) -> File {
        let path = self.folder.path().join("output");
        File::options().create(true).append(true).open(path).expect("a file for the broker's output")
    }

    /// All that it said, RabbitMQ in files of its own.
    fn log_text(&self) -> String {
        let mut files = vec![self.folder.path().join("output")];
        if let Ok(folder) = std::fs::read_dir(self.folder.path().join("log")) {
            files.extend(folder.flatten().map(|entry| entry.path()).filter(|path| path.is_file()));
        }
        let texts = files.iter().map(|path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            format!("{}:\n{}", path.display(), crate::server::tail(&String::from_utf8_lossy(&bytes)))
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Waits until a queue would survive the broker's death. RabbitMQ answers that a quorum queue is there before the list
    /// of their names is on disk; killed in between, it has a queue that it can never open again (version 3.10).
    pub fn until_kept(&self, queue: &str) {
        if self.kind == BrokerKind::RabbitMq {
            let node = format!("guerdon-{}@localhost", self.port);
            let names =
                self.folder.path().join("data").join(&node).join("quorum").join(&node).join("names.dets");
            // Erlang's form of the name, up to the tag of the term after it: other queues' names begin with this one's.
            let name = format!("%2F_{queue}m");
            until("the queue's name to be on disk", PATIENCE, || {
                let bytes = std::fs::read(&names).ok()?;
                bytes.windows(name.len()).any(|window| window == name.as_bytes()).then_some(())
            });
        }
    }

    /// `kill -9` of all its processes, and waits until they are gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = child.wait();
            until("the broker to be gone", PATIENCE, || {
                TcpStream::connect(("127.0.0.1", self.port)).is_err().then_some(())
            });
        }
    }
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the broker's log ---\n{}", self.log_text());
        }
        self.kill();
        if self.kind == BrokerKind::RabbitMq {
            // Its name service outlives it.
            let port = (self.port + 1).to_string();
            let _ = Command::new("epmd").args(["-port", &port, "-kill"]).output();
        }
    }
}

/// Somebody who sees all that goes through a topic, beside whoever consumes it.
pub struct Observer {
    kind: BrokerKind,
    url: String,
    topic: String,
    runtime: Runtime,
}

impl Observer {
    /// Takes its place; on RabbitMQ before anything is published.
    pub fn of(kind: BrokerKind, url: &str, topic: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let observer = Self { kind, url: url.into(), topic: topic.into(), runtime };
        if kind == BrokerKind::RabbitMq {
            observer.listen();
        }
        observer
    }

    /// A broker that was just started may refuse for a moment.
    fn connect(&self) -> Connection {
        until("the broker to answer", PATIENCE, || {
            let connects = Connection::connect(&self.url, ConnectionProperties::default());
            self.runtime.block_on(connects).ok()
        })
    }

    /// A queue of its own beside the consumer's.
    fn listen(&self) {
        let connection = self.connect();
        self.runtime.block_on(async {
            let channel = connection.create_channel().await.expect("a channel");
            let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let (topic, queue) = (self.topic.as_str(), self.queue());
            channel
                .exchange_declare(topic.into(), ExchangeKind::Topic, durable, FieldTable::default())
                .await
                .expect("the exchange");
            let mut quorum = FieldTable::default();
            quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
            channel
                .queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), quorum)
                .await
                .expect("a queue");
            channel
                .queue_bind(
                    queue.as_str().into(),
                    topic.into(),
                    "#".into(),
                    QueueBindOptions::default(),
                    FieldTable::default(),
                )
                .await
                .expect("a binding");
        });
    }

    /// The queue that it listens to.
    pub fn queue(&self) -> String {
        format!("{}.observer", self.topic)
    }

    /// All that has gone through so far, in its order; what is about one subject is in the order of its publication.
    pub fn all(&self) -> Vec<Value> {
        match self.kind {
            BrokerKind::RabbitMq => self.drain(&self.queue()),
            BrokerKind::Kafka => read_topic(&self.url, &self.topic),
        }
    }

    /// What was put among the dead.
    pub fn dead(&self) -> Vec<Value> {
        let dead = format!("{}.dead", self.topic);
        match self.kind {
            BrokerKind::RabbitMq => self.drain(&dead),
            BrokerKind::Kafka => read_topic(&self.url, &dead),
        }
    }

    /// Looks without taking: everything is left in the queue.
    fn drain(&self, queue: &str) -> Vec<Value> {
        let connection = self.connect();
        self.runtime.block_on(async {
            let channel = connection.create_channel().await.expect("a channel");
            let mut found = Vec::new();
            // Not acknowledged, so it all comes back when the connection ends.
            while let Some(message) =
                channel.basic_get(queue.into(), BasicGetOptions { no_ack: false }).await.expect("a message")
            {
                found.push(value(&message.delivery.data));
            }
            let _ = connection.close(200, "done".into()).await;
            found
        })
    }

    /// Puts something into the topic that is not ours.
    pub fn inject(&self, body: &[u8]) {
        match self.kind {
            BrokerKind::RabbitMq => {
                let connection = self.connect();
                self.runtime.block_on(async {
                    let channel = connection.create_channel().await.expect("a channel");
                    channel
                        .basic_publish(
                            self.topic.as_str().into(),
                            "x".into(),
                            BasicPublishOptions::default(),
                            body,
                            BasicProperties::default().with_delivery_mode(2),
                        )
                        .await
                        .expect("a message");
                    let _ = connection.close(200, "done".into()).await;
                });
            }
            BrokerKind::Kafka => {
                let producer: BaseProducer = config(&self.url).create().expect("a producer");
                let sent = producer.send(BaseRecord::to(&self.topic).key("x").payload(body));
                assert!(sent.is_ok(), "a message");
                producer.flush(PATIENCE).expect("a confirmation");
            }
        }
    }
}

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(bytes).into_owned()))
}

fn config(url: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", url.trim_start_matches("kafka://"));
    config
}

/// Every partition from its beginning to what is its end now.
fn read_topic(url: &str, topic: &str) -> Vec<Value> {
    let consumer: BaseConsumer = config(url)
        .set("group.id", "observer")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "false")
        .create()
        .expect("a consumer");
    let partitions = until("the topic's partitions", PATIENCE, || {
        let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(5)).ok()?;
        let partitions: Vec<_> = metadata.topics().first()?.partitions().iter().map(|one| one.id()).collect();
        (!partitions.is_empty()).then_some(partitions)
    });
    let mut left = 0_i64;
    let mut list = TopicPartitionList::new();
    let mut ends = std::collections::HashMap::new();
    for partition in partitions {
        let (low, high) = until("the partition's ends", PATIENCE, || {
            consumer.fetch_watermarks(topic, partition, Duration::from_secs(5)).ok()
        });
        if high > low {
            left += 1;
            ends.insert(partition, high);
            list.add_partition_offset(topic, partition, Offset::Beginning).expect("a partition");
        }
    }
    consumer.assign(&list).expect("partitions");
    let mut found = Vec::new();
    while left > 0 {
        let message = until("a message", PATIENCE, || consumer.poll(Duration::from_millis(100)));
        let Ok(message) = message else { continue };
        if message.offset() + 1 == ends[&message.partition()] {
            left -= 1;
        }
        if message.offset() < ends[&message.partition()] {
            found.push(value(message.payload().unwrap_or_default()));
        }
    }
    found
}
