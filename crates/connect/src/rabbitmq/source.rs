//! Taking messages from RabbitMQ.

use super::{declare, properties};
use crate::choose_encryption;
use futures_util::{FutureExt, StreamExt};
use guerdon_engine::{Delivery, Releases, Settled, Settles, Source, Takes};
use lapin::message::Delivery as Taken;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Connection, Consumer};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::Mutex;

/// Messages that are taken at once; the broker gives no more before these are settled.
const TAKEN: u16 = 256;

/// Messages come from a queue of a RabbitMQ.
pub struct RabbitSource {
    url: String,
    queue: String,
    name: String,
    timeout: Duration,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    open: Option<(Connection, Consumer)>,
    /// What was given out and is not settled.
    given: HashMap<u64, Taken>,
    last_tag: u64,
}

impl RabbitSource {
    pub fn new(url: String, queue: String, name: String, timeout: Duration) -> Self {
        choose_encryption();
        Self { url, queue, name, timeout, line: Mutex::default() }
    }

    async fn connect(&self) -> Result<(Connection, Consumer), lapin::Error> {
        let connection = Connection::connect(&self.url, properties()).await?;
        let channel = connection.create_channel().await?;
        declare(&channel, &self.queue).await?;
        channel.basic_qos(TAKEN, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        // The broker gives it a tag of its own: several consumers of one name stand by for each other.
        let consumer = channel
            .basic_consume(self.queue.as_str().into(), "".into(), options, FieldTable::default())
            .await?;
        tracing::info!(queue = self.queue, consumer = self.name, "consuming");
        Ok((connection, consumer))
    }

    async fn take(&self, line: &mut Line) -> Result<Vec<Delivery>, String> {
        if line.open.is_none() {
            line.given.clear();
            let connected = tokio::time::timeout(self.timeout, self.connect()).await;
            let connected = connected.map_err(|_| format!("no answer within {:?}", self.timeout))?;
            line.open = Some(connected.map_err(|error| error.to_string())?);
        }
        let Line { open: Some((_, consumer)), given, last_tag } = line else { return Ok(Vec::new()) };
        let mut taken = Vec::new();
        let mut next = consumer.next().await;
        loop {
            let mut delivery = match next {
                Some(Ok(delivery)) => delivery,
                Some(Err(error)) => return Err(error.to_string()),
                None => return Err("the broker ended the subscription".into()),
            };
            *last_tag += 1;
            taken.push(Delivery { tag: *last_tag, body: std::mem::take(&mut delivery.data) });
            given.insert(*last_tag, delivery);
            if taken.len() >= usize::from(TAKEN) {
                return Ok(taken);
            }
            next = match consumer.next().now_or_never() {
                Some(next) => next,
                None => return Ok(taken),
            };
        }
    }
}

impl Source for RabbitSource {
    fn patience(&self) -> Duration {
        // A broker ends the channel of a consumer that acknowledges nothing for half an hour.
        Duration::from_mins(20)
    }

    fn release(&self) -> Releases<'_> {
        Box::pin(async move {
            self.line.lock().await.open = None;
        })
    }

    fn take(&self) -> Takes<'_> {
        Box::pin(async move {
            let mut line = self.line.lock().await;
            let taken = self.take(&mut line).await;
            if taken.is_err() {
                // What was given out comes again over the next connection.
                line.open = None;
            }
            taken
        })
    }

    fn settle(&self, settled: Vec<(u64, Settled)>) -> Settles<'_> {
        Box::pin(async move {
            let mut line = self.line.lock().await;
            for (tag, settled) in settled {
                let Some(taken) = line.given.remove(&tag) else { continue };
                let told = match settled {
                    Settled::Done => taken.acker.ack(BasicAckOptions::default()).await,
                    // Not put back: to the queue of the dead.
                    Settled::Dead => {
                        taken.acker.nack(BasicNackOptions { requeue: false, multiple: false }).await
                    }
                };
                // Of a channel that has ended nothing can be acknowledged any more.
                if !matches!(told, Ok(true)) {
                    line.open = None;
                    return Err(
                        told.map_or_else(|error| error.to_string(), |_| "the connection has ended".into())
                    );
                }
            }
            Ok(())
        })
    }
}
