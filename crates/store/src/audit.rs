//! What the audit looks at: pages of each table, in the order in which they are stored, each by a short statement.

pub mod claims;
pub mod coupons;
pub mod entries;
pub mod postgres;
pub mod user_index;
pub mod wallet;

use crate::allocations::{allocation, allocation_columns};
use crate::database::Engine;
use crate::fault::Fault;
use crate::outbox::listing::swept_before;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::allocations::Allocation;
use guerdon_core::audit::StoredLine;
use guerdon_core::draw::{DrawState, Hash};
use guerdon_core::outbox::MessageId;
use guerdon_core::requests::Line;
use guerdon_core::{EventId, Timestamp};
use serde::Deserialize;
use std::collections::HashSet;

/// One statement, so that all of it is of one moment.
macro_rules! line_select {
    ($rewards:literal, $which:literal) => {
        concat!(
            "SELECT l.event_id, l.event_key, l.last_position, l.decided_position, l.capacity_total,
            l.capacity_remaining, l.tally, l.indexed_position, l.swept_position, d.state, d.settled_position, (SELECT ",
            $rewards,
            " FROM event_rewards r WHERE r.event_id = l.event_id)
            FROM event_lines l LEFT JOIN draws d ON d.event_id = l.event_id WHERE l.event_id ",
            $which,
            " $1 ORDER BY l.event_id LIMIT 1"
        )
    };
    (sqlite $which:literal) => {
        line_select!(
            "json_group_array(json_object('id', r.reward_id, 'ordinal', r.ordinal, 'quantity', r.quantity,
            'total', r.total_stock, 'remaining', r.remaining_stock))",
            $which
        )
    };
    (postgres $which:literal) => {
        line_select!(
            "CAST(COALESCE(json_agg(json_build_object('id', r.reward_id, 'ordinal', r.ordinal, 'quantity', r.quantity,
            'total', r.total_stock, 'remaining', r.remaining_stock)), '[]') AS TEXT)",
            $which
        )
    };
}

statements! {
    NEXT_LINE = line_select!(sqlite ">"), postgres: line_select!(postgres ">");
    LINE_OF = line_select!(sqlite "="), postgres: line_select!(postgres "=");
    SWEPT = "SELECT swept_position FROM event_lines WHERE event_key = $1";
    OUTBOX_OF = "SELECT event_id FROM integration.outbox_events WHERE event_id = $1",
        postgres: "SELECT event_id FROM integration.outbox_events WHERE event_id = ANY(CAST($1 AS BYTEA[]))";
    ALLOCATIONS_OF = "SELECT allocation_id, member_id, reward_id FROM event_reward_allocation WHERE allocation_id = $1",
        postgres: "SELECT allocation_id, member_id, reward_id FROM event_reward_allocation
        WHERE allocation_id = ANY(CAST($1 AS BYTEA[]))";
    OUTBOX = "SELECT event_id, aggregate_type, aggregate_id, event_type, sequence, status, deadline
        FROM integration.outbox_events WHERE event_id > $1 ORDER BY event_id LIMIT $2";
    ALLOCATIONS = concat!("SELECT ", allocation_columns!(), ", deadline
        FROM event_reward_allocation WHERE allocation_id > $1 ORDER BY allocation_id LIMIT $2");
    LOG = "SELECT sequence, at, actor, request_id, action, target_type, target_id, before_json, after_json, hash
        FROM audit_log WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence LIMIT $3";
    LOG_ENDS = "SELECT (SELECT value FROM counters WHERE name = 'audit_log'),
        (SELECT value FROM counters WHERE name = 'audit_log_unchained')";
    LOG_LAST = "SELECT sequence FROM audit_log ORDER BY sequence DESC LIMIT 1";
    /// A nonce that an operator named has a line of its own and changes no event.
    EVENTS = "SELECT e.event_id, e.version, e.opened_at, e.closed_at, e.announced_at, e.cancelled_at,
            (SELECT COUNT(*) FROM audit_log a WHERE a.target_type = 'EVENT' AND a.target_id = e.event_id
                AND a.action <> 'EVENT_DRAWN')
        FROM events e WHERE e.event_id > $1 ORDER BY e.event_id LIMIT $2";
}

/// A line at the moment at which its audit began.
#[derive(Clone, Debug)]
pub struct LineAt {
    pub event_id: EventId,
    pub line: Line,
    pub indexed_position: i64,
    pub swept_position: i64,
    pub draw: Option<(DrawState, i64)>,
    pub rewards: Vec<RewardAt>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RewardAt {
    pub id: String,
    pub ordinal: i64,
    pub quantity: i64,
    pub total: Option<i64>,
    pub remaining: Option<i64>,
}

/// The line of the event that comes after this one.
pub fn next_line(tx: &mut Tx<'_>, after: &str) -> Result<Option<LineAt>, Fault> {
    tx.query_one(&NEXT_LINE, &[after.into()], line_at)
}

/// The line of this event.
pub fn line_of(tx: &mut Tx<'_>, event_id: &EventId) -> Result<Option<LineAt>, Fault> {
    tx.query_one(&LINE_OF, &[event_id.as_str().into()], line_at)
}

fn line_at(row: &Row<'_>) -> Result<LineAt, Fault> {
    let odd = |error: serde_json::Error| Fault::inconsistent(error.to_string());
    let state = row.optional_text(9)?.and_then(DrawState::parse);
    let mut rewards: Vec<RewardAt> = serde_json::from_str(row.text(11)?).map_err(odd)?;
    rewards.sort_by_key(|reward| reward.ordinal);
    Ok(LineAt {
        event_id: EventId::parse(row.text(0)?).map_err(Fault::inconsistent)?,
        line: Line {
            event_key: row.int(1)?,
            last_position: row.int(2)?,
            decided_position: row.int(3)?,
            capacity_total: row.int(4)?,
            capacity_remaining: row.int(5)?,
            tally: serde_json::from_str(row.text(6)?).map_err(odd)?,
        },
        indexed_position: row.int(7)?,
        swept_position: row.int(8)?,
        draw: state.map(|state| Ok::<_, Fault>((state, row.int(10)?))).transpose()?,
        rewards,
    })
}

/// Up to where a line has been swept by now.
pub fn swept(tx: &mut Tx<'_>, event_key: i64) -> Result<i64, Fault> {
    Ok(tx.query_one(&SWEPT, &[event_key.into()], |row| row.int(0))?.unwrap_or(0))
}

/// Runs a statement for many keys: at once on PostgreSQL, where each would cost a round trip.
fn for_ids<T>(
    tx: &mut Tx<'_>,
    statement: &'static crate::Statement,
    ids: &[[u8; 16]],
    read: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    if tx.engine() == Engine::Postgres {
        let ids: Vec<&[u8]> = ids.iter().map(<[u8; 16]>::as_slice).collect();
        return tx.query(statement, &[Param::Blobs(&ids)], read);
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(tx.query_one(statement, &[Param::Blob(id)], &read)?);
    }
    Ok(found)
}

/// Which of these messages, each with its time, are neither in the outbox nor so old that they may have been removed.
pub fn missing_messages(
    tx: &mut Tx<'_>,
    messages: &[([u8; 16], Timestamp)],
) -> Result<HashSet<[u8; 16]>, Fault> {
    let ids: Vec<_> = messages.iter().map(|(id, _)| *id).collect();
    let found: HashSet<_> = for_ids(tx, &OUTBOX_OF, &ids, |row| row.uuid(0))?.into_iter().collect();
    let missing: Vec<_> = messages.iter().filter(|(id, _)| !found.contains(id)).collect();
    if missing.is_empty() {
        return Ok(HashSet::new());
    }
    // Read after them: whatever was removed before they were looked for is known by now.
    let swept = swept_before(tx)?;
    let kept = MessageId::first_of(swept);
    let removed = |(id, at): &([u8; 16], Timestamp)| id < kept.as_bytes() && *at < swept;
    Ok(missing.into_iter().filter(|message| !removed(message)).map(|(id, _)| *id).collect())
}

/// Which of these allocations there are, and whose they are.
pub fn allocations_of(tx: &mut Tx<'_>, ids: &[[u8; 16]]) -> Result<Vec<([u8; 16], String, String)>, Fault> {
    for_ids(tx, &ALLOCATIONS_OF, ids, |row| Ok((row.uuid(0)?, row.text(1)?.into(), row.text(2)?.into())))
}

#[derive(Clone, Debug)]
pub struct OutboxRow {
    pub id: [u8; 16],
    pub aggregate_type: String,
    pub aggregate_id: String,
    pub event_type: String,
    pub sequence: i64,
    pub status: String,
    pub deadline: Option<Timestamp>,
}

pub fn outbox_page(tx: &mut Tx<'_>, after: &[u8], limit: i64) -> Result<Vec<OutboxRow>, Fault> {
    tx.query(&OUTBOX, &[Param::Blob(after), limit.into()], |row| {
        Ok(OutboxRow {
            id: row.uuid(0)?,
            aggregate_type: row.text(1)?.into(),
            aggregate_id: row.text(2)?.into(),
            event_type: row.text(3)?.into(),
            sequence: row.int(4)?,
            status: row.text(5)?.into(),
            deadline: row.optional_timestamp(6)?,
        })
    })
}

/// An allocation, and until when somebody has it.
pub type AllocationAt = (Allocation, Option<Timestamp>);

pub fn allocations_page(tx: &mut Tx<'_>, after: &[u8], limit: i64) -> Result<Vec<AllocationAt>, Fault> {
    tx.query(&ALLOCATIONS, &[Param::Blob(after), limit.into()], |row| {
        Ok((allocation(row)?, row.optional_timestamp(20)?))
    })
}

/// The last line that the log has to have, the last one that was written before lines were chained, and the last one
/// that is there.
pub fn log_ends(tx: &mut Tx<'_>) -> Result<(i64, i64, i64), Fault> {
    let (last, unchained) =
        tx.query_one(&LOG_ENDS, &[], |row| Ok((row.int(0)?, row.int(1)?)))?.unwrap_or_default();
    let present = tx.query_one(&LOG_LAST, &[], |row| row.int(0))?.unwrap_or(0);
    Ok((last, unchained, present))
}

/// Reads lines of the log after one, and hands each to `look` with the hash that it has.
pub fn log_page(
    tx: &mut Tx<'_>,
    (after, up_to): (i64, i64),
    limit: i64,
    mut look: impl FnMut(StoredLine<'_>, Option<Hash>),
) -> Result<usize, Fault> {
    let looked = tx.query(&LOG, &[after.into(), up_to.into(), limit.into()], |row| {
        let hash = row.optional_blob(9)?.and_then(|blob| <[u8; 32]>::try_from(blob).ok());
        let line = StoredLine {
            sequence: row.int(0)?,
            at: row.timestamp(1)?,
            actor: row.text(2)?,
            request_id: row.text(3)?,
            action: row.text(4)?,
            target_type: row.text(5)?,
            target_id: row.text(6)?,
            before: row.optional_text(7)?,
            after: row.optional_text(8)?,
        };
        look(line, hash.map(Hash::from_bytes));
        Ok(())
    })?;
    Ok(looked.len())
}

/// An event with what must have been told of it.
#[derive(Clone, Debug)]
pub struct EventAt {
    pub event_id: String,
    pub version: i64,
    /// When it was opened, closed, announced, cancelled.
    pub was: [Option<Timestamp>; 4],
    /// How many lines the audit log has about it.
    pub lines: i64,
}

pub fn events_page(tx: &mut Tx<'_>, after: &str, limit: i64) -> Result<Vec<EventAt>, Fault> {
    tx.query(&EVENTS, &[after.into(), limit.into()], |row| {
        Ok(EventAt {
            event_id: row.text(0)?.into(),
            version: row.int(1)?,
            was: [
                row.optional_timestamp(2)?,
                row.optional_timestamp(3)?,
                row.optional_timestamp(4)?,
                row.optional_timestamp(5)?,
            ],
            lines: row.int(6)?,
        })
    })
}
