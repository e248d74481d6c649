//! What is yet to be counted by Redis: a channel of the outbox, each message leased by the worker that has it.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::coupons::UserCouponId;
use guerdon_core::{CouponId, Timestamp, Trace, UserId};
use serde::{Deserialize, Serialize};

statements! {
    APPEND = "INSERT INTO integration.outbox_events (event_id, channel, sequence, aggregate_type, aggregate_id, event_type,
            payload, status, created_at, attempts)
        VALUES ($1, 'coupon', 1, 'COUPON_COUNT', $2, $3, $4, 'NEW', $5, 0)",
        postgres: "INSERT INTO integration.outbox_events (event_id, channel, sequence, aggregate_type, aggregate_id,
            event_type, payload, status, created_at, attempts)
        SELECT id, 'coupon', 1, 'COUPON_COUNT', aggregate_id, kind, payload, 'NEW', $5, 0
        FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS TEXT[]), CAST($3 AS TEXT[]), CAST($4 AS TEXT[]))
            AS row (id, aggregate_id, kind, payload)";
    /// What can be taken up after a message, in their order.
    PEEK = "SELECT event_id, event_type, aggregate_id, payload FROM integration.outbox_events
        WHERE status IN ('NEW', 'SENDING') AND channel = 'coupon' AND event_id > $1
            AND ((status = 'NEW' AND (next_attempt_at IS NULL OR next_attempt_at <= $2))
                OR (status = 'SENDING' AND deadline <= $2))
        ORDER BY event_id LIMIT $3";
    TAKE = "UPDATE integration.outbox_events SET status = 'SENDING', worker_id = $2, deadline = $3, attempts = attempts + 1
        WHERE event_id = $1 AND (status = 'NEW' OR (status = 'SENDING' AND deadline <= $4))
        RETURNING event_id, event_type, aggregate_id, payload",
        postgres: "UPDATE integration.outbox_events SET status = 'SENDING', worker_id = $2, deadline = $3,
            attempts = attempts + 1
        WHERE event_id = ANY(ARRAY(SELECT event_id FROM integration.outbox_events
            WHERE event_id = ANY(CAST($1 AS BYTEA[])) AND (status = 'NEW' OR (status = 'SENDING' AND deadline <= $4))
            ORDER BY event_id FOR UPDATE SKIP LOCKED))
        RETURNING event_id, event_type, aggregate_id, payload";
    HOLD = "SELECT event_id FROM integration.outbox_events WHERE event_id = $1 AND status = 'SENDING' AND worker_id = $2",
        postgres: "SELECT event_id FROM integration.outbox_events WHERE event_id = ANY(CAST($1 AS BYTEA[]))
        AND status = 'SENDING' AND worker_id = $2 ORDER BY event_id FOR UPDATE";
    WRITE = "UPDATE integration.outbox_events SET status = $2, worker_id = NULL, deadline = NULL, next_attempt_at = $4
        WHERE event_id = $1 AND status = 'SENDING' AND worker_id = $3",
        postgres: "UPDATE integration.outbox_events SET status = $2, worker_id = NULL, deadline = NULL, next_attempt_at = $4
        WHERE event_id = ANY(CAST($1 AS BYTEA[])) AND status = 'SENDING' AND worker_id = $3";
    BACKLOG = "SELECT COUNT(*), MIN(at) FROM (SELECT created_at AS at FROM integration.outbox_events
        WHERE status IN ('NEW', 'SENDING') AND channel = 'coupon' ORDER BY event_id LIMIT $1) waiting";
    /// Those that are not at their end, of some.
    WAITING = "SELECT event_id FROM integration.outbox_events WHERE event_id = $1
        AND status IN ('NEW', 'SENDING') AND channel = 'coupon'",
        postgres: "SELECT event_id FROM integration.outbox_events WHERE event_id = ANY(CAST($1 AS BYTEA[]))
        AND status IN ('NEW', 'SENDING') AND channel = 'coupon'";
}

/// What Redis is to do about a user coupon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To count one that was asked for.
    Take,
    /// To count one less: it was taken back in this epoch of the store's count.
    GiveBack { epoch: i64 },
}

const REQUESTED: &str = "COUPON_REQUESTED";
const RETURNED: &str = "COUPON_RETURNED";

/// A message to whoever counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub message: [u8; 16],
    pub id: UserCouponId,
    pub coupon_id: CouponId,
    pub user_id: UserId,
    pub kind: Kind,
    /// Where it belongs in a trace, once it was read; what is written belongs where the transaction says.
    pub trace: Option<Trace>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payload {
    coupon_id: CouponId,
    user_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: Option<Trace>,
}

pub fn append(tx: &mut Tx<'_>, tasks: &[Task]) -> Result<(), Fault> {
    if tasks.is_empty() {
        return Ok(());
    }
    let now = tx.now();
    let mut rows = Vec::with_capacity(tasks.len());
    for task in tasks {
        let (kind, epoch) = match task.kind {
            Kind::Take => (REQUESTED, None),
            Kind::GiveBack { epoch } => (RETURNED, Some(epoch)),
        };
        let (coupon_id, user_id) = (task.coupon_id.clone(), task.user_id.clone());
        let payload = Payload { coupon_id, user_id, epoch, trace: tx.trace_of(&task.id) };
        let payload =
            serde_json::to_string(&payload).map_err(|error| Fault::inconsistent(error.to_string()))?;
        rows.push((task.id.to_string(), kind, payload));
    }
    if tx.engine() == Engine::Sqlite {
        let rows = tasks.iter().zip(&rows).map(|(task, (id, kind, payload))| {
            [Param::Blob(&task.message), id.into(), (*kind).into(), payload.into(), now.into()]
        });
        return tx.execute_rows(&APPEND, rows).map(drop);
    }
    let messages: Vec<&[u8]> = tasks.iter().map(|task| task.message.as_slice()).collect();
    let ids: Vec<_> = rows.iter().map(|(id, ..)| id.as_str()).collect();
    let kinds: Vec<_> = rows.iter().map(|(_, kind, _)| *kind).collect();
    let payloads: Vec<_> = rows.iter().map(|(.., payload)| payload.as_str()).collect();
    let params = [
        Param::Blobs(&messages),
        Param::Texts(&ids),
        Param::Texts(&kinds),
        Param::Texts(&payloads),
        now.into(),
    ];
    tx.execute(&APPEND, &params).map(drop)
}

/// What nobody has, or whose worker is not heard of any more, after a message and in their order.
pub fn peek(tx: &mut Tx<'_>, after: &[u8], now: Timestamp, limit: i64) -> Result<Vec<Task>, Fault> {
    tx.query(&PEEK, &[Param::Blob(after), now.into(), limit.into()], task)
}

/// Takes up those of them that still nobody has.
pub fn take(
    tx: &mut Tx<'_>,
    messages: &[[u8; 16]],
    worker: &str,
    until: Timestamp,
) -> Result<Vec<Task>, Fault> {
    let now = tx.now();
    let mut taken = if tx.engine() == Engine::Postgres {
        let ids: Vec<&[u8]> = messages.iter().map(<[u8; 16]>::as_slice).collect();
        tx.query(&TAKE, &[Param::Blobs(&ids), worker.into(), until.into(), now.into()], task)?
    } else {
        let mut taken = Vec::with_capacity(messages.len());
        for id in messages {
            taken.extend(tx.query_one(
                &TAKE,
                &[Param::Blob(id), worker.into(), until.into(), now.into()],
                task,
            )?);
        }
        taken
    };
    taken.sort_unstable_by_key(|task| task.message);
    Ok(taken)
}

/// Which of them are still this worker's, held until the transaction ends.
pub fn hold(tx: &mut Tx<'_>, messages: &[[u8; 16]], worker: &str) -> Result<Vec<[u8; 16]>, Fault> {
    if tx.engine() == Engine::Postgres {
        let ids: Vec<&[u8]> = messages.iter().map(<[u8; 16]>::as_slice).collect();
        return tx.query(&HOLD, &[Param::Blobs(&ids), worker.into()], |row| row.uuid(0));
    }
    let mut found = Vec::with_capacity(messages.len());
    for id in messages {
        found.extend(tx.query_one(&HOLD, &[Param::Blob(id), worker.into()], |row| row.uuid(0))?);
    }
    Ok(found)
}

/// Notes that they are done.
pub fn done(tx: &mut Tx<'_>, messages: &[[u8; 16]], worker: &str) -> Result<u64, Fault> {
    write(tx, messages, worker, "SENT", None)
}

/// Gives them back, to be taken up by whoever comes next, at this time or later.
pub fn release(
    tx: &mut Tx<'_>,
    messages: &[[u8; 16]],
    worker: &str,
    not_before: Timestamp,
) -> Result<u64, Fault> {
    write(tx, messages, worker, "NEW", Some(not_before))
}

fn write(
    tx: &mut Tx<'_>,
    messages: &[[u8; 16]],
    worker: &str,
    status: &str,
    next: Option<Timestamp>,
) -> Result<u64, Fault> {
    if messages.is_empty() {
        return Ok(0);
    }
    if tx.engine() == Engine::Sqlite {
        let rows = messages.iter().map(|id| [Param::Blob(id), status.into(), worker.into(), next.into()]);
        return tx.execute_rows(&WRITE, rows);
    }
    let ids: Vec<&[u8]> = messages.iter().map(<[u8; 16]>::as_slice).collect();
    tx.execute(&WRITE, &[Param::Blobs(&ids), status.into(), worker.into(), next.into()])
}

/// How many wait, counted up to a limit, and since when the oldest does.
pub fn backlog(tx: &mut Tx<'_>, most: i64) -> Result<(i64, Option<Timestamp>), Fault> {
    let found =
        tx.query_one(&BACKLOG, &[most.into()], |row| Ok((row.int(0)?, row.optional_timestamp(1)?)))?;
    Ok(found.unwrap_or_default())
}

/// Which of these messages are not at their end.
pub fn waiting(tx: &mut Tx<'_>, messages: &[[u8; 16]]) -> Result<Vec<[u8; 16]>, Fault> {
    if tx.engine() == Engine::Postgres {
        let ids: Vec<&[u8]> = messages.iter().map(<[u8; 16]>::as_slice).collect();
        return tx.query(&WAITING, &[Param::Blobs(&ids)], |row| row.uuid(0));
    }
    let mut found = Vec::new();
    for id in messages {
        found.extend(tx.query_one(&WAITING, &[Param::Blob(id)], |row| row.uuid(0))?);
    }
    Ok(found)
}

fn task(row: &Row<'_>) -> Result<Task, Fault> {
    let message = row.uuid(0)?;
    let odd = |what: &str| Fault::inconsistent(format!("a message to whoever counts: {what}"));
    let payload: Payload = serde_json::from_str(row.text(3)?).map_err(|error| odd(&error.to_string()))?;
    let kind = match (row.text(1)?, payload.epoch) {
        (REQUESTED, _) => Kind::Take,
        (RETURNED, Some(epoch)) => Kind::GiveBack { epoch },
        _ => return Err(odd("it is of no kind")),
    };
    let id = UserCouponId::parse(row.text(2)?).ok_or_else(|| odd("it is about no user coupon"))?;
    let Payload { coupon_id, user_id, trace, .. } = payload;
    Ok(Task { message, id, coupon_id, user_id, kind, trace })
}
