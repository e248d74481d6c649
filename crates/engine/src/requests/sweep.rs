//! What happens to lines by itself: the ends of cancelled ones, and the end of what was kept long enough.

use super::news;
use crate::clock::millis;
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::requests::{RequestState, ResultCode};
use guerdon_core::{EventId, Timestamp};
use guerdon_store::outbox::Publishing;
use guerdon_store::requests::sweeping;
use guerdon_store::{Command, Fault, Priority, Tx, each, requests};

/// Rows that one transaction ends or sweeps: each writes its news as well.
const CHUNK: i64 = 500;

impl Engine {
    /// Ends everybody who is in line for an event that was cancelled.
    pub(crate) async fn end_cancelled_lines(&self) {
        let ended = async {
            for event_id in self.read(requests::cancelled_undecided).await? {
                let publishing = self.intake().publishing;
                while self.commit(EndCancelled { event_id: event_id.clone(), publishing }).await? > 0 {}
            }
            Ok::<_, Failure>(())
        };
        if let Err(failure) = ended.await {
            tracing::debug!(%failure, "cancelled lines are ended later");
        }
    }

    /// Removes requests that were kept long enough.
    pub(crate) async fn sweep_requests(&self) {
        let now = self.now();
        let finished_before = now.plus_millis(-millis(self.options.requests_ttl));
        let ended_before = now.plus_millis(-millis(self.options.requests_ttl_after_event));
        let swept = async {
            for event_id in self.read(move |tx| sweeping::due(tx, ended_before)).await? {
                while self.commit(Sweep { event_id: event_id.clone(), finished_before }).await? > 0 {}
            }
            Ok::<_, Failure>(())
        };
        if let Err(failure) = swept.await {
            tracing::debug!(%failure, "requests are swept later");
        }
    }
}

struct EndCancelled {
    event_id: EventId,
    publishing: Publishing,
}

impl Command for EndCancelled {
    /// How many rows were ended; 0 when nothing is left.
    type Output = i64;
    const NAME: &'static str = "end_cancelled";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<i64>, Fault> {
        each(batch, |end| end.chunk(tx))
    }
}

impl EndCancelled {
    fn chunk(&self, tx: &mut Tx<'_>) -> Result<i64, Fault> {
        requests::lock_line(tx, &self.event_id)?;
        let now = tx.now();
        let Some(mut line) = requests::find_line(tx, &self.event_id)? else { return Ok(0) };
        if line.decided_position >= line.last_position {
            return Ok(0);
        }
        let mut rows = requests::list(tx, line.event_key, line.decided_position, CHUNK)?;
        let Some(last) = rows.last().map(|row| row.key.position()) else {
            return Err(Fault::Inconsistent(format!("the line of {} ends early", self.event_id)));
        };
        let result = ResultCode::RejectedEventCancelled;
        requests::reject_queued(tx, line.event_key, line.decided_position, last, result, now)?;
        for row in &mut rows {
            line.tally.add(result, row.requested_at, now);
            row.state = RequestState::Finished { result, started_at: now, finished_at: now };
        }
        line.decided_position = last;
        requests::update_line(tx, &line)?;
        news::tell(tx, self.publishing, &rows)?;
        i64::try_from(rows.len()).map_err(|_| Fault::Panicked)
    }
}

struct Sweep {
    event_id: EventId,
    finished_before: Timestamp,
}

impl Command for Sweep {
    /// How many requests were removed; 0 when none is old enough.
    type Output = i64;
    const NAME: &'static str = "sweep_requests";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<i64>, Fault> {
        each(batch, |sweep| {
            requests::lock_line(tx, &sweep.event_id)?;
            sweeping::sweep(tx, &sweep.event_id, sweep.finished_before, CHUNK)
        })
    }
}
