//! The user index of requests, which is a table of its own on SQLite alone.

use crate::fault::Fault;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::requests::LineKey;

statements! {
    PAGE = "SELECT user_id, event_key, position FROM request_users WHERE (user_id, event_key) > ($1, $2)
        ORDER BY user_id, event_key LIMIT $3";
    POSITION = "SELECT position FROM request_users WHERE user_id = $1 AND event_key = $2";
}

/// Who stands where by the index, in its own order, after a user and a line.
pub fn page(tx: &mut Tx<'_>, after: &(String, i64), limit: i64) -> Result<Vec<(String, LineKey)>, Fault> {
    tx.query(&PAGE, &[(&after.0).into(), after.1.into(), limit.into()], |row| {
        Ok((row.text(0)?.to_owned(), LineKey::new(row.int(1)?, row.int(2)?)))
    })
}

/// Where the index has somebody in a line.
pub fn position(tx: &mut Tx<'_>, user: &str, event_key: i64) -> Result<Option<i64>, Fault> {
    tx.query_one(&POSITION, &[user.into(), event_key.into()], |row| row.int(0))
}
