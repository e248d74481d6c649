//! The outbox as operators see it: lists, replays, and the end of what was sent.

use super::publishing::Place;
use super::told::complete;
use crate::fault::Fault;
use crate::listed::{LOOKED_THROUGH_MAX, Listed};
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::outbox::view::Stored;
use guerdon_core::outbox::{Message, MessageId, MessageStatus};
use guerdon_core::{Timestamp, Trace};

macro_rules! stored {
    ($which:literal) => {
        concat!(
            "SELECT event_id, aggregate_type, aggregate_id, event_type, sequence, payload, created_at, attempts, trace,
                status, last_error, next_attempt_at FROM integration.outbox_events WHERE ",
            $which
        )
    };
}

statements! {
    ALL = stored!("event_id < $1 ORDER BY event_id DESC LIMIT $2");
    SENT = stored!("event_id < $1 AND event_id >= $3 AND status = 'SENT' ORDER BY event_id DESC LIMIT $2");
    EDGE_OF_ALL = "SELECT created_at, event_id FROM integration.outbox_events WHERE event_id < $1
        ORDER BY event_id DESC LIMIT 1 OFFSET $2";
    DEAD = stored!("event_id < $1 AND status = 'DEAD' ORDER BY event_id DESC LIMIT $2");
    UNSENT = stored!("(created_at, event_id) < ($4, $1) AND status IN ('NEW', 'SENDING') AND channel = 'broker'
        AND status = $3 AND (created_at, event_id) >= ($5, $6) ORDER BY created_at DESC, event_id DESC LIMIT $2");
    EDGE_OF_UNSENT = "SELECT created_at, event_id FROM integration.outbox_events WHERE (created_at, event_id) < ($3, $1)
        AND status IN ('NEW', 'SENDING') AND channel = 'broker' ORDER BY created_at DESC, event_id DESC LIMIT 1 OFFSET $2";
    ONE = stored!("event_id = $1");
    DEAD_RANGE = stored!("event_id >= $1 AND event_id <= $2 AND status = 'DEAD' ORDER BY event_id LIMIT $3");
    SENT_RANGE = stored!("event_id >= $1 AND event_id <= $2 AND status = 'SENT' ORDER BY event_id LIMIT $3");
    REPLAY = "UPDATE integration.outbox_events
        SET status = 'NEW', attempts = 0, next_attempt_at = NULL, last_error = NULL, worker_id = NULL, deadline = NULL
        WHERE event_id = $1 AND channel = 'broker'";
    OLD = "SELECT event_id, status, created_at FROM integration.outbox_events
        WHERE event_id > $1 AND event_id < $2 ORDER BY event_id LIMIT $3";
    REMOVE = "DELETE FROM integration.outbox_events WHERE event_id = $1 AND status = 'SENT'";
    SWEPT = "SELECT value FROM counters WHERE name = 'outbox_swept'";
    SET_SWEPT = "UPDATE counters SET value = $1 WHERE name = 'outbox_swept' AND value < $1";
}

/// No message has this id, and each comes after it.
const BEFORE_ALL: MessageId = MessageId::from_bytes([0; 16]);

pub(super) fn message(row: &Row<'_>) -> Result<Message, Fault> {
    Ok(Message {
        id: MessageId::from_bytes(row.uuid(0)?),
        aggregate_type: row.text(1)?.into(),
        aggregate_id: row.text(2)?.into(),
        event_type: row.text(3)?.into(),
        sequence: row.int(4)?,
        payload: row.text(5)?.into(),
        created_at: row.timestamp(6)?,
        attempts: row.int(7)?,
        trace: row.optional_text(8)?.and_then(Trace::parse),
    })
}

fn stored(row: &Row<'_>) -> Result<Stored, Fault> {
    let status = row.text(9)?;
    Ok(Stored {
        message: message(row)?,
        status: MessageStatus::parse(status)
            .ok_or_else(|| Fault::inconsistent(format!("a message with the status {status}")))?,
        last_error: row.optional_text(10)?.map(str::to_owned),
        next_attempt_at: row.optional_timestamp(11)?,
    })
}

/// Messages before one, the newest first. Where only some of them are wanted, so many are looked through.
pub fn list(
    tx: &mut Tx<'_>,
    status: Option<MessageStatus>,
    before: Option<Place>,
    limit: i64,
) -> Result<Listed<Stored, Place>, Fault> {
    let (time, before) = before.unwrap_or((Timestamp::MAX, MessageId::from_bytes([0xff; 16])));
    let before = Param::Blob(before.as_bytes());
    let place = |row: &Row<'_>| Ok((row.timestamp(0)?, MessageId::from_bytes(row.uuid(1)?)));
    let mut end = None;
    let found = match status {
        None => tx.query(&ALL, &[before, limit.into()], stored)?,
        Some(MessageStatus::Dead) => tx.query(&DEAD, &[before, limit.into()], stored)?,
        Some(MessageStatus::Sent) => {
            end = tx.query_one(&EDGE_OF_ALL, &[before, (LOOKED_THROUGH_MAX - 1).into()], place)?;
            let last = end.map_or(BEFORE_ALL, |(_, id)| id);
            tx.query(&SENT, &[before, limit.into(), Param::Blob(last.as_bytes())], stored)?
        }
        Some(status @ (MessageStatus::New | MessageStatus::Sending)) => {
            let params = [before, (LOOKED_THROUGH_MAX - 1).into(), time.into()];
            end = tx.query_one(&EDGE_OF_UNSENT, &params, place)?;
            let (from, last) = end.unwrap_or((Timestamp::from_millis(0), BEFORE_ALL));
            let status = Param::Text(status.as_str());
            let params =
                [before, limit.into(), status, time.into(), from.into(), Param::Blob(last.as_bytes())];
            tx.query(&UNSENT, &params, stored)?
        }
    };
    Ok(Listed { rows: whole(tx, found)?, end })
}

/// With the texts that are stored elsewhere.
fn whole(tx: &mut Tx<'_>, mut found: Vec<Stored>) -> Result<Vec<Stored>, Fault> {
    complete(tx, found.iter_mut().map(|stored| &mut stored.message))?;
    Ok(found)
}

pub fn find(tx: &mut Tx<'_>, id: MessageId) -> Result<Option<Stored>, Fault> {
    let found = tx.query(&ONE, &[Param::Blob(id.as_bytes())], stored)?;
    Ok(whole(tx, found)?.pop())
}

/// Messages from one to another, both included: the dead, or those that were sent.
pub fn range(
    tx: &mut Tx<'_>,
    from: MessageId,
    to: MessageId,
    dead: bool,
    limit: i64,
) -> Result<Vec<Stored>, Fault> {
    let statement = if dead { &DEAD_RANGE } else { &SENT_RANGE };
    let params = [Param::Blob(from.as_bytes()), Param::Blob(to.as_bytes()), limit.into()];
    let found = tx.query(statement, &params, stored)?;
    whole(tx, found)
}

/// Has these sent, once more or at last.
pub fn replay(tx: &mut Tx<'_>, ids: &[MessageId]) -> Result<u64, Fault> {
    tx.tells();
    tx.execute_rows(&REPLAY, ids.iter().map(|id| [Param::Blob(id.as_bytes())]))
}

/// Looks at messages after one that can have been made before a time: the last that was looked at, and those among them
/// that were sent and are old enough.
pub fn old(
    tx: &mut Tx<'_>,
    after: MessageId,
    before: Timestamp,
    limit: i64,
) -> Result<(Option<MessageId>, Vec<MessageId>), Fault> {
    let up_to = MessageId::first_of(before);
    let params = [Param::Blob(after.as_bytes()), Param::Blob(up_to.as_bytes()), limit.into()];
    let looked = tx.query(&OLD, &params, |row| {
        Ok((MessageId::from_bytes(row.uuid(0)?), row.text(1)? == "SENT" && row.timestamp(2)? < before))
    })?;
    let last = looked.last().map(|(id, _)| *id);
    Ok((last, looked.into_iter().filter(|(_, old)| *old).map(|(id, _)| id).collect()))
}

/// Removes these, which were made before a time, as far as they are still noted as sent.
pub fn sweep(tx: &mut Tx<'_>, ids: &[MessageId], before: Timestamp) -> Result<u64, Fault> {
    tx.execute(&SET_SWEPT, &[before.into()])?;
    tx.execute_rows(&REMOVE, ids.iter().map(|id| [Param::Blob(id.as_bytes())]))
}

/// Messages older than this may have been removed.
pub fn swept_before(tx: &mut Tx<'_>) -> Result<Timestamp, Fault> {
    Ok(tx.query_one(&SWEPT, &[], |row| row.timestamp(0))?.unwrap_or(Timestamp::from_millis(0)))
}
