//! The user registry.

use crate::fault::Fault;
use crate::param::Row;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::users::UserStatus;
use guerdon_core::{Timestamp, UserId};

statements! {
    FIND = "SELECT status FROM users WHERE user_id = $1";
    /// The row is locked, so that what the audit log calls "before" is what was there.
    LOCK = "SELECT status FROM users WHERE user_id = $1",
        postgres: "SELECT status FROM users WHERE user_id = $1 FOR UPDATE";
    PUT = "INSERT INTO users (user_id, status, updated_at) VALUES ($1, $2, $3)
        ON CONFLICT (user_id) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at";
    CHANGED_SINCE = "SELECT user_id, status, updated_at FROM users
        WHERE (updated_at, user_id) > ($1, $2) ORDER BY updated_at, user_id LIMIT $3";
}

pub fn find(tx: &mut Tx<'_>, user_id: &UserId) -> Result<Option<UserStatus>, Fault> {
    tx.query_one(&FIND, &[user_id.as_str().into()], |row| status(row, 0))
}

pub fn lock(tx: &mut Tx<'_>, user_id: &UserId) -> Result<Option<UserStatus>, Fault> {
    tx.query_one(&LOCK, &[user_id.as_str().into()], |row| status(row, 0))
}

pub fn put(tx: &mut Tx<'_>, user_id: &UserId, status: UserStatus, at: Timestamp) -> Result<(), Fault> {
    tx.execute(&PUT, &[user_id.as_str().into(), status.as_str().into(), at.into()]).map(drop)
}

/// A user's row, as it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRow {
    pub user_id: UserId,
    pub status: UserStatus,
    pub updated_at: Timestamp,
}

/// The rows that changed after the given one, oldest first.
pub fn changed_since(
    tx: &mut Tx<'_>,
    at: Timestamp,
    user_id: &str,
    limit: i64,
) -> Result<Vec<UserRow>, Fault> {
    tx.query(&CHANGED_SINCE, &[at.into(), user_id.into(), limit.into()], |row| {
        Ok(UserRow {
            user_id: UserId::parse(row.text(0)?).map_err(Fault::inconsistent)?,
            status: status(row, 1)?,
            updated_at: row.timestamp(2)?,
        })
    })
}

fn status(row: &Row<'_>, column: usize) -> Result<UserStatus, Fault> {
    let text = row.text(column)?;
    UserStatus::parse(text).ok_or_else(|| Fault::inconsistent(format!("a user has the status {text:?}")))
}
