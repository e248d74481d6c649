//! The user registry.

use crate::database::Engine;
use crate::fault::Fault;
use crate::listed::{LOOKED_THROUGH_MAX, Listed};
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::users::UserStatus;
use guerdon_core::{Timestamp, UserId};
use std::collections::HashMap;

statements! {
    FIND = "SELECT status FROM users WHERE user_id = $1";
    FIND_MANY = "SELECT user_id, status FROM users WHERE user_id = $1",
        postgres: "SELECT user_id, status FROM users WHERE user_id = ANY(CAST($1 AS TEXT[]))";
    /// The row is locked, so that what the audit log calls "before" is what was there.
    LOCK = "SELECT status FROM users WHERE user_id = $1",
        postgres: "SELECT status FROM users WHERE user_id = $1 FOR UPDATE";
    INSERT = "INSERT INTO users (user_id, status, updated_at) VALUES ($1, $2, $3) ON CONFLICT (user_id) DO NOTHING";
    UPDATE = "UPDATE users SET status = $2, updated_at = $3 WHERE user_id = $1";
    LIST = "SELECT user_id, status, updated_at FROM users WHERE user_id > $1 ORDER BY user_id LIMIT $2";
    LIST_ACTIVE = "SELECT user_id, status, updated_at FROM users WHERE user_id > $1 AND user_id <= $3
        AND status = 'ACTIVE' ORDER BY user_id LIMIT $2";
    EDGE_OF_ALL = "SELECT user_id FROM users WHERE user_id > $1 ORDER BY user_id LIMIT 1 OFFSET $2";
    EDGE_OF_NOT_ACTIVE = "SELECT user_id FROM users WHERE status <> 'ACTIVE' AND user_id > $1
        ORDER BY user_id LIMIT 1 OFFSET $2";
    LIST_NOT_ACTIVE = "SELECT user_id, status, updated_at FROM users
        WHERE status <> 'ACTIVE' AND user_id > $1 AND user_id <= $3 AND status = $4 ORDER BY user_id LIMIT $2";
    NOT_ACTIVE = "SELECT user_id, status FROM users WHERE status <> 'ACTIVE' AND user_id > $1 ORDER BY user_id LIMIT $2";
}

/// Ids are visible ASCII, so each comes before this.
const AFTER_ALL: &str = "\u{7f}";

pub fn find(tx: &mut Tx<'_>, user_id: &UserId) -> Result<Option<UserStatus>, Fault> {
    tx.query_one(&FIND, &[user_id.as_str().into()], |row| status(row, 0))
}

/// The statuses of these users, as far as the registry knows them.
pub fn find_many(tx: &mut Tx<'_>, users: &[&str]) -> Result<HashMap<String, UserStatus>, Fault> {
    let mut found = HashMap::new();
    if tx.engine() == Engine::Postgres {
        let rows = tx.query(&FIND_MANY, &[Param::Texts(users)], |row| {
            Ok((row.text(0)?.to_owned(), status(row, 1)?))
        })?;
        found.extend(rows);
        return Ok(found);
    }
    for user in users {
        let status = tx.query_one(&FIND, &[(*user).into()], |row| status(row, 0))?;
        found.extend(status.map(|status| ((*user).to_owned(), status)));
    }
    Ok(found)
}

/// Sets a user's status; what it was before. Whoever comes first makes the row, so that nobody's "before" is wrong.
pub fn put(
    tx: &mut Tx<'_>,
    user_id: &UserId,
    status_now: UserStatus,
    at: Timestamp,
) -> Result<Option<UserStatus>, Fault> {
    let params = [user_id.as_str().into(), status_now.as_str().into(), at.into()];
    if tx.execute(&INSERT, &params)? == 1 {
        return Ok(None);
    }
    let before = tx.query_one(&LOCK, &[user_id.as_str().into()], |row| status(row, 0))?;
    tx.execute(&UPDATE, &params)?;
    Ok(before)
}

/// Users whom the registry knows, in the order of their ids, after the given one. Where those of a status are wanted, so
/// many are looked through.
pub fn list(
    tx: &mut Tx<'_>,
    wanted: Option<UserStatus>,
    after: &str,
    limit: i64,
) -> Result<Listed<(UserId, UserStatus, Timestamp), String>, Fault> {
    let read = |row: &Row<'_>| {
        let id = UserId::parse(row.text(0)?).map_err(Fault::inconsistent)?;
        Ok((id, status(row, 1)?, row.timestamp(2)?))
    };
    let Some(wanted) = wanted else {
        return Ok(Listed::whole(tx.query(&LIST, &[after.into(), limit.into()], read)?));
    };
    let active = wanted == UserStatus::Active;
    let edge = if active { &EDGE_OF_ALL } else { &EDGE_OF_NOT_ACTIVE };
    let params = [after.into(), (LOOKED_THROUGH_MAX - 1).into()];
    let end = tx.query_one(edge, &params, |row| Ok(row.text(0)?.to_owned()))?;
    let last = Param::Text(end.as_deref().unwrap_or(AFTER_ALL));
    let rows = if active {
        tx.query(&LIST_ACTIVE, &[after.into(), limit.into(), last], read)?
    } else {
        tx.query(&LIST_NOT_ACTIVE, &[after.into(), limit.into(), last, wanted.as_str().into()], read)?
    };
    Ok(Listed { rows, end })
}

/// Users who are not active, in the order of their ids, after the given one.
pub fn not_active(tx: &mut Tx<'_>, after: &str, limit: i64) -> Result<Vec<(UserId, UserStatus)>, Fault> {
    tx.query(&NOT_ACTIVE, &[after.into(), limit.into()], |row| {
        Ok((UserId::parse(row.text(0)?).map_err(Fault::inconsistent)?, status(row, 1)?))
    })
}

fn status(row: &Row<'_>, column: usize) -> Result<UserStatus, Fault> {
    let text = row.text(column)?;
    UserStatus::parse(text).ok_or_else(|| Fault::inconsistent(format!("a user has the status {text:?}")))
}
