//! The end of what an event that was cancelled had yet to give.

use super::news;
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::EventId;
use guerdon_core::allocations::{AllocationStatus, Wished, wish_cancelled};
use guerdon_store::allocations::{give_back, moving};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Tx, each, requests};

/// Rows that one transaction ends.
const CHUNK: i64 = 400;

impl Engine {
    /// Cancels what cancelled events have yet to give; what is being delivered is noted, and ends with its call.
    pub(crate) async fn end_cancelled_allocations(&self) {
        let ended = async {
            for event_id in self.read(moving::cancelled_events).await? {
                let publishing = self.intake().publishing;
                while self.commit(EndOpen { event_id: event_id.clone(), publishing }).await? > 0 {}
            }
            Ok::<_, Failure>(())
        };
        if let Err(failure) = ended.await {
            tracing::debug!(%failure, "allocations of cancelled events are ended later");
        }
    }
}

struct EndOpen {
    event_id: EventId,
    publishing: Publishing,
}

impl Command for EndOpen {
    /// How many were ended or noted; 0 when nothing is left.
    type Output = usize;
    const NAME: &'static str = "end_open_allocations";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<usize>, Fault> {
        each(batch, |end| {
            requests::lock_line(tx, &end.event_id)?;
            let now = tx.now();
            let mut changed = Vec::new();
            for row in moving::lock_open(tx, &end.event_id, CHUNK)? {
                match wish_cancelled(row, now) {
                    Wished::Done(row) | Wished::Noted(row) => changed.push(row),
                    Wished::Already | Wished::Refused => {}
                }
            }
            moving::write(tx, &changed.iter().collect::<Vec<_>>())?;
            let cancelled: Vec<_> =
                changed.iter().filter(|row| row.status == AllocationStatus::Cancelled).collect();
            give_back(tx, &cancelled)?;
            news::tell(tx, end.publishing, cancelled)?;
            Ok(changed.len())
        })
    }
}
