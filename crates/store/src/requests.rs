//! Requests and the lines that they stand in.

pub mod sweeping;
pub mod user_index;

pub use user_index::UserIndex;

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::events::Event;
use guerdon_core::requests::{
    EVENT_KEY_MAX, LINE_BITS, Line, LineKey, Request, RequestId, RequestState, ResultCode,
};
use guerdon_core::{EventId, Timestamp, UserId};
use std::collections::HashMap;
use std::ops::Range;

macro_rules! line_columns {
    () => {
        "event_key, last_position, decided_position, capacity_total, capacity_remaining, tally"
    };
}

macro_rules! request_columns {
    () => {
        "line, request_id, user_id, requested_at, queued_at, result, started_at, finished_at"
    };
}

statements! {
    /// The number is any text's; the server turns it into the lock's key.
    LOCK_LINE = "SELECT event_id FROM event_lines WHERE event_id = $1",
        postgres: "SELECT CAST(pg_advisory_xact_lock(hashtextextended($1, 0)) AS TEXT)";
    TAKE_EVENT_KEY = "UPDATE counters SET value = value + 1 WHERE name = 'event_key' RETURNING value";
    OPEN_LINE = concat!("INSERT INTO event_lines (event_id, ", line_columns!(), ", indexed_position, swept_position)
        VALUES ($1, $2, 0, 0, $3, $3, '{}', 0, 0)");
    FIND_LINE = concat!("SELECT ", line_columns!(), " FROM event_lines WHERE event_id = $1");
    UPDATE_LINE = "UPDATE event_lines SET last_position = $2, decided_position = $3, capacity_remaining = $4, tally = $5
        WHERE event_key = $1";
    EVENT_OF_KEY = "SELECT event_id FROM event_lines WHERE event_key = $1";
    INSERT = concat!("INSERT INTO requests (", request_columns!(), ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"),
        postgres: concat!("INSERT INTO requests (", request_columns!(), ")
        SELECT line, id, user_id, requested_at, $5, result, $7, $8
        FROM unnest(CAST($1 AS BIGINT[]), CAST($2 AS BYTEA[]), CAST($3 AS TEXT[]), CAST($4 AS BIGINT[]),
            CAST($6 AS BIGINT[])) AS row (line, id, user_id, requested_at, result)");
    FIND_AT = concat!("SELECT ", request_columns!(), " FROM requests WHERE line = $1");
    FIND_ALL = concat!("SELECT ", request_columns!(), " FROM requests WHERE line IN ($1)"),
        postgres: concat!("SELECT ", request_columns!(), " FROM requests WHERE line = ANY(CAST($1 AS BIGINT[]))");
    LIST = concat!("SELECT ", request_columns!(), " FROM requests WHERE line > $1 AND line <= $2 ORDER BY line LIMIT $3");
    /// The wanted results are bits of one number.
    LIST_SOME = concat!("SELECT ", request_columns!(), " FROM requests
        WHERE line > $1 AND line <= $2 AND ((CAST($4 AS BIGINT) >> CAST(result AS INTEGER)) & 1) = 1 ORDER BY line LIMIT $3");
    /// On SQLite the user index answers instead.
    OF_USERS_IN_LINE = concat!("SELECT ", request_columns!(), " FROM requests WHERE user_id = $1 AND line >> 40 = $2"),
        postgres: concat!("SELECT ", request_columns!(), " FROM requests
        WHERE user_id = ANY(CAST($1 AS TEXT[])) AND line >> 40 = $2");
    LINES_OF_USER = "SELECT line FROM requests WHERE user_id = $1 ORDER BY line DESC LIMIT $2";
    REJECT_QUEUED = "UPDATE requests SET result = $3, started_at = $4, finished_at = $4
        WHERE line > $1 AND line <= $2 AND result = 0";
    CANCELLED_UNDECIDED = "SELECT l.event_id FROM event_lines l JOIN events e ON e.event_id = l.event_id
        WHERE e.status = 'CANCELLED' AND l.decided_position < l.last_position
        ORDER BY l.event_id LIMIT 100";
}

/// A request as its row has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    pub key: LineKey,
    pub id: RequestId,
    pub user_id: UserId,
    pub requested_at: Timestamp,
    pub queued_at: Timestamp,
    pub state: RequestState,
}

impl RequestRow {
    /// The request that stands in this event's line.
    pub fn into_request(self, event: &Event) -> Request {
        Request {
            id: self.id,
            event_id: event.id.clone(),
            user_id: self.user_id,
            event_type: event.settings.kind.event_type(),
            position: self.key.position(),
            requested_at: self.requested_at,
            queued_at: self.queued_at,
            state: self.state,
        }
    }
}

/// Shuts everybody else out of an event's line until the transaction ends: acceptances, closing, cancelling and the
/// cutoff of several processes come one after the other. On SQLite the writer is alone anyway. Taken in the order of
/// the events' ids, before anything about the event is read.
pub fn lock_line(tx: &mut Tx<'_>, event_id: &EventId) -> Result<(), Fault> {
    if tx.engine() == Engine::Postgres {
        tx.query(&LOCK_LINE, &[event_id.as_str().into()], |_| Ok(()))?;
    }
    Ok(())
}

/// Makes the line of an event that opens.
pub fn open_line(tx: &mut Tx<'_>, event_id: &EventId, capacity_total: i64) -> Result<(), Fault> {
    let key = tx
        .query_one(&TAKE_EVENT_KEY, &[], |row| row.int(0))?
        .ok_or_else(|| Fault::inconsistent("the counter of event keys is missing"))?;
    if key > EVENT_KEY_MAX {
        return Err(Fault::inconsistent("there have been too many events"));
    }
    tx.execute(&OPEN_LINE, &[event_id.as_str().into(), key.into(), capacity_total.into()]).map(drop)
}

pub fn find_line(tx: &mut Tx<'_>, event_id: &EventId) -> Result<Option<Line>, Fault> {
    tx.query_one(&FIND_LINE, &[event_id.as_str().into()], |row| {
        Ok(Line {
            event_key: row.int(0)?,
            last_position: row.int(1)?,
            decided_position: row.int(2)?,
            capacity_total: row.int(3)?,
            capacity_remaining: row.int(4)?,
            tally: serde_json::from_str(row.text(5)?)
                .map_err(|error| Fault::inconsistent(error.to_string()))?,
        })
    })
}

pub fn update_line(tx: &mut Tx<'_>, line: &Line) -> Result<(), Fault> {
    let tally = serde_json::to_string(&line.tally).map_err(|error| Fault::inconsistent(error.to_string()))?;
    let params = [
        line.event_key.into(),
        line.last_position.into(),
        line.decided_position.into(),
        line.capacity_remaining.into(),
        (&tally).into(),
    ];
    match tx.execute(&UPDATE_LINE, &params)? {
        1 => Ok(()),
        _ => Err(Fault::inconsistent(format!("the line {} is missing", line.event_key))),
    }
}

pub fn event_of_key(tx: &mut Tx<'_>, event_key: i64) -> Result<Option<EventId>, Fault> {
    tx.query_one(&EVENT_OF_KEY, &[event_key.into()], |row| {
        EventId::parse(row.text(0)?).map_err(Fault::inconsistent)
    })
}

/// Appends requests of one line, all of one moment, in the order of their positions.
pub fn insert(tx: &mut Tx<'_>, queued_at: Timestamp, rows: &[RequestRow]) -> Result<(), Fault> {
    if rows.is_empty() {
        return Ok(());
    }
    let result = |row: &RequestRow| match row.state {
        RequestState::Queued => 0,
        RequestState::Finished { result, .. } => result.number(),
    };
    // What is decided at once is decided in the moment of its acceptance.
    let decided_at = match rows[0].state {
        RequestState::Queued => Param::Null,
        RequestState::Finished { .. } => queued_at.into(),
    };
    if tx.engine() == Engine::Sqlite {
        let values = rows.iter().map(|row| -> [Param<'_>; 8] {
            [
                row.key.raw().into(),
                Param::Blob(row.id.as_bytes()),
                row.user_id.as_str().into(),
                row.requested_at.into(),
                queued_at.into(),
                result(row).into(),
                decided_at,
                decided_at,
            ]
        });
        return tx.execute_rows(&INSERT, values).map(drop);
    }
    let lines: Vec<_> = rows.iter().map(|row| row.key.raw()).collect();
    let ids: Vec<&[u8]> = rows.iter().map(|row| row.id.as_bytes().as_slice()).collect();
    let users: Vec<_> = rows.iter().map(|row| row.user_id.as_str()).collect();
    let requested: Vec<_> = rows.iter().map(|row| row.requested_at.as_millis()).collect();
    let results: Vec<_> = rows.iter().map(result).collect();
    let params = [
        Param::Ints(&lines),
        Param::Blobs(&ids),
        Param::Texts(&users),
        Param::Ints(&requested),
        queued_at.into(),
        Param::Ints(&results),
        decided_at,
        decided_at,
    ];
    tx.execute(&INSERT, &params).map(drop)
}

pub fn find(tx: &mut Tx<'_>, id: RequestId) -> Result<Option<RequestRow>, Fault> {
    let Some(key) = id.place() else { return Ok(None) };
    Ok(find_at(tx, key)?.filter(|row| row.id == id))
}

pub fn find_at(tx: &mut Tx<'_>, key: LineKey) -> Result<Option<RequestRow>, Fault> {
    tx.query_one(&FIND_AT, &[key.raw().into()], request)
}

/// As many of these as there are.
pub fn find_all(tx: &mut Tx<'_>, ids: &[RequestId]) -> Result<Vec<RequestRow>, Fault> {
    let lines: Vec<_> = ids.iter().filter_map(RequestId::place).map(LineKey::raw).collect();
    if tx.engine() == Engine::Postgres {
        return tx.query(&FIND_ALL, &[Param::Ints(&lines)], request);
    }
    let mut rows = Vec::with_capacity(lines.len());
    for line in lines {
        rows.extend(tx.query_one(&FIND_ALL, &[line.into()], request)?);
    }
    Ok(rows)
}

/// Requests of one line in its order, after a position.
pub fn list(tx: &mut Tx<'_>, event_key: i64, after: i64, limit: i64) -> Result<Vec<RequestRow>, Fault> {
    let (from, to) = (LineKey::new(event_key, after), LineKey::new(event_key, (1 << LINE_BITS) - 1));
    tx.query(&LIST, &[from.raw().into(), to.raw().into(), limit.into()], request)
}

/// Requests of one line in its order, after a position and up to another, as far as the bit of their result's number is
/// set; 0 is the number of those that are undecided.
pub fn list_some(
    tx: &mut Tx<'_>,
    event_key: i64,
    places: Range<i64>,
    results: i64,
    limit: i64,
) -> Result<Vec<RequestRow>, Fault> {
    let (from, to) = (LineKey::new(event_key, places.start), LineKey::new(event_key, places.end));
    tx.query(&LIST_SOME, &[from.raw().into(), to.raw().into(), limit.into(), results.into()], request)
}

/// The request of each of these users in the event's line, if they stand there.
pub fn standing(
    tx: &mut Tx<'_>,
    index: &UserIndex,
    event_key: i64,
    users: &[&UserId],
) -> Result<Vec<Option<RequestRow>>, Fault> {
    if tx.engine() == Engine::Sqlite {
        return index.standing(tx, event_key, users);
    }
    let names: Vec<_> = users.iter().map(|user| user.as_str()).collect();
    let params = [Param::Texts(&names), event_key.into()];
    let found: HashMap<_, _> = tx
        .query(&OF_USERS_IN_LINE, &params, request)?
        .into_iter()
        .map(|row| (row.user_id.as_str().to_owned(), row))
        .collect();
    // Somebody may try several times in one group.
    Ok(names.iter().map(|name| found.get(*name).cloned()).collect())
}

/// All requests of a user; there is one for each event at the most.
pub fn of_user(
    tx: &mut Tx<'_>,
    index: &UserIndex,
    user: &UserId,
    limit: i64,
) -> Result<Vec<RequestRow>, Fault> {
    let keys = match tx.engine() {
        Engine::Sqlite => index.keys_of_user(tx, user, limit)?,
        Engine::Postgres => tx.query(&LINES_OF_USER, &[user.as_str().into(), limit.into()], |row| {
            Ok(LineKey::from_raw(row.int(0)?))
        })?,
    };
    let mut rows = Vec::with_capacity(keys.len());
    for key in keys {
        rows.extend(find_at(tx, key)?.filter(|row| row.user_id == *user));
    }
    Ok(rows)
}

/// Ends everybody in a stretch of the line who is still undecided; how many there were.
pub fn reject_queued(
    tx: &mut Tx<'_>,
    event_key: i64,
    after: i64,
    up_to: i64,
    result: ResultCode,
    at: Timestamp,
) -> Result<i64, Fault> {
    let params = [
        LineKey::new(event_key, after).raw().into(),
        LineKey::new(event_key, up_to).raw().into(),
        result.number().into(),
        at.into(),
    ];
    let changed = tx.execute(&REJECT_QUEUED, &params)?;
    i64::try_from(changed).map_err(|_| Fault::inconsistent("too many requests"))
}

/// Cancelled events that still have people in line, or rewards that nobody has cancelled yet.
pub fn cancelled_undecided(tx: &mut Tx<'_>) -> Result<Vec<EventId>, Fault> {
    tx.query(&CANCELLED_UNDECIDED, &[], |row| EventId::parse(row.text(0)?).map_err(Fault::inconsistent))
}

fn request(row: &Row<'_>) -> Result<RequestRow, Fault> {
    let key = LineKey::from_raw(row.int(0)?);
    let odd = |what: &str| Fault::inconsistent(format!("the request {key:?}: {what}"));
    let id: [u8; 16] = row.blob(1)?.try_into().map_err(|_| odd("its id has the wrong length"))?;
    let state = match (row.int(5)?, row.optional_timestamp(6)?, row.optional_timestamp(7)?) {
        (0, None, None) => RequestState::Queued,
        (number, Some(started_at), Some(finished_at)) => {
            let result = ResultCode::from_number(number).ok_or_else(|| odd("unknown result"))?;
            RequestState::Finished { result, started_at, finished_at }
        }
        _ => return Err(odd("its times do not fit its result")),
    };
    Ok(RequestRow {
        key,
        id: RequestId::from_bytes(id),
        user_id: UserId::parse(row.text(2)?).map_err(Fault::inconsistent)?,
        requested_at: row.timestamp(3)?,
        queued_at: row.timestamp(4)?,
        state,
    })
}
