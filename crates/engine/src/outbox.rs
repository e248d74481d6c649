//! The outbox's way out: a publisher that hands messages to a sink, what operators can do about them, and their end.

mod operators;
mod port;
mod publisher;
mod sweep;

pub use operators::{OutboxFilter, Replay, SinkState};
pub use port::{Away, Published, Publishes, Sink, Time, Verdict};
pub(crate) use publisher::Publisher;

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct OutboxOptions {
    /// How long a publisher has its shards without being heard of.
    pub lease: Duration,
    /// Refusals after which a message is dead; 0 is never.
    pub max_attempts: i64,
    /// Whether a dead message holds up the later ones about its aggregate.
    pub dead_hold: bool,
    /// How long messages are kept that were sent.
    pub ttl: Duration,
}
