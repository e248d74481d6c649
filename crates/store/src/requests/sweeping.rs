//! Removing requests that were kept long enough, from the front of their line. The line's counts stay.

use crate::database::Engine;
use crate::fault::Fault;
use crate::outbox::told;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::requests::LineKey;
use guerdon_core::{EventId, Timestamp};

statements! {
    DUE = "SELECT l.event_id FROM event_lines l JOIN events e ON e.event_id = l.event_id
        WHERE e.ends_at < $1 AND l.swept_position < l.decided_position AND NOT EXISTS (
            SELECT 1 FROM event_reward_allocation a
            WHERE a.event_id = l.event_id AND a.reward_status <> 'SUCCESS' AND a.reward_status <> 'CANCELLED')
        ORDER BY l.event_id LIMIT 100";
    /// Not while anything undelivered hangs on the requests, nor while their draw is being settled.
    FRONT = "SELECT event_key, swept_position, decided_position, indexed_position FROM event_lines WHERE event_id = $1
        AND NOT EXISTS (SELECT 1 FROM event_reward_allocation a
            WHERE a.event_id = $1 AND a.reward_status <> 'SUCCESS' AND a.reward_status <> 'CANCELLED')
        AND NOT EXISTS (SELECT 1 FROM draws d WHERE d.event_id = $1 AND d.finished = 0)";
    OLD_ENOUGH = "SELECT line FROM requests WHERE line > $1 AND line <= $2 AND finished_at < $3 ORDER BY line";
    REMOVE = "DELETE FROM requests WHERE line > $1 AND line <= $2";
    SET_SWEPT = "UPDATE event_lines SET swept_position = $2 WHERE event_key = $1 AND swept_position < $2";
}

/// Events that ended before then, with decided requests still there and nothing left to deliver.
pub fn due(tx: &mut Tx<'_>, ended_before: Timestamp) -> Result<Vec<EventId>, Fault> {
    tx.query(&DUE, &[ended_before.into()], |row| EventId::parse(row.text(0)?).map_err(Fault::inconsistent))
}

/// Removes the next few requests of a line that ended before then; how many.
pub fn sweep(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    finished_before: Timestamp,
    limit: i64,
) -> Result<i64, Fault> {
    let front = tx.query_one(&FRONT, &[event_id.as_str().into()], |row| {
        Ok((row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?))
    })?;
    let Some((event_key, swept, decided, indexed)) = front else { return Ok(0) };
    // On SQLite whoever is not in the user index yet stays until it is.
    let end = if tx.engine() == Engine::Sqlite { decided.min(indexed) } else { decided };
    let end = end.min(swept + limit);
    let range = [LineKey::new(event_key, swept).raw().into(), LineKey::new(event_key, end).raw().into()];
    let old = tx.query(&OLD_ENOUGH, &[range[0], range[1], finished_before.into()], |row| {
        Ok(LineKey::from_raw(row.int(0)?).position())
    })?;
    // Only an unbroken stretch from the front is removed.
    let count = old.iter().zip(swept + 1..).take_while(|(position, expected)| *position == expected).count();
    let count = i64::try_from(count).map_err(|_| Fault::inconsistent("too many requests"))?;
    if count == 0 {
        return Ok(0);
    }
    let last = LineKey::new(event_key, swept + count).raw().into();
    let rows = super::list(tx, event_key, swept, count)?;
    told::keep(tx, event_id, &rows)?;
    if tx.engine() == Engine::Sqlite {
        super::user_index::forget(tx, event_key, range[0], last)?;
    }
    tx.execute(&REMOVE, &[range[0], last])?;
    tx.execute(&SET_SWEPT, &[event_key.into(), (swept + count).into()])?;
    Ok(count)
}
