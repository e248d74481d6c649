//! RabbitMQ: a durable exchange, a quorum queue bound to all of it, and a queue for what could not be handled.

mod source;

pub use source::RabbitSource;

use crate::{choose_encryption, without_secrets};
use guerdon_core::outbox::Message;
use guerdon_core::outbox::envelope::{self, CONTENT_TYPE};
use guerdon_engine::{Away, Published, Publishes, Sink, Time, Verdict};
use lapin::options::{
    BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind};
use std::time::Duration;
use tokio::sync::Mutex;

/// A message that survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// Messages go to a RabbitMQ.
pub struct RabbitSink {
    url: String,
    address: String,
    /// The exchange, and the queue bound to it.
    name: String,
    source: String,
    timeout: Duration,
    line: Mutex<Option<Line>>,
}

/// A connection, with a channel that confirms.
struct Line {
    connection: Connection,
    channel: Channel,
}

impl RabbitSink {
    pub fn new(url: String, name: String, source: String, timeout: Duration) -> Self {
        choose_encryption();
        Self { address: without_secrets(&url), url, name, source, timeout, line: Mutex::new(None) }
    }

    async fn connect(&self) -> Result<Line, lapin::Error> {
        let connection = Connection::connect(&self.url, properties()).await?;
        let channel = connection.create_channel().await?;
        declare(&channel, &self.name).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Line { connection, channel })
    }

    /// Hands over what there is time for, then waits for the confirmations. Half of the time is left for these: what was
    /// handed over and not confirmed is handed over again, so a machine that is too slow for all of it would never get on.
    async fn hand_over(
        &self,
        channel: &Channel,
        messages: &[Message],
        verdicts: &mut [Verdict],
        time: &Time,
    ) -> Result<(), String> {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut confirmations = Vec::with_capacity(messages.len());
        let mut broken = Ok(());
        for (index, message) in messages.iter().enumerate() {
            if index > 0 && !time.allows(self.timeout / 2) {
                break;
            }
            let body = match envelope::seal(message, &self.source) {
                Ok(body) => body,
                Err(error) => {
                    verdicts[index] = Verdict::Refused { reason: error.to_string(), retry_after: None };
                    continue;
                }
            };
            let key = format!("{}.{}", message.aggregate_type, message.event_type);
            let (exchange, properties) = (ShortString::from(self.name.as_str()), labels(message));
            let sent =
                channel.basic_publish(exchange, key.into(), options, body.as_bytes(), properties).await;
            match sent {
                Ok(confirmation) => confirmations.push((index, confirmation)),
                Err(error) => {
                    broken = Err(error.to_string());
                    break;
                }
            }
        }
        for (index, confirmation) in confirmations {
            match confirmation.await {
                Ok(Confirmation::Ack(None)) => verdicts[index] = Verdict::Sent,
                Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_))) => {
                    // The queue is made again with the next connection.
                    broken = Err("no queue takes what is published".into());
                }
                // A queue that is full, or has lost its majority.
                Ok(Confirmation::Nack(None)) => broken = Err("the broker does not take it for now".into()),
                Ok(Confirmation::NotRequested) => broken = Err("the broker confirms nothing".into()),
                Err(error) => broken = Err(error.to_string()),
            }
        }
        broken
    }
}

impl Sink for RabbitSink {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn publish<'a>(&'a self, messages: &'a [Message], time: Time) -> Publishes<'a> {
        Box::pin(async move {
            let away = |reason: String| Away::ForNow { reason, retry_after: None };
            let late = || format!("no answer within {:?}", self.timeout);
            let mut held = self.line.lock().await;
            let line = match held.take().filter(|line| line.connection.status().connected()) {
                Some(line) => line,
                None => match tokio::time::timeout(self.timeout, self.connect()).await {
                    Ok(Ok(line)) => line,
                    Ok(Err(error)) => return Published::none(messages.len(), away(error.to_string())),
                    Err(_) => return Published::none(messages.len(), away(late())),
                },
            };
            let mut verdicts = vec![Verdict::Unknown; messages.len()];
            if !time.allows(self.timeout) {
                *held = Some(line);
                return Published { verdicts, away: None };
            }
            let time = time.at_most(self.timeout);
            let handed = self.hand_over(&line.channel, messages, &mut verdicts, &time);
            let handed = tokio::time::timeout(self.timeout, handed).await;
            match handed.unwrap_or_else(|_| Err(late())) {
                Ok(()) => {
                    *held = Some(line);
                    Published { verdicts, away: None }
                }
                Err(reason) => Published { verdicts, away: Some(away(reason)) },
            }
        })
    }
}

fn properties() -> ConnectionProperties {
    ConnectionProperties::default().with_connection_name("guerdon".into())
}

fn labels(message: &Message) -> BasicProperties {
    let text = |value: &str| AMQPValue::LongString(LongString::from(value));
    let mut headers = FieldTable::default();
    headers.insert("aggregateType".into(), text(&message.aggregate_type));
    headers.insert("aggregateId".into(), text(&message.aggregate_id));
    headers.insert("sequence".into(), AMQPValue::LongLongInt(message.sequence));
    if let Some(trace) = message.trace {
        headers.insert("traceparent".into(), text(&trace.to_string()));
    }
    let seconds = u64::try_from(message.created_at.as_millis() / 1_000).unwrap_or(0);
    BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type(CONTENT_TYPE.into())
        .with_message_id(message.id.to_string().into())
        .with_type(message.event_type.as_str().into())
        .with_timestamp(seconds)
        .with_headers(headers)
}

/// Makes the exchange and the queues, or finds them as they should be. Both ends do, whichever is there first: what is
/// published before there is a consumer is kept for it.
async fn declare(channel: &Channel, name: &str) -> Result<(), lapin::Error> {
    let dead = format!("{name}.dead");
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let text = |value: &str| AMQPValue::LongString(LongString::from(value));
    let mut quorum = FieldTable::default();
    quorum.insert("x-queue-type".into(), text("quorum"));
    let mut main = quorum.clone();
    main.insert("x-dead-letter-exchange".into(), text(&dead));
    // A dead letter leaves its queue only once the other has it; that needs a queue that refuses rather than drops.
    main.insert("x-dead-letter-strategy".into(), text("at-least-once"));
    main.insert("x-overflow".into(), text("reject-publish"));
    // Whether an event is dead is for the consumer to say; newer brokers would after twenty lost connections.
    main.insert("x-delivery-limit".into(), AMQPValue::LongInt(1_000_000));
    // Several consumers stand by for each other; to share the queue would break the order.
    main.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    for (exchange, kind, arguments) in
        [(dead.as_str(), ExchangeKind::Fanout, quorum), (name, ExchangeKind::Topic, main)]
    {
        channel.exchange_declare(exchange.into(), kind, durable, FieldTable::default()).await?;
        channel.queue_declare(exchange.into(), QueueDeclareOptions::durable(), arguments).await?;
        let options = QueueBindOptions::default();
        channel
            .queue_bind(exchange.into(), exchange.into(), "#".into(), options, FieldTable::default())
            .await?;
    }
    Ok(())
}
