//! Requests: letting people in, and showing them where they stand.

mod accept;
mod news;
mod reads;
mod rewards;
mod sweep;
mod user_index;
mod watch;

pub(crate) use news::tell;
pub use reads::{RequestFilter, ShownRequest, Summary};
pub(crate) use rewards::{Won, reward};
pub use watch::LineFollower;
pub(crate) use watch::Watch;

use crate::allocations::Deliveries;
use crate::clock::millis;
use crate::engine::{Engine, EngineOptions};
use crate::failure::Failure;
use crate::quiet::Looked;
use crate::trace;
use accept::Submit;
use guerdon_core::draw::Hash;
use guerdon_core::events::Event;
use guerdon_core::requests::Request;
use guerdon_core::{EventId, UserId};
use guerdon_store::Engine as Database;
use guerdon_store::outbox::Publishing;
use guerdon_store::requests::UserIndex;
use std::sync::Arc;

/// What every acceptance needs at hand.
pub(crate) struct Intake {
    pub(crate) index: UserIndex,
    pub(crate) publishing: Publishing,
    looked: Looked,
    pub(crate) allocations_lease_ms: i64,
    pub(crate) deliveries: Arc<Deliveries>,
}

impl Intake {
    pub(crate) fn new(
        options: &EngineOptions,
        database: Database,
        publishing: Publishing,
        deliveries: Arc<Deliveries>,
    ) -> Self {
        Self {
            index: UserIndex::on(database),
            publishing,
            looked: Looked::default(),
            allocations_lease_ms: millis(options.allocations.lease),
            deliveries,
        }
    }
}

/// A lottery, and what somebody holds who entered it.
#[derive(Clone, Debug)]
pub struct Lottery {
    pub event: Arc<Event>,
    /// The entry's leaf in the tree of the draw.
    pub receipt: Option<Hash>,
}

/// What became of an application.
#[derive(Clone, Debug)]
pub struct Applied {
    pub request: Request,
    /// Whether the person stood in line already.
    pub duplicate: bool,
    /// The line's watermark at that moment.
    pub decided_position: i64,
    /// What a lottery shows beside the request.
    pub lottery: Option<Lottery>,
    pub(crate) event_key: i64,
    /// What was won by it just now.
    pub(crate) won: Won,
}

impl Engine {
    /// Puts a person in an event's line, once. The answer comes when that is durable.
    pub async fn apply(&self, event_id: EventId, user_id: UserId) -> Result<Applied, Failure> {
        let now = self.now();
        let (intake, trace) = (Arc::clone(self.intake()), trace::current());
        let command = Submit { event_id, user_id, requested_at: now, intake, trace };
        Ok(self.commit(command).await??)
    }
}
