//! What is known of users' activity.

use crate::fault::Fault;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::{Timestamp, UserId};
use serde_json::{Map, Value};

statements! {
    FIND = "SELECT activity FROM user_activity WHERE user_id = $1";
    LOCK = "SELECT activity FROM user_activity WHERE user_id = $1",
        postgres: "SELECT activity FROM user_activity WHERE user_id = $1 FOR UPDATE";
    PUT = "INSERT INTO user_activity (user_id, activity, updated_at) VALUES ($1, $2, $3)
        ON CONFLICT (user_id) DO UPDATE SET activity = excluded.activity, updated_at = excluded.updated_at";
}

pub fn find(tx: &mut Tx<'_>, user_id: &UserId) -> Result<Option<Map<String, Value>>, Fault> {
    read(tx, &FIND, user_id)
}

/// Sets what is known of a user; what it was before.
pub fn put(
    tx: &mut Tx<'_>,
    user_id: &UserId,
    activity: &Map<String, Value>,
    at: Timestamp,
) -> Result<Option<Map<String, Value>>, Fault> {
    let before = read(tx, &LOCK, user_id)?;
    let text = serde_json::to_string(activity).map_err(|error| Fault::inconsistent(error.to_string()))?;
    tx.execute(&PUT, &[user_id.as_str().into(), (&text).into(), at.into()])?;
    Ok(before)
}

fn read(
    tx: &mut Tx<'_>,
    statement: &'static crate::Statement,
    user_id: &UserId,
) -> Result<Option<Map<String, Value>>, Fault> {
    tx.query_one(statement, &[user_id.as_str().into()], |row| {
        serde_json::from_str(row.text(0)?).map_err(|error| Fault::inconsistent(error.to_string()))
    })
}
