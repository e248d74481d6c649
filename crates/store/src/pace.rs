//! What was written lately: counted through the ids, which begin with their time, and never more rows than are asked for.

use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::EventId;
use guerdon_core::pace::{Came, Found, Span};
use std::collections::HashMap;

statements! {
    /// Of all events at once: the table is in the order of its ids, whoever they are of.
    ENTRIES = "SELECT event_id, created_at / 1000, COALESCE(reward_id, ''),
            CAST(CASE WHEN drawn IS NOT NULL THEN 0 WHEN streak > 1 THEN 2 ELSE 1 END AS BIGINT), COUNT(*)
        FROM (SELECT event_id, created_at, reward_id, drawn, streak FROM event_entry
            WHERE entry_id >= $1 ORDER BY entry_id DESC LIMIT $2) lately
        GROUP BY 1, 2, 3, 4 ORDER BY 2, 1, 3, 4";
    CLAIMS = "SELECT created_at / 1000, status, COUNT(*)
        FROM (SELECT created_at, status FROM user_reward_requests
            WHERE event_id = $1 AND claim_id >= $2 ORDER BY claim_id DESC LIMIT $3) lately
        GROUP BY 1, 2 ORDER BY 1, 2";
}

/// What was found, and the first second of which all was read.
pub type Counted<T> = (T, i64);

/// Check-ins and plays, by their events.
pub fn entries(
    tx: &mut Tx<'_>,
    span: Span,
    rows_max: i64,
) -> Result<Counted<HashMap<String, Vec<Found>>>, Fault> {
    let first = span.first_id();
    let rows = tx.query(&ENTRIES, &[Param::Blob(first.as_bytes()), rows_max.into()], |row| {
        let came = match (row.int(3)?, row.text(2)?) {
            (0, "") => Came::Nothing,
            (0, reward) => Came::Won(reward.to_owned()),
            (1, _) => Came::FirstDay,
            _ => Came::InARow,
        };
        Ok((row.text(0)?.to_owned(), (row.int(1)?, came, row.int(4)?)))
    })?;
    let whole_from = whole_from(span, rows_max, rows.iter().map(|(_, found)| found));
    let mut by_event: HashMap<String, Vec<Found>> = HashMap::new();
    for (event, found) in rows {
        by_event.entry(event).or_default().push(found);
    }
    Ok((by_event, whole_from))
}

/// Claims of an event.
pub fn claims(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    span: Span,
    rows_max: i64,
) -> Result<Counted<Vec<Found>>, Fault> {
    let first = span.first_id();
    let params = [event_id.as_str().into(), Param::Blob(first.as_bytes()), rows_max.into()];
    let found = tx.query(&CLAIMS, &params, |row| {
        Ok((row.int(0)?, Came::Claim(row.text(1)?.to_owned()), row.int(2)?))
    })?;
    let whole_from = whole_from(span, rows_max, found.iter());
    Ok((found, whole_from))
}

/// Where the rows ran into their limit, the earliest of them are of a second that was only read in part.
fn whole_from<'f>(span: Span, rows_max: i64, found: impl Iterator<Item = &'f Found>) -> i64 {
    let (mut rows, mut earliest) = (0, i64::MAX);
    for (second, _, count) in found {
        rows += count;
        earliest = earliest.min(*second);
    }
    if rows < rows_max { span.from } else { earliest.saturating_add(1) }
}
