//! What the publisher needs from outside: somewhere to put messages.

use guerdon_core::outbox::Message;
use guerdon_store::Stopwatch;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::watch;

/// Where messages go: a broker, or somebody's web server.
pub trait Sink: Send + Sync + 'static {
    /// For logs.
    fn name(&self) -> &'static str;

    /// Where it is, without anything secret.
    fn address(&self) -> &str;

    /// Hands over messages, no two about the same aggregate, and waits until each is safe there or known not to be.
    /// Nothing is begun that would take longer than there is time; what is left over is `Unknown`.
    fn publish<'a>(&'a self, messages: &'a [Message], time: Time) -> Publishes<'a>;
}

/// How much time there is: as long as the lease lasts and nobody asks to stop.
#[derive(Clone, Debug)]
pub struct Time {
    since: Stopwatch,
    left: Duration,
    stopping: watch::Receiver<bool>,
}

impl Time {
    pub(super) fn new(left: Duration, stopping: watch::Receiver<bool>) -> Self {
        Self { since: Stopwatch::start(), left, stopping }
    }

    /// The same, but no more than this from now on.
    #[must_use]
    pub fn at_most(mut self, most: Duration) -> Self {
        self.left = self.left.min(self.since.elapsed() + most);
        self
    }

    /// Whether something may be begun that takes so long.
    pub fn allows(&self, time: Duration) -> bool {
        !*self.stopping.borrow() && self.since.elapsed() + time < self.left
    }
}

pub type Publishes<'a> = Pin<Box<dyn Future<Output = Published> + Send + 'a>>;

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is safe there.
    Sent,
    /// It is not wanted, this one for itself.
    Refused { reason: String, retry_after: Option<Duration> },
    /// It was not tried, or nobody knows.
    Unknown,
}

impl Verdict {
    /// Why it was not sent, if it was not.
    pub(super) fn failure(&self) -> Option<String> {
        match self {
            Self::Sent => None,
            Self::Refused { reason, .. } => Some(reason.clone()),
            Self::Unknown => Some("it was not tried, or nobody knows".into()),
        }
    }
}

/// What became of all of them, in their order; and why the sink is no use at the moment, if it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub verdicts: Vec<Verdict>,
    pub away: Option<Away>,
}

impl Published {
    /// None was sent.
    pub fn none(count: usize, away: Away) -> Self {
        Self { verdicts: vec![Verdict::Unknown; count], away: Some(away) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Away {
    /// For now; it may say for how long.
    ForNow { reason: String, retry_after: Option<Duration> },
    /// It wants nothing more from us.
    ForGood { reason: String },
}
