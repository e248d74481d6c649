//! Draws: their secrets, their trees and their winners. Every step is guarded by the one before it, so whoever comes late,
//! another process or this one after a crash, finds that it was done. All of it happens under the line's lock.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::draw::{Draw, DrawState, Hash, Secret};
use guerdon_core::requests::{LineKey, ResultCode};
use guerdon_core::{EventId, Timestamp};
use std::collections::HashSet;

macro_rules! draw_columns {
    () => {
        "event_id, event_key, seed, salt_key, commitment, state, entries, root, rooted_at, public_nonce, leaf_chunks,
        winners_written, settled_position"
    };
}

statements! {
    OPEN = "INSERT INTO draws (event_id, event_key, seed, salt_key, commitment, cutoff_at, awaits_nonce, state, entries,
            leaf_chunks, winners_written, settled_position, finished)
        SELECT event_id, event_key, $2, $3, $4, $5, $6, 'COLLECTING', 0, 0, 0, 0, 0 FROM event_lines WHERE event_id = $1";
    FIND = concat!("SELECT ", draw_columns!(), " FROM draws WHERE event_id = $1");
    UNFINISHED = "SELECT event_id FROM draws WHERE event_id = $1 AND finished = 0";
    DUE = "SELECT event_id FROM draws WHERE finished = 0 AND cutoff_at <= $1
            AND (state <> 'ROOTED' OR awaits_nonce = 0) ORDER BY cutoff_at, event_id LIMIT 100";
    SEAL = "UPDATE draws SET state = 'SEALED', entries = $2 WHERE event_id = $1 AND state = 'COLLECTING'";
    ADD_LEAVES = "INSERT INTO draw_leaves (event_key, chunk, leaves, root) VALUES ($1, $2, $3, $4)";
    COUNT_LEAVES = "UPDATE draws SET leaf_chunks = $3 WHERE event_key = $1 AND leaf_chunks = $2 AND state = 'SEALED'";
    LEAVES = "SELECT leaves FROM draw_leaves WHERE event_key = $1 AND chunk >= $2 AND chunk < $3 ORDER BY chunk";
    LEAF_ROOTS = "SELECT root FROM draw_leaves WHERE event_key = $1 ORDER BY chunk";
    SET_ROOT = "UPDATE draws SET state = 'ROOTED', root = $2, rooted_at = $3 WHERE event_key = $1 AND state = 'SEALED'";
    SET_NONCE = "UPDATE draws SET state = 'DRAWING', public_nonce = $2 WHERE event_key = $1 AND state = 'ROOTED'";
    ADD_WINNER = "INSERT INTO draw_winners (line) VALUES ($1)",
        postgres: "INSERT INTO draw_winners (line) SELECT unnest(CAST($1 AS BIGINT[]))";
    COUNT_WINNERS = "UPDATE draws SET winners_written = $3
        WHERE event_key = $1 AND winners_written = $2 AND state = 'DRAWING'";
    WINNERS = "SELECT line FROM draw_winners WHERE line > $1 AND line <= $2 ORDER BY line";
    WINNERS_AMONG = "SELECT line FROM draw_winners WHERE line = $1",
        postgres: "SELECT line FROM draw_winners WHERE line = ANY(CAST($1 AS BIGINT[]))";
    ANNOUNCE = "UPDATE draws SET state = 'ANNOUNCED', finished = CASE WHEN entries = 0 THEN 1 ELSE 0 END
        WHERE event_key = $1 AND winners_written = $2 AND state = 'DRAWING'";
    END_VOID = "UPDATE draws SET state = 'VOID', finished = 1 WHERE event_id = $1 AND state <> 'ANNOUNCED'";
    SETTLE = "UPDATE draws SET settled_position = $3, finished = CASE WHEN entries <= $3 THEN 1 ELSE 0 END
        WHERE event_key = $1 AND settled_position = $2 AND state = 'ANNOUNCED'";
    LET_WIN = "UPDATE requests SET result = $2, started_at = $3, finished_at = $3 WHERE line = $1 AND result = 0",
        postgres: "UPDATE requests SET result = $2, started_at = $3, finished_at = $3
        WHERE line = ANY(CAST($1 AS BIGINT[])) AND result = 0";
}

/// A draw with the number of its event's line.
#[derive(Clone, Debug)]
pub struct DrawRow {
    pub event_key: i64,
    pub draw: Draw,
}

/// Some of a tree's leaves, next to each other, and the root over them.
#[derive(Clone, Debug)]
pub struct LeafChunk {
    pub leaves: Vec<Hash>,
    pub root: Hash,
}

/// Writes the draw of an event whose line was just made.
pub fn open(tx: &mut Tx<'_>, draw: &Draw, cutoff: Timestamp, awaits_nonce: bool) -> Result<(), Fault> {
    let params = [
        draw.event_id.as_str().into(),
        Param::Blob(draw.seed.reveal()),
        Param::Blob(draw.salt_key.reveal()),
        Param::Blob(draw.commitment.as_bytes()),
        cutoff.into(),
        i64::from(awaits_nonce).into(),
    ];
    match tx.execute(&OPEN, &params)? {
        1 => Ok(()),
        _ => Err(Fault::inconsistent(format!("the draw of {} has no line", draw.event_id))),
    }
}

pub fn find(tx: &mut Tx<'_>, event_id: &EventId) -> Result<Option<DrawRow>, Fault> {
    tx.query_one(&FIND, &[event_id.as_str().into()], draw)
}

/// Whether everything about a draw is written, to its last request.
pub fn is_finished(tx: &mut Tx<'_>, event_id: &EventId) -> Result<bool, Fault> {
    Ok(tx.query_one(&UNFINISHED, &[event_id.as_str().into()], |_| Ok(()))?.is_none())
}

/// Draws that have something to do by themselves.
pub fn due(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<EventId>, Fault> {
    tx.query(&DUE, &[now.into()], |row| EventId::parse(row.text(0)?).map_err(Fault::inconsistent))
}

/// Fixes who takes part. False when that was done before.
pub fn seal(tx: &mut Tx<'_>, event_id: &EventId, entries: i64) -> Result<bool, Fault> {
    Ok(tx.execute(&SEAL, &[event_id.as_str().into(), entries.into()])? == 1)
}

/// Adds leaves behind the chunks that are there. False when somebody else did.
pub fn add_leaves(
    tx: &mut Tx<'_>,
    event_key: i64,
    present: i64,
    chunks: &[LeafChunk],
) -> Result<bool, Fault> {
    let count = i64::try_from(chunks.len()).map_err(|_| Fault::inconsistent("too many leaves"))?;
    if tx.execute(&COUNT_LEAVES, &[event_key.into(), present.into(), (present + count).into()])? == 0 {
        return Ok(false);
    }
    for (number, chunk) in (present..).zip(chunks) {
        let leaves: Vec<u8> = chunk.leaves.iter().flat_map(|leaf| *leaf.as_bytes()).collect();
        let params =
            [event_key.into(), number.into(), Param::Blob(&leaves), Param::Blob(chunk.root.as_bytes())];
        tx.execute(&ADD_LEAVES, &params)?;
    }
    Ok(true)
}

/// The leaves of some chunks, in the order of the line.
pub fn leaves(tx: &mut Tx<'_>, event_key: i64, from: i64, to: i64) -> Result<Vec<Hash>, Fault> {
    let chunks = tx.query(&LEAVES, &[event_key.into(), from.into(), to.into()], |row| {
        let bytes = row.blob(0)?;
        let (leaves, rest) = bytes.as_chunks::<32>();
        if !rest.is_empty() {
            return Err(Fault::inconsistent("half a leaf"));
        }
        Ok(leaves.iter().map(|leaf| Hash::from_bytes(*leaf)).collect::<Vec<_>>())
    })?;
    Ok(chunks.concat())
}

/// The roots of all chunks.
pub fn leaf_roots(tx: &mut Tx<'_>, event_key: i64) -> Result<Vec<Hash>, Fault> {
    tx.query(&LEAF_ROOTS, &[event_key.into()], |row| hash(row, 0))
}

pub fn set_root(tx: &mut Tx<'_>, event_key: i64, root: &Hash, at: Timestamp) -> Result<bool, Fault> {
    Ok(tx.execute(&SET_ROOT, &[event_key.into(), Param::Blob(root.as_bytes()), at.into()])? == 1)
}

/// Lets the winners follow; nothing about them can change from here on.
pub fn set_nonce(tx: &mut Tx<'_>, event_key: i64, nonce: Option<&str>) -> Result<bool, Fault> {
    Ok(tx.execute(&SET_NONCE, &[event_key.into(), nonce.into()])? == 1)
}

/// Adds winners to those that are written. False when somebody else did.
pub fn add_winners(tx: &mut Tx<'_>, event_key: i64, present: i64, positions: &[i64]) -> Result<bool, Fault> {
    let count = i64::try_from(positions.len()).map_err(|_| Fault::inconsistent("too many winners"))?;
    if tx.execute(&COUNT_WINNERS, &[event_key.into(), present.into(), (present + count).into()])? == 0 {
        return Ok(false);
    }
    let lines: Vec<_> = positions.iter().map(|position| LineKey::new(event_key, *position).raw()).collect();
    if tx.engine() == Engine::Sqlite {
        tx.execute_rows(&ADD_WINNER, lines.iter().map(|line| [Param::Int(*line)]))?;
    } else {
        tx.execute(&ADD_WINNER, &[Param::Ints(&lines)])?;
    }
    Ok(true)
}

/// Who was drawn, in a stretch of the line.
pub fn winners(tx: &mut Tx<'_>, after: LineKey, up_to: LineKey) -> Result<Vec<LineKey>, Fault> {
    tx.query(&WINNERS, &[after.raw().into(), up_to.raw().into()], |row| Ok(LineKey::from_raw(row.int(0)?)))
}

/// Who was drawn, of some.
pub fn winners_among(tx: &mut Tx<'_>, keys: &[LineKey]) -> Result<HashSet<LineKey>, Fault> {
    let line = |row: &Row<'_>| Ok(LineKey::from_raw(row.int(0)?));
    if tx.engine() == Engine::Postgres {
        let lines: Vec<_> = keys.iter().map(|key| key.raw()).collect();
        return Ok(tx.query(&WINNERS_AMONG, &[Param::Ints(&lines)], line)?.into_iter().collect());
    }
    let mut found = HashSet::new();
    for key in keys {
        found.extend(tx.query_one(&WINNERS_AMONG, &[key.raw().into()], line)?);
    }
    Ok(found)
}

/// Ends the draw once all its winners are written.
pub fn announce(tx: &mut Tx<'_>, event_key: i64, winners: i64) -> Result<bool, Fault> {
    Ok(tx.execute(&ANNOUNCE, &[event_key.into(), winners.into()])? == 1)
}

/// Ends a draw whose event was cancelled.
pub fn end_void(tx: &mut Tx<'_>, event_id: &EventId) -> Result<(), Fault> {
    tx.execute(&END_VOID, &[event_id.as_str().into()]).map(drop)
}

/// Notes that everybody up to here was settled. False when somebody else did.
pub fn settle(tx: &mut Tx<'_>, event_key: i64, from: i64, to: i64) -> Result<bool, Fault> {
    Ok(tx.execute(&SETTLE, &[event_key.into(), from.into(), to.into()])? == 1)
}

/// Writes in the requests of winners that they won.
pub fn let_win(tx: &mut Tx<'_>, winners: &[LineKey], at: Timestamp) -> Result<(), Fault> {
    let lines: Vec<_> = winners.iter().map(|key| key.raw()).collect();
    let success = Param::Int(ResultCode::Success.number());
    let changed = if tx.engine() == Engine::Sqlite {
        tx.execute_rows(&LET_WIN, lines.iter().map(|line| [Param::Int(*line), success, at.into()]))?
    } else {
        tx.execute(&LET_WIN, &[Param::Ints(&lines), success, at.into()])?
    };
    if usize::try_from(changed) == Ok(lines.len()) {
        return Ok(());
    }
    Err(Fault::inconsistent("a winner was decided before"))
}

fn hash(row: &Row<'_>, column: usize) -> Result<Hash, Fault> {
    bytes(row.blob(column)?).map(Hash::from_bytes)
}

fn bytes(blob: &[u8]) -> Result<[u8; 32], Fault> {
    blob.try_into().map_err(|_| Fault::inconsistent("32 bytes were expected"))
}

fn draw(row: &Row<'_>) -> Result<DrawRow, Fault> {
    let event_id = EventId::parse(row.text(0)?).map_err(Fault::inconsistent)?;
    let state = DrawState::parse(row.text(5)?)
        .ok_or_else(|| Fault::inconsistent(format!("the draw of {event_id} is in an unknown state")))?;
    let root = row.optional_blob(7)?.map(|blob| bytes(blob).map(Hash::from_bytes)).transpose()?;
    Ok(DrawRow {
        event_key: row.int(1)?,
        draw: Draw {
            event_id,
            seed: Secret::new(bytes(row.blob(2)?)?),
            salt_key: Secret::new(bytes(row.blob(3)?)?),
            commitment: hash(row, 4)?,
            state,
            entries: row.int(6)?,
            root,
            rooted_at: row.optional_timestamp(8)?,
            public_nonce: row.optional_text(9)?.map(String::from),
            leaf_chunks: row.int(10)?,
            winners_written: row.int(11)?,
            settled_position: row.int(12)?,
        },
    })
}
