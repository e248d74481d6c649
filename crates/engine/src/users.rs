//! The user registry, and the book of those who may not take part.
//!
//! Nearly everybody is active, so only the others are kept in memory: a surge of people whom nobody has seen before
//! costs no look-up. The book follows the registry's changes and is at most a second behind.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::identity::{Identity, Permission};
use guerdon_core::users::UserStatus;
use guerdon_core::{Code, Rejection, Timestamp, UserId};
use guerdon_store::{Command, Fault, Priority, Stopwatch, Tx, activity, audit_log, users};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Duration;

/// How far behind the registry the book may be.
const STALE: Duration = Duration::from_secs(1);
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
    /// Somebody had to be left out: the book can never again say that a user is active.
    overflowed: AtomicBool,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// The line of the audit log up to which the book is true; none before it was read for the first time.
    sequence: Option<i64>,
    read: Option<Stopwatch>,
}

impl UserBook {
    pub(crate) fn new(unknown: UnknownUsers) -> Self {
        Self {
            unknown,
            not_active: RwLock::default(),
            overflowed: AtomicBool::new(false),
            progress: Mutex::default(),
        }
    }

    /// The status as the book has it, or none when it cannot tell.
    fn look_up(&self, user_id: &UserId) -> Option<UserStatus> {
        let fresh = {
            let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.read.is_some_and(|read| read.elapsed() < STALE)
        };
        if !fresh || self.overflowed.load(Ordering::Relaxed) {
            return None;
        }
        let not_active = self.not_active.read().unwrap_or_else(PoisonError::into_inner);
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
        } else if not_active.len() < ENTRIES_MAX {
            not_active.insert(user_id, status);
        } else {
            self.overflowed.store(true, Ordering::Relaxed);
        }
    }

    fn sequence(&self) -> Option<i64> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).sequence
    }

    fn caught_up(&self, sequence: i64, since: Stopwatch) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) =
            Progress { sequence: Some(sequence), read: Some(since) };
    }
}

impl Engine {
    /// Users whom the registry knows, in the order of their ids. A page of one status may come back short.
    pub async fn registered_users(
        &self,
        status: Option<UserStatus>,
        request: PageRequest<String>,
    ) -> Result<Page<(UserId, UserStatus, Timestamp), String>, Failure> {
        let (after, rows) = (request.after.clone().unwrap_or_default(), request.rows());
        let found = self.read(move |tx| users::list(tx, status, &after, rows)).await?;
        Ok(request.page_of(found, |(user, ..)| user.to_string(), |end| end))
    }

    /// Refuses whoever may not take part, whatever their token says.
    pub async fn require_active(&self, caller: &Identity) -> Result<(), Failure> {
        let user_id = &caller.user_id;
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
            // Staff are known by their role: somebody has to be able to fill the registry.
            (None, UnknownUsers::Reject) if caller.may(Permission::Inspect) => Ok(()),
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

    /// Sets what is known of a user's activity.
    pub async fn set_user_activity(
        &self,
        actor: Actor,
        user_id: UserId,
        activity: Map<String, Value>,
    ) -> Result<(), Failure> {
        self.commit(SetActivity { user_id, activity, actor, at: self.now() }).await
    }

    /// What is known of a user's activity: nothing, unless somebody said so.
    pub async fn user_activity(&self, user_id: &UserId) -> Result<Map<String, Value>, Failure> {
        let wanted = user_id.clone();
        Ok(self.read(move |tx| activity::find(tx, &wanted)).await?.unwrap_or_default())
    }

    /// Reads what changed in the registry since the last time, by following the audit log.
    pub(crate) async fn refresh_users(&self) -> Result<(), Failure> {
        let started = Stopwatch::start();
        let mut sequence = match self.users.sequence() {
            Some(sequence) => sequence,
            None => self.read_registry().await?,
        };
        loop {
            let changes = self.read_first(move |tx| {
                let mut changes = Vec::new();
                let lines = audit_log::targets_since(tx, sequence, ROWS)?;
                let last = lines.last().map(|(sequence, _)| *sequence);
                for (_, target) in lines.into_iter().filter(|(_, target)| target.target_type == "USER") {
                    let user_id = UserId::parse(target.target_id).map_err(Fault::Inconsistent)?;
                    if let Some(status) = users::find(tx, &user_id)? {
                        changes.push((user_id, status));
                    }
                }
                Ok((changes, last))
            });
            let (changes, last) = changes.await?;
            for (user_id, status) in changes {
                self.users.note(user_id, status);
            }
            match last {
                Some(last) => sequence = last,
                None => break,
            }
        }
        self.users.caught_up(sequence, started);
        let count = self.users.not_active.read().unwrap_or_else(PoisonError::into_inner).len();
        self.metrics.users_not_active.set(i64::try_from(count).unwrap_or(i64::MAX));
        Ok(())
    }

    /// Reads everybody who is not active; the line of the log from which on changes have to be followed.
    async fn read_registry(&self) -> Result<i64, Failure> {
        let sequence = self.read_first(audit_log::newest).await?;
        let mut after = String::new();
        loop {
            let from = after.clone();
            let page = self.read_first(move |tx| users::not_active(tx, &from, ROWS)).await?;
            let Some((last, _)) = page.last() else { return Ok(sequence) };
            after = last.to_string();
            for (user_id, status) in page {
                self.users.note(user_id, status);
            }
        }
    }
}

struct SetActivity {
    user_id: UserId,
    activity: Map<String, Value>,
    actor: Actor,
    at: Timestamp,
}

impl Command for SetActivity {
    type Output = ();
    const NAME: &'static str = "set_user_activity";
    const PRIORITY: Priority = Priority::Operator;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        let mut order: Vec<_> = batch.iter().collect();
        order.sort_by_key(|command| &command.user_id);
        let mut lines = Vec::with_capacity(batch.len());
        for command in order {
            let before = activity::put(tx, &command.user_id, &command.activity, command.at)?;
            // What people do is not for the log; what is known of them is.
            let names = |map: &Map<String, Value>| json!({"names": map.keys().collect::<Vec<_>>()});
            lines.push(AuditEntry {
                at: command.at,
                actor: command.actor.clone(),
                action: Action::UserActivitySet,
                target_id: command.user_id.to_string(),
                before: before.as_ref().map(names),
                after: Some(names(&command.activity)),
            });
        }
        audit_log::append(tx, &lines)?;
        Ok(batch.iter().map(|_| ()).collect())
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
            let before = users::put(tx, &command.user_id, command.status, command.at)?;
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
