//! Many allocations that are tried again, or cancelled, a few at a time.

use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use guerdon_core::allocations::AllocationId;
use guerdon_core::allocations::view::{BulkAction, RetryFilter, RetryStatus};
use serde::{Deserialize, Serialize};

macro_rules! retry_columns {
    () => {
        "retry_id, filter, status, after_id, looked_at, retried, created_at, finished_at"
    };
}

statements! {
    INSERT = concat!("INSERT INTO allocation_retries (", retry_columns!(), ")
        VALUES ($1, $2, 'RUNNING', $3, 0, 0, $4, NULL)");
    FIND = concat!("SELECT ", retry_columns!(), " FROM allocation_retries WHERE retry_id = $1");
    RUNNING = concat!("SELECT ", retry_columns!(), " FROM allocation_retries WHERE status = 'RUNNING'
        ORDER BY retry_id LIMIT 1");
    NEWEST = concat!("SELECT ", retry_columns!(), " FROM allocation_retries WHERE retry_id < $1
        ORDER BY retry_id DESC LIMIT $2");
    LOCK = concat!("SELECT ", retry_columns!(), " FROM allocation_retries WHERE retry_id = $1"),
        postgres: concat!("SELECT ", retry_columns!(), " FROM allocation_retries WHERE retry_id = $1 FOR UPDATE");
    WRITE = "UPDATE allocation_retries SET status = $2, after_id = $3, looked_at = $4, retried = $5,
            finished_at = NULLIF(CAST($6 AS BIGINT), -1)
        WHERE retry_id = $1";
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub id: [u8; 16],
    pub filter: RetryFilter,
    pub action: BulkAction,
    pub note: Option<String>,
    pub status: RetryStatus,
    /// The last that was looked at.
    pub after: AllocationId,
    pub looked_at: i64,
    pub retried: i64,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

/// What is wanted, as it is stored. Those of before there was a choice are retries.
#[derive(Serialize, Deserialize)]
struct Wanted {
    #[serde(flatten)]
    filter: RetryFilter,
    #[serde(default)]
    action: Option<BulkAction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub fn insert(tx: &mut Tx<'_>, retry: &Retry) -> Result<(), Fault> {
    let wanted =
        Wanted { filter: retry.filter.clone(), action: Some(retry.action), note: retry.note.clone() };
    let filter = serde_json::to_string(&wanted).map_err(|error| Fault::inconsistent(error.to_string()))?;
    let params = [
        Param::Blob(&retry.id),
        (&filter).into(),
        Param::Blob(retry.after.as_bytes()),
        retry.created_at.into(),
    ];
    tx.execute(&INSERT, &params).map(drop)
}

pub fn find(tx: &mut Tx<'_>, id: &[u8; 16]) -> Result<Option<Retry>, Fault> {
    tx.query_one(&FIND, &[Param::Blob(id)], retry)
}

/// The newest first, before the given one.
pub fn list(tx: &mut Tx<'_>, before: &[u8; 16], limit: i64) -> Result<Vec<Retry>, Fault> {
    tx.query(&NEWEST, &[Param::Blob(before), limit.into()], retry)
}

/// One that is not done.
pub fn running(tx: &mut Tx<'_>) -> Result<Option<Retry>, Fault> {
    tx.query_one(&RUNNING, &[], retry)
}

pub fn lock(tx: &mut Tx<'_>, id: &[u8; 16]) -> Result<Option<Retry>, Fault> {
    tx.query_one(&LOCK, &[Param::Blob(id)], retry)
}

pub fn write(tx: &mut Tx<'_>, retry: &Retry) -> Result<(), Fault> {
    let params = [
        Param::Blob(&retry.id),
        retry.status.as_str().into(),
        Param::Blob(retry.after.as_bytes()),
        retry.looked_at.into(),
        retry.retried.into(),
        retry.finished_at.map_or(-1, Timestamp::as_millis).into(),
    ];
    tx.execute(&WRITE, &params).map(drop)
}

fn retry(row: &Row<'_>) -> Result<Retry, Fault> {
    let odd = |what: &str| Fault::inconsistent(format!("a retry of many: {what}"));
    let Wanted { filter, action, note } =
        serde_json::from_str(row.text(1)?).map_err(|error| odd(&error.to_string()))?;
    Ok(Retry {
        id: row.uuid(0)?,
        filter,
        action: action.unwrap_or(BulkAction::Retry),
        note,
        status: RetryStatus::parse(row.text(2)?).ok_or_else(|| odd("its status"))?,
        after: AllocationId::from_bytes(row.uuid(3)?),
        looked_at: row.int(4)?,
        retried: row.int(5)?,
        created_at: row.timestamp(6)?,
        finished_at: row.optional_timestamp(7)?,
    })
}
