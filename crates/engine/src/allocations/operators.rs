//! What people see of allocations, and what operators can do about them.

use super::news;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::allocations::view::{AllocationFilter, AllocationView};
use guerdon_core::allocations::{
    Allocation, AllocationId, AllocationStatus, Wished, wish_cancelled, wish_retried,
};
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::{Code, Rejection, Timestamp, UserId};
use guerdon_store::allocations::{give_back, listing, moving};
use guerdon_store::outbox::Publishing;
use guerdon_store::{Command, Fault, Priority, Tx, audit_log};
use serde_json::Value;
use std::collections::HashMap;

impl Engine {
    /// Allocations, the newest first. A page that is filtered by status may come back short.
    pub async fn allocations(
        &self,
        filter: AllocationFilter,
        request: PageRequest<String>,
    ) -> Result<Page<Allocation, String>, Failure> {
        let before = match &request.after {
            Some(text) => Some(AllocationId::parse(text).ok_or_else(bad_cursor)?),
            None => None,
        };
        let rows = request.rows();
        let found = self.read(move |tx| listing::list(tx, &filter, before, rows)).await?;
        Ok(request.page_of(found, |row| row.id.to_string(), |end| end.to_string()))
    }

    /// What a user has won.
    pub async fn allocations_of(
        &self,
        user: &UserId,
        request: PageRequest<String>,
    ) -> Result<Page<Allocation, String>, Failure> {
        let filter = AllocationFilter { member_id: Some(user.clone()), ..AllocationFilter::default() };
        self.allocations(filter, request).await
    }

    pub async fn allocation(&self, id: AllocationId) -> Result<Allocation, Failure> {
        let found = self.read(move |tx| listing::find(tx, id)).await?;
        Ok(found.ok_or_else(|| not_found(id))?)
    }

    /// Has one tried again now.
    pub async fn retry_allocation(&self, actor: Actor, id: AllocationId) -> Result<Allocation, Failure> {
        let row = self.wish(actor, id, Wish::Retry).await?;
        self.deliveries.ring();
        Ok(row)
    }

    /// Calls one off, now or once it is known what became of the call under way.
    pub async fn cancel_allocation(&self, actor: Actor, id: AllocationId) -> Result<Allocation, Failure> {
        let row = self.wish(actor, id, Wish::Cancel).await?;
        self.deliveries.ring();
        Ok(row)
    }

    async fn wish(&self, actor: Actor, id: AllocationId, wish: Wish) -> Result<Allocation, Failure> {
        let publishing = self.intake().publishing;
        let change = Change { id, wish, actor, at: self.now(), publishing };
        Ok(self.commit(change).await??)
    }
}

fn bad_cursor() -> Rejection {
    Rejection::new(Code::BadCursor, "the cursor names no allocation")
}

fn not_found(id: AllocationId) -> Rejection {
    Rejection::new(Code::AllocationNotFound, format!("there is no allocation {id}"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Retry,
    Cancel,
}

struct Change {
    id: AllocationId,
    wish: Wish,
    actor: Actor,
    at: Timestamp,
    publishing: Publishing,
}

impl Command for Change {
    type Output = Result<Allocation, Rejection>;
    const NAME: &'static str = "change_allocation";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        // Rows in the order of their ids, and the log last.
        let mut order: Vec<_> = (0..batch.len()).collect();
        order.sort_by_key(|index| batch[*index].id);
        let ids: Vec<_> = order.iter().map(|index| batch[*index].id).collect();
        let mut held: HashMap<_, _> = moving::lock(tx, &ids)?.into_iter().map(|row| (row.id, row)).collect();
        let mut outcomes: Vec<Option<Self::Output>> = batch.iter().map(|_| None).collect();
        let (mut lines, mut cancelled) = (Vec::new(), Vec::new());
        for index in order {
            outcomes[index] = Some(batch[index].run(tx, &mut held, &mut lines, &mut cancelled)?);
        }
        // The stock after the rows, as whoever settles deliveries does.
        give_back(tx, &cancelled.iter().collect::<Vec<_>>())?;
        audit_log::append(tx, &lines)?;
        outcomes.into_iter().map(|outcome| outcome.ok_or(Fault::Panicked)).collect()
    }
}

impl Change {
    fn run(
        &self,
        tx: &mut Tx<'_>,
        held: &mut HashMap<AllocationId, Allocation>,
        lines: &mut Vec<AuditEntry>,
        cancelled: &mut Vec<Allocation>,
    ) -> Result<Result<Allocation, Rejection>, Fault> {
        let Some(before) = held.get(&self.id).cloned() else { return Ok(Err(not_found(self.id))) };
        let now = tx.now();
        let (wished, action) = match self.wish {
            Wish::Retry => (wish_retried(before.clone(), now), Action::AllocationRetried),
            Wish::Cancel => (wish_cancelled(before.clone(), now), Action::AllocationCancelled),
        };
        let after = match wished {
            Wished::Done(row) | Wished::Noted(row) => row,
            Wished::Already => return Ok(Ok(before)),
            Wished::Refused => {
                let detail = format!("it is {}", before.status.as_str());
                return Ok(Err(Rejection::new(Code::AllocationRefused, detail)));
            }
        };
        moving::write(tx, &[&after])?;
        held.insert(self.id, after.clone());
        if after.status == AllocationStatus::Cancelled {
            news::tell(tx, self.publishing, [&after])?;
            cancelled.push(after.clone());
        }
        let (old, new) = (Some(snapshot(&before)?), Some(snapshot(&after)?));
        lines.push(AuditEntry {
            at: self.at,
            actor: self.actor.clone(),
            action,
            target_id: self.id.to_string(),
            before: old,
            after: new,
        });
        Ok(Ok(after))
    }
}

fn snapshot(row: &Allocation) -> Result<Value, Fault> {
    serde_json::to_value(AllocationView::of(row)).map_err(|error| Fault::Inconsistent(error.to_string()))
}
