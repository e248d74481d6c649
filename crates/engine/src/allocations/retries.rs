//! Many that are tried again, or cancelled, at an operator's wish: in the background, a few at a time, and it can be stopped.

use super::news;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::allocations::view::{
    AllocationFilter, Bulk, BulkAction, CountView, RetryFilter, RetryStatus, RetryView,
};
use guerdon_core::allocations::{AllocationId, AllocationStatus, Wished, wish_cancelled, wish_retried};
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::requests::RequestId;
use guerdon_core::{Code, EventId, Rejection, Timestamp, UserId};
use guerdon_store::allocations::retries::{self, Retry};
use guerdon_store::allocations::{give_back, listing, moving};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Tx, audit_log, each};

/// Rows that one transaction looks at.
const CHUNK: i64 = 400;
/// Rows that are looked at to say how many there are.
const COUNTED_MAX: i64 = 10_000;

impl Engine {
    /// Begins to have all tried again, or cancelled, that fit.
    pub async fn change_allocations(&self, actor: Actor, bulk: Bulk) -> Result<RetryView, Failure> {
        let Bulk { filter, action, note } = bulk;
        let retry = Retry {
            id: self.new_resource(),
            filter: RetryFilter {
                status: filter.status.unwrap_or(AllocationStatus::Failed),
                event_id: filter.event_id.map(String::from),
                member_id: filter.member_id.map(String::from),
            },
            action,
            note,
            status: RetryStatus::Running,
            after: AllocationId::from_bytes([0; 16]),
            looked_at: 0,
            retried: 0,
            created_at: self.now(),
            finished_at: None,
        };
        Ok(view(&self.commit(Change { retry, stop: false, actor, at: self.now() }).await??))
    }

    pub async fn retry_of_many(&self, id: RequestId) -> Result<RetryView, Failure> {
        let found = self.read(move |tx| retries::find(tx, id.as_bytes())).await?;
        Ok(view(&found.ok_or_else(|| not_found(id))?))
    }

    /// The newest first.
    pub async fn retries_of_many(
        &self,
        request: PageRequest<String>,
    ) -> Result<Page<RetryView, String>, Failure> {
        let bad_cursor = || Rejection::new(Code::BadCursor, "the cursor names no retry");
        let before = match &request.after {
            Some(text) => *RequestId::parse(text).ok_or_else(bad_cursor)?.as_bytes(),
            None => [0xff; 16],
        };
        let rows = request.rows();
        let found = self.read(move |tx| retries::list(tx, &before, rows)).await?;
        Ok(request.page(found.iter().map(view).collect(), |view: &RetryView| view.retry_id.clone()))
    }

    /// How many a change of many would look for, as far as it can be counted at once.
    pub async fn count_allocations(&self, filter: AllocationFilter) -> Result<CountView, Failure> {
        let status = filter.status.unwrap_or(AllocationStatus::Failed);
        let (count, looked_at) =
            self.read(move |tx| listing::count_open(tx, &filter, status, COUNTED_MAX + 1)).await?;
        Ok(CountView { count, complete: looked_at <= COUNTED_MAX })
    }

    /// Stops it where it is; what was set to be tried again is.
    pub async fn stop_retry(&self, actor: Actor, id: RequestId) -> Result<RetryView, Failure> {
        let found = self.read(move |tx| retries::find(tx, id.as_bytes())).await?;
        let retry = found.ok_or_else(|| not_found(id))?;
        Ok(view(&self.commit(Change { retry, stop: true, actor, at: self.now() }).await??))
    }

    /// Goes on with what was begun.
    pub(crate) async fn go_on_with_retries(&self) {
        let went = async {
            while let Some(retry) = self.read(retries::running).await? {
                let publishing = self.intake().publishing;
                let changed = self.commit(Go { id: retry.id, publishing }).await?;
                if changed > 0 {
                    self.deliveries.ring();
                }
            }
            Ok::<_, Failure>(())
        };
        if let Err(failure) = went.await {
            tracing::debug!(%failure, "retries go on later");
        }
    }
}

fn not_found(id: RequestId) -> Rejection {
    Rejection::new(Code::RetryNotFound, format!("there is no retry {id}"))
}

fn view(retry: &Retry) -> RetryView {
    RetryView {
        retry_id: RequestId::from_bytes(retry.id).to_string(),
        status: retry.status,
        filter: retry.filter.clone(),
        action: retry.action,
        note: retry.note.clone(),
        looked_at: retry.looked_at,
        retried: retry.retried,
        created_at: retry.created_at,
        finished_at: retry.finished_at,
    }
}

struct Change {
    retry: Retry,
    stop: bool,
    actor: Actor,
    at: Timestamp,
}

impl Command for Change {
    type Output = Result<Retry, Rejection>;
    const NAME: &'static str = "change_retry";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        let mut lines = Vec::new();
        let mut outcomes = Vec::with_capacity(batch.len());
        for change in batch {
            outcomes.push(change.run(tx, &mut lines)?);
        }
        audit_log::append(tx, &lines)?;
        Ok(outcomes)
    }
}

impl Change {
    fn run(&self, tx: &mut Tx<'_>, lines: &mut Vec<AuditEntry>) -> Result<Result<Retry, Rejection>, Fault> {
        let mut retry = self.retry.clone();
        let mut before = None;
        if self.stop {
            let id = RequestId::from_bytes(retry.id);
            let Some(present) = retries::lock(tx, &retry.id)? else { return Ok(Err(not_found(id))) };
            if present.status != RetryStatus::Running {
                return Ok(Ok(present));
            }
            before = Some(json(&present)?);
            retry = Retry { status: RetryStatus::Stopped, finished_at: Some(tx.now()), ..present };
            retries::write(tx, &retry)?;
        } else {
            retries::insert(tx, &retry)?;
        }
        lines.push(AuditEntry {
            at: self.at,
            actor: self.actor.clone(),
            action: match retry.action {
                BulkAction::Retry => Action::AllocationsRetried,
                BulkAction::Cancel => Action::AllocationsCancelled,
            },
            target_id: RequestId::from_bytes(retry.id).to_string(),
            before,
            after: Some(json(&retry)?),
        });
        Ok(Ok(retry))
    }
}

fn json(retry: &Retry) -> Result<serde_json::Value, Fault> {
    serde_json::to_value(view(retry)).map_err(|error| Fault::Inconsistent(error.to_string()))
}

/// Sets the next few to be tried now, or cancels them.
struct Go {
    id: [u8; 16],
    publishing: Publishing,
}

impl Command for Go {
    /// How many were changed.
    type Output = i64;
    const NAME: &'static str = "retry_some";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<i64>, Fault> {
        each(batch, |go| go.run(tx))
    }
}

impl Go {
    fn run(&self, tx: &mut Tx<'_>) -> Result<i64, Fault> {
        let Some(mut retry) = retries::lock(tx, &self.id)? else { return Ok(0) };
        if retry.status != RetryStatus::Running {
            return Ok(0);
        }
        let id = |text: &Option<String>| text.clone();
        let filter = AllocationFilter {
            status: Some(retry.filter.status),
            event_id: id(&retry.filter.event_id)
                .map(EventId::parse)
                .transpose()
                .map_err(Fault::Inconsistent)?,
            member_id: id(&retry.filter.member_id)
                .map(UserId::parse)
                .transpose()
                .map_err(Fault::Inconsistent)?,
        };
        let now = tx.now();
        let mut rows = listing::lock_open(tx, &filter, retry.after, CHUNK)?;
        let looked_at = i64::try_from(rows.len()).map_err(|_| Fault::Panicked)?;
        let last = rows.last().map(|row| row.id);
        // What was won since then is not what was meant.
        rows.retain(|row| row.created_at <= retry.created_at);
        let mut changed = Vec::with_capacity(rows.len());
        for row in rows {
            let wished = match retry.action {
                BulkAction::Retry => wish_retried(row, now),
                BulkAction::Cancel => wish_cancelled(row, now),
            };
            match (wished, retry.action) {
                // What is under way is cancelled once it is known what became of it.
                (Wished::Done(row), _) | (Wished::Noted(row), BulkAction::Cancel) => changed.push(row),
                _ => {}
            }
        }
        moving::write(tx, &changed.iter().collect::<Vec<_>>())?;
        let cancelled: Vec<_> =
            changed.iter().filter(|row| row.status == AllocationStatus::Cancelled).collect();
        news::tell(tx, self.publishing, cancelled.iter().copied())?;
        // The stock after the rows, as whoever settles deliveries does.
        give_back(tx, &cancelled)?;
        let retried = i64::try_from(changed.len()).map_err(|_| Fault::Panicked)?;
        retry.looked_at += looked_at;
        retry.retried += retried;
        match last {
            Some(last) if looked_at == CHUNK => retry.after = last,
            _ => (retry.status, retry.finished_at) = (RetryStatus::Done, Some(now)),
        }
        retries::write(tx, &retry)?;
        Ok(retried)
    }
}
