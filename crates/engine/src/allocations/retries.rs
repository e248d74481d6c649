//! Many that are tried again at an operator's wish: in the background, a few at a time, and it can be stopped.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::allocations::view::{AllocationFilter, RetryFilter, RetryStatus, RetryView};
use guerdon_core::allocations::{AllocationId, AllocationStatus, Wished, wish_retried};
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::requests::RequestId;
use guerdon_core::{Code, EventId, Rejection, Timestamp, UserId};
use guerdon_store::allocations::retries::{self, Retry};
use guerdon_store::allocations::{listing, moving};
use guerdon_store::{Command, Fault, Priority, Tx, audit_log, each};

/// Rows that one transaction looks at.
const CHUNK: i64 = 400;

impl Engine {
    /// Begins to have all tried again that fit.
    pub async fn retry_allocations(
        &self,
        actor: Actor,
        filter: AllocationFilter,
    ) -> Result<RetryView, Failure> {
        let retry = Retry {
            id: self.new_resource(),
            filter: RetryFilter {
                status: filter.status.unwrap_or(AllocationStatus::Failed),
                event_id: filter.event_id.map(String::from),
                member_id: filter.member_id.map(String::from),
            },
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
                let retried = self.commit(Go { id: retry.id }).await?;
                if retried > 0 {
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
            action: Action::AllocationsRetried,
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

/// Sets the next few to be tried now.
struct Go {
    id: [u8; 16],
}

impl Command for Go {
    /// How many were set.
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
            if let Wished::Done(row) = wish_retried(row, now) {
                changed.push(row);
            }
        }
        moving::write(tx, &changed.iter().collect::<Vec<_>>())?;
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
