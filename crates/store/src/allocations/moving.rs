//! Allocations on their way: which are due, who takes them up, and where they end.

use super::{allocation, allocation_columns};
use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::allocations::{Allocation, AllocationId};
use guerdon_core::{EventId, Timestamp};

/// What can be delivered is in this state; the words of the index.
macro_rules! due {
    () => {
        "reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED' AND next_retry_at IS NOT NULL"
    };
}

macro_rules! take_set {
    () => {
        "reward_status = 'PROCESSING', worker_id = $2, deadline = $4, next_retry_at = $4, epoch = epoch + 1,
        outcome_unknown = CASE WHEN reward_status = 'PROCESSING' THEN 1 ELSE outcome_unknown END"
    };
}

macro_rules! takeable {
    () => {
        "((reward_status = 'PENDING' AND next_retry_at IS NOT NULL)
            OR (reward_status IN ('FAILED', 'PROCESSING') AND next_retry_at <= $3))"
    };
}

statements! {
    DUE = concat!("SELECT allocation_id FROM event_reward_allocation WHERE provider = $1 AND next_retry_at <= $2 AND ",
        due!(), " ORDER BY next_retry_at LIMIT $3");
    NEXT_PROVIDER = concat!("SELECT provider FROM event_reward_allocation WHERE provider > $1 AND ", due!(),
        " ORDER BY provider, next_retry_at LIMIT 1");
    COUNT_DUE = concat!("SELECT COUNT(*), MIN(at) FROM (SELECT next_retry_at AS at FROM event_reward_allocation
        WHERE provider = $1 AND ", due!(), " ORDER BY next_retry_at LIMIT $2) waiting");
    TAKE = concat!("UPDATE event_reward_allocation SET ", take_set!(), " WHERE allocation_id = $1 AND ", takeable!(),
        " RETURNING ", allocation_columns!()),
        postgres: concat!("UPDATE event_reward_allocation SET ", take_set!(), "
        WHERE allocation_id = ANY(ARRAY(SELECT allocation_id FROM event_reward_allocation
            WHERE allocation_id = ANY(CAST($1 AS BYTEA[])) ORDER BY allocation_id FOR UPDATE SKIP LOCKED)) AND ",
        takeable!(), " RETURNING ", allocation_columns!());
    LOCK = concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation WHERE allocation_id = $1"),
        postgres: concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation
        WHERE allocation_id = ANY(CAST($1 AS BYTEA[])) ORDER BY allocation_id FOR UPDATE");
    LOCK_OPEN_OF_EVENT = concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation
        WHERE event_id = $1 AND reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED' AND cancel_requested_at IS NULL
        ORDER BY allocation_id LIMIT $2"),
        postgres: concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation
        WHERE event_id = $1 AND reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED' AND cancel_requested_at IS NULL
        ORDER BY allocation_id LIMIT $2 FOR UPDATE");
    LAPSED = concat!("SELECT allocation_id FROM event_reward_allocation WHERE provider = $1 AND next_retry_at <= $2
        AND reward_status = 'PROCESSING' AND ", due!(), " ORDER BY next_retry_at LIMIT $3");
    LAPSE = "UPDATE event_reward_allocation SET reward_status = 'FAILED', outcome_unknown = 1, epoch = epoch + 1,
            worker_id = NULL, deadline = NULL, error_code = 'OUTCOME_UNKNOWN', error_message = $3
        WHERE allocation_id = $1 AND reward_status = 'PROCESSING' AND next_retry_at <= $2";
    CANCELLED_EVENTS = "SELECT e.event_id FROM events e WHERE e.status = 'CANCELLED' AND EXISTS (
            SELECT 1 FROM event_reward_allocation a WHERE a.event_id = e.event_id
            AND a.reward_status <> 'SUCCESS' AND a.reward_status <> 'CANCELLED' AND a.cancel_requested_at IS NULL)
        ORDER BY e.event_id LIMIT 100";
    WRITE = "UPDATE event_reward_allocation SET reward_status = $2, retry_count = $3, next_retry_at = NULLIF($4, -1),
            error_code = NULLIF($5, ''), error_message = NULLIF($6, ''), external_transaction_id = NULLIF($7, ''),
            processed_at = NULLIF($8, -1), outcome_unknown = $9, cancel_requested_at = NULLIF($10, -1),
            worker_id = CASE WHEN $2 = 'PROCESSING' THEN worker_id END,
            deadline = CASE WHEN $2 = 'PROCESSING' THEN deadline END
        WHERE allocation_id = $1",
        postgres: "UPDATE event_reward_allocation a SET reward_status = row.status, retry_count = row.retries,
            next_retry_at = NULLIF(row.next, -1), error_code = NULLIF(row.code, ''),
            error_message = NULLIF(row.message, ''), external_transaction_id = NULLIF(row.transaction, ''),
            processed_at = NULLIF(row.processed, -1), outcome_unknown = row.unknown,
            cancel_requested_at = NULLIF(row.cancel, -1),
            worker_id = CASE WHEN row.status = 'PROCESSING' THEN a.worker_id END,
            deadline = CASE WHEN row.status = 'PROCESSING' THEN a.deadline END
        FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS TEXT[]), CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[]),
            CAST($5 AS TEXT[]), CAST($6 AS TEXT[]), CAST($7 AS TEXT[]), CAST($8 AS BIGINT[]), CAST($9 AS BIGINT[]),
            CAST($10 AS BIGINT[]))
            AS row (id, status, retries, next, code, message, transaction, processed, unknown, cancel)
        WHERE a.allocation_id = row.id";
}

/// What a provider has to deliver by now, the longest due first.
pub fn due(tx: &mut Tx<'_>, provider: &str, now: Timestamp, limit: i64) -> Result<Vec<AllocationId>, Fault> {
    tx.query(&DUE, &[provider.into(), now.into(), limit.into()], |row| {
        Ok(AllocationId::from_bytes(row.uuid(0)?))
    })
}

/// Allocations whose lease has ended.
pub fn lapsed(
    tx: &mut Tx<'_>,
    provider: &str,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<AllocationId>, Fault> {
    tx.query(&LAPSED, &[provider.into(), now.into(), limit.into()], |row| {
        Ok(AllocationId::from_bytes(row.uuid(0)?))
    })
}

/// Takes allocations away from whoever had them when their lease ended: nobody knows what became of their calls.
pub fn lapse(tx: &mut Tx<'_>, ids: &[AllocationId]) -> Result<u64, Fault> {
    let now = tx.now();
    let message = "whoever delivered it is gone";
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    let rows = ids.iter().map(|id| [Param::Blob(id.as_bytes()), now.into(), message.into()]);
    tx.execute_rows(&LAPSE, rows)
}

/// Who has something to deliver, now or later.
pub fn providers(tx: &mut Tx<'_>) -> Result<Vec<String>, Fault> {
    let mut found: Vec<String> = Vec::new();
    loop {
        let after = found.last().map_or("", String::as_str);
        match tx.query_one(&NEXT_PROVIDER, &[after.into()], |row| Ok(row.text(0)?.to_owned()))? {
            Some(next) => found.push(next),
            None => return Ok(found),
        }
    }
}

/// How much a provider has to deliver, counted up to a limit, and when the first of it is due.
pub fn backlog(tx: &mut Tx<'_>, provider: &str, most: i64) -> Result<(i64, Option<Timestamp>), Fault> {
    let read = |row: &crate::param::Row<'_>| Ok((row.int(0)?, row.optional_timestamp(1)?));
    Ok(tx.query_one(&COUNT_DUE, &[provider.into(), most.into()], read)?.unwrap_or_default())
}

/// Takes allocations up under a lease, those among them that nobody else has.
pub fn take(
    tx: &mut Tx<'_>,
    ids: &[AllocationId],
    worker: &str,
    deadline: Timestamp,
) -> Result<Vec<Allocation>, Fault> {
    let now = tx.now();
    if tx.engine() == Engine::Postgres {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let params = [Param::Blobs(&ids), worker.into(), now.into(), deadline.into()];
        return tx.query(&TAKE, &params, allocation);
    }
    let mut taken = Vec::with_capacity(ids.len());
    for id in ids {
        let params = [Param::Blob(id.as_bytes()), worker.into(), now.into(), deadline.into()];
        taken.extend(tx.query_one(&TAKE, &params, allocation)?);
    }
    Ok(taken)
}

/// Holds allocations until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, ids: &[AllocationId]) -> Result<Vec<Allocation>, Fault> {
    if tx.engine() == Engine::Postgres {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        return tx.query(&LOCK, &[Param::Blobs(&ids)], allocation);
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(tx.query_one(&LOCK, &[Param::Blob(id.as_bytes())], allocation)?);
    }
    Ok(found)
}

/// Events that were cancelled and have something yet to give.
pub fn cancelled_events(tx: &mut Tx<'_>) -> Result<Vec<EventId>, Fault> {
    tx.query(&CANCELLED_EVENTS, &[], |row| EventId::parse(row.text(0)?).map_err(Fault::inconsistent))
}

/// Holds some of an event's allocations that are neither at their end nor being cancelled.
pub fn lock_open(tx: &mut Tx<'_>, event_id: &EventId, limit: i64) -> Result<Vec<Allocation>, Fault> {
    tx.query(&LOCK_OPEN_OF_EVENT, &[event_id.as_str().into(), limit.into()], allocation)
}

/// Writes where allocations that are held stand now.
pub fn write(tx: &mut Tx<'_>, rows: &[&Allocation]) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let time = |time: Option<Timestamp>| time.map_or(-1, Timestamp::as_millis);
    let code = |row: &&Allocation| row.trouble.as_ref().map_or(String::new(), |trouble| trouble.code.clone());
    let message =
        |row: &&Allocation| row.trouble.as_ref().map_or(String::new(), |trouble| trouble.message.clone());
    let codes: Vec<_> = rows.iter().map(code).collect();
    let messages: Vec<_> = rows.iter().map(message).collect();
    let written = if tx.engine() == Engine::Sqlite {
        let params = rows.iter().zip(codes.iter().zip(&messages)).map(|(row, (code, message))| {
            [
                Param::Blob(row.id.as_bytes()),
                row.status.as_str().into(),
                row.retry_count.into(),
                time(row.next_retry_at).into(),
                code.into(),
                message.into(),
                row.transaction_id.as_deref().unwrap_or("").into(),
                time(row.processed_at).into(),
                i64::from(row.outcome_unknown).into(),
                time(row.cancel_requested_at).into(),
            ]
        });
        tx.execute_rows(&WRITE, params)?
    } else {
        let ids: Vec<&[u8]> = rows.iter().map(|row| row.id.as_bytes().as_slice()).collect();
        let statuses: Vec<_> = rows.iter().map(|row| row.status.as_str()).collect();
        let retries: Vec<_> = rows.iter().map(|row| row.retry_count).collect();
        let next: Vec<_> = rows.iter().map(|row| time(row.next_retry_at)).collect();
        let codes: Vec<_> = codes.iter().map(String::as_str).collect();
        let messages: Vec<_> = messages.iter().map(String::as_str).collect();
        let transactions: Vec<_> =
            rows.iter().map(|row| row.transaction_id.as_deref().unwrap_or("")).collect();
        let processed: Vec<_> = rows.iter().map(|row| time(row.processed_at)).collect();
        let unknown: Vec<_> = rows.iter().map(|row| i64::from(row.outcome_unknown)).collect();
        let cancel: Vec<_> = rows.iter().map(|row| time(row.cancel_requested_at)).collect();
        let params = [
            Param::Blobs(&ids),
            Param::Texts(&statuses),
            Param::Ints(&retries),
            Param::Ints(&next),
            Param::Texts(&codes),
            Param::Texts(&messages),
            Param::Texts(&transactions),
            Param::Ints(&processed),
            Param::Ints(&unknown),
            Param::Ints(&cancel),
        ];
        tx.execute(&WRITE, &params)?
    };
    if usize::try_from(written) == Ok(rows.len()) {
        return Ok(());
    }
    Err(Fault::inconsistent(format!("{written} allocations were written where {} are held", rows.len())))
}
