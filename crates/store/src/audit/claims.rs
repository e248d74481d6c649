//! What the audit looks at in claims.

use super::for_ids;
use crate::claims::{Stored, claim_columns, stored};
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::wallet::TransferId;

/// How many columns a claim has.
const CLAIM_COLUMNS: usize = 14;

statements! {
    /// With what each holds of the stock, in one statement, so that both are of one moment.
    PAGE = concat!("SELECT ", claim_columns!(), ", (SELECT CAST(COALESCE(SUM(s.quantity), 0) AS BIGINT)
            FROM claim_stock s WHERE s.claim_id = c.claim_id AND s.returned_at IS NULL), live
        FROM user_reward_requests c WHERE claim_id > $1 ORDER BY claim_id LIMIT $2");
    OF = concat!("SELECT ", claim_columns!(), " FROM user_reward_requests WHERE claim_id = $1"),
        postgres: concat!("SELECT ", claim_columns!(), " FROM user_reward_requests
        WHERE claim_id = ANY(CAST($1 AS BYTEA[]))");
    PAID = "SELECT transfer_id, amount, refunded FROM core.transfer WHERE transfer_id = $1",
        postgres: "SELECT transfer_id, amount, refunded FROM core.transfer WHERE transfer_id = ANY(CAST($1 AS BYTEA[]))";
    NEXT_EVENT = "SELECT event_id FROM events WHERE type = 'CLAIM' AND event_id > $1 ORDER BY event_id LIMIT 1";
}

/// Claims after one, each with how much of the stock it holds, and whether it is marked as live.
pub fn page(tx: &mut Tx<'_>, after: &[u8], limit: i64) -> Result<Vec<(Stored, i64, bool)>, Fault> {
    tx.query(&PAGE, &[Param::Blob(after), limit.into()], |row| {
        let live = row.optional_int(CLAIM_COLUMNS + 1)?.is_some();
        Ok((stored(row)?, row.int(CLAIM_COLUMNS)?, live))
    })
}

/// These claims; those that there are.
pub fn of(tx: &mut Tx<'_>, ids: &[[u8; 16]]) -> Result<Vec<Stored>, Fault> {
    for_ids(tx, &OF, ids, stored)
}

/// These transfers, each with its amount and what was given back of it.
pub fn paid(tx: &mut Tx<'_>, ids: &[[u8; 16]]) -> Result<Vec<(TransferId, i64, i64)>, Fault> {
    for_ids(tx, &PAID, ids, |row| Ok((TransferId::from_bytes(row.uuid(0)?), row.int(1)?, row.int(2)?)))
}

/// The next event of which there are claims.
pub fn next_event(tx: &mut Tx<'_>, after: &str) -> Result<Option<String>, Fault> {
    tx.query_one(&NEXT_EVENT, &[after.into()], |row| Ok(row.text(0)?.to_owned()))
}
