//! The user registry, and the book of those who may not take part.
//!
//! Nearly everybody is active, so only the others are kept in memory: a surge of people whom nobody has seen before
//! costs no look-up. The book follows the registry's changes and is at most a second behind.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::users::UserStatus;
use guerdon_core::{Code, Rejection, Timestamp, UserId};
use guerdon_store::users::UserRow;
use guerdon_store::{Command, Fault, Priority, Stopwatch, Tx, audit_log, users};
use serde_json::json;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

/// How far behind the registry the book may be.
const STALE: Duration = Duration::from_secs(1);
/// Changes are read again from this long before the newest one: a transaction may be committed later than one that
/// carries a later time.
const OVERLAP_MS: i64 = 10_000;
const ROWS: i64 = 1_000;
/// Beyond this many the book is given up, and every user is looked up.
const ENTRIES_MAX: usize = 1_000_000;

/// What becomes of users whom the registry does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownUsers {
    #[default]
    Accept,
    Reject,
}

pub(crate) struct UserBook {
    unknown: UnknownUsers,
    not_active: RwLock<HashMap<UserId, UserStatus>>,
    progress: Mutex<Progress>,
}

struct Progress {
    newest: Timestamp,
    read: Option<Stopwatch>,
}

impl UserBook {
    pub(crate) fn new(unknown: UnknownUsers) -> Self {
        let progress = Progress { newest: Timestamp::from_millis(-1), read: None };
        Self { unknown, not_active: RwLock::default(), progress: Mutex::new(progress) }
    }

    /// The status as the book has it, or none when it cannot tell.
    fn look_up(&self, user_id: &UserId) -> Option<UserStatus> {
        let fresh = {
            let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.read.is_some_and(|read| read.elapsed() < STALE)
        };
        let not_active = self.not_active.read().unwrap_or_else(PoisonError::into_inner);
        if !fresh || not_active.len() > ENTRIES_MAX {
            return None;
        }
        match (not_active.get(user_id), self.unknown) {
            (Some(status), _) => Some(*status),
            (None, UnknownUsers::Accept) => Some(UserStatus::Active),
            // Known and active, or unknown: the book does not say.
            (None, UnknownUsers::Reject) => None,
        }
    }

    fn note(&self, user_id: UserId, status: UserStatus) {
        let mut not_active = self.not_active.write().unwrap_or_else(PoisonError::into_inner);
        if status.is_active() {
            not_active.remove(&user_id);
        } else if not_active.len() <= ENTRIES_MAX {
            not_active.insert(user_id, status);
        }
    }

    fn newest(&self) -> Timestamp {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).newest
    }

    fn caught_up(&self, newest: Timestamp, since: Stopwatch) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.newest = progress.newest.max(newest);
        progress.read = Some(since);
    }
}

impl Engine {
    /// Refuses whoever may not take part, whatever their token says.
    pub async fn require_active(&self, user_id: &UserId) -> Result<(), Failure> {
        let mut status = self.users.look_up(user_id);
        if status.is_none() {
            let wanted = user_id.clone();
            status = self.read(move |tx| users::find(tx, &wanted)).await?;
        }
        match (status, self.users.unknown) {
            (Some(UserStatus::Active), _) | (None, UnknownUsers::Accept) => Ok(()),
            (Some(status), _) => {
                Err(Rejection::new(Code::UserNotActive, format!("the user is {}", status.as_str())).into())
            }
            (None, UnknownUsers::Reject) => {
                Err(Rejection::new(Code::UserNotActive, "the user is not in the registry").into())
            }
        }
    }

    pub async fn user_status(&self, user_id: &UserId) -> Result<UserStatus, Failure> {
        let wanted = user_id.clone();
        let found = self.read(move |tx| users::find(tx, &wanted)).await?;
        let unknown = || Rejection::new(Code::UserNotFound, format!("the registry does not know {user_id}"));
        Ok(found.ok_or_else(unknown)?)
    }

    pub async fn set_user_status(
        &self,
        actor: Actor,
        user_id: UserId,
        status: UserStatus,
    ) -> Result<(), Failure> {
        let command = SetUserStatus { user_id: user_id.clone(), status, actor, at: self.now() };
        self.commit(command).await?;
        self.users.note(user_id, status);
        Ok(())
    }

    /// Reads what changed in the registry since the last time.
    pub(crate) async fn refresh_users(&self) -> Result<(), Failure> {
        let started = Stopwatch::start();
        let mut at = self.users.newest().plus_millis(-OVERLAP_MS);
        let mut after = String::new();
        loop {
            let from = (at, after);
            let rows = self.read(move |tx| users::changed_since(tx, from.0, &from.1, ROWS)).await?;
            let full = i64::try_from(rows.len()).is_ok_and(|count| count == ROWS);
            let last = rows.last().map(|row| (row.updated_at, row.user_id.to_string()));
            for UserRow { user_id, status, .. } in rows {
                self.users.note(user_id, status);
            }
            match last {
                Some(place) if full => (at, after) = place,
                last => {
                    self.users.caught_up(last.map_or(at, |(at, _)| at), started);
                    break;
                }
            }
        }
        let count = self.users.not_active.read().unwrap_or_else(PoisonError::into_inner).len();
        self.metrics.users_not_active.set(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(())
    }
}

struct SetUserStatus {
    user_id: UserId,
    status: UserStatus,
    actor: Actor,
    at: Timestamp,
}

impl Command for SetUserStatus {
    type Output = ();
    const NAME: &'static str = "set_user_status";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        let mut order: Vec<_> = batch.iter().collect();
        order.sort_by_key(|command| &command.user_id);
        let mut lines = Vec::with_capacity(batch.len());
        for command in order {
            let before = users::lock(tx, &command.user_id)?;
            users::put(tx, &command.user_id, command.status, command.at)?;
            lines.push(AuditEntry {
                at: command.at,
                actor: command.actor.clone(),
                action: Action::UserStatusSet,
                target_id: command.user_id.to_string(),
                before: before.map(|status| json!({"status": status.as_str()})),
                after: Some(json!({"status": command.status.as_str()})),
            });
        }
        audit_log::append(tx, &lines)?;
        Ok(batch.iter().map(|_| ()).collect())
    }
}
