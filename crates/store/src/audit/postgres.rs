//! What only PostgreSQL can be asked: whether its own index keeps anybody from standing twice in a line.

use crate::fault::Fault;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::requests::LineKey;

statements! {
    UNIQUE_INDEX = "SELECT COUNT(*) FROM pg_index WHERE indexrelid = to_regclass('requests_by_user')
        AND indisunique AND indisvalid";
    TWICE = "SELECT user_id FROM requests WHERE line > $1 AND line <= $2 GROUP BY user_id HAVING COUNT(*) > 1
        ORDER BY user_id LIMIT 20";
}

pub fn has_unique_index(tx: &mut Tx<'_>) -> Result<bool, Fault> {
    Ok(tx.query_one(&UNIQUE_INDEX, &[], |row| row.int(0))? == Some(1))
}

/// Some of those who stand twice, where nothing kept them from it.
pub fn standing_twice(tx: &mut Tx<'_>, event_key: i64, up_to: i64) -> Result<Vec<String>, Fault> {
    let range = [LineKey::new(event_key, 0), LineKey::new(event_key, up_to)].map(|key| key.raw().into());
    tx.query(&TWICE, &range, |row| Ok(row.text(0)?.to_owned()))
}
