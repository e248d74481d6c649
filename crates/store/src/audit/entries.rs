//! What the audit looks at in entries and in what they gave.

use super::for_ids;
use crate::entries::{Found, entry, entry_columns};
use crate::fault::Fault;
use crate::param::Row;
use crate::statement::statements;
use crate::tx::Tx;

statements! {
    ENTRIES = concat!("SELECT ", entry_columns!(), " FROM event_entry
        WHERE (event_id, member_id, number) > ($1, $2, $3) ORDER BY event_id, member_id, number LIMIT $4");
    ENTRIES_OF = concat!("SELECT ", entry_columns!(), " FROM event_entry WHERE entry_id = $1"),
        postgres: concat!("SELECT ", entry_columns!(), " FROM event_entry WHERE entry_id = ANY(CAST($1 AS BYTEA[]))");
    ENDED_OF = "SELECT allocation_id, reward_status, member_id FROM event_reward_allocation WHERE allocation_id = $1",
        postgres: "SELECT allocation_id, reward_status, member_id FROM event_reward_allocation
        WHERE allocation_id = ANY(CAST($1 AS BYTEA[]))";
    /// One statement, so that all of it is of one moment.
    STOCK = "SELECT r.reward_id, r.total_stock, r.remaining_stock, r.quantity, (
            SELECT COUNT(*) FROM event_reward_allocation a WHERE a.event_id = r.event_id AND a.reward_id = r.reward_id
                AND a.reward_status <> 'CANCELLED')
        FROM event_rewards r JOIN events e ON e.event_id = r.event_id
        WHERE r.event_id = $1 AND r.total_stock IS NOT NULL AND e.type IN ('ATTENDANCE', 'RANDOM')
        ORDER BY r.ordinal";
}

/// An entry, and whose.
pub type EntryAt = (String, Found);

fn entry_at(row: &Row<'_>) -> Result<EntryAt, Fault> {
    Ok((row.text(2)?.to_owned(), entry(row)?))
}

/// Entries after one, by event, person and number.
pub fn page(tx: &mut Tx<'_>, after: &(String, String, i64), limit: i64) -> Result<Vec<EntryAt>, Fault> {
    let params = [(&after.0).into(), (&after.1).into(), after.2.into(), limit.into()];
    tx.query(&ENTRIES, &params, entry_at)
}

/// These entries; those that there are.
pub fn of(tx: &mut Tx<'_>, ids: &[[u8; 16]]) -> Result<Vec<EntryAt>, Fault> {
    for_ids(tx, &ENTRIES_OF, ids, entry_at)
}

/// How these allocations stand, and whose they are.
pub fn statuses_of(tx: &mut Tx<'_>, ids: &[[u8; 16]]) -> Result<Vec<([u8; 16], String, String)>, Fault> {
    for_ids(tx, &ENDED_OF, ids, |row| Ok((row.uuid(0)?, row.text(1)?.into(), row.text(2)?.into())))
}

/// A limited reward, and how often it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StockAt {
    pub reward_id: String,
    pub total: i64,
    pub remaining: i64,
    pub quantity: i64,
    pub given: i64,
}

/// The limited rewards of an event that has entries.
pub fn stock(tx: &mut Tx<'_>, event_id: &str) -> Result<Vec<StockAt>, Fault> {
    tx.query(&STOCK, &[event_id.into()], |row| {
        Ok(StockAt {
            reward_id: row.text(0)?.into(),
            total: row.int(1)?,
            remaining: row.int(2)?,
            quantity: row.int(3)?,
            given: row.int(4)?,
        })
    })
}
