//! Who stands in which line, on SQLite.
//!
//! Users come in random order, and a B-tree that is written in random order dirties a page for each of them. So the
//! index is written later, in sorted runs: whoever is not in it yet is kept in memory, and the tail of the table tells
//! who that is when the process starts. The index's primary key stays as the net beneath.

use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::UserId;
use guerdon_core::requests::{LINE_BITS, LineKey};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

statements! {
    POSITION = "SELECT position FROM request_users WHERE user_id = $1 AND event_key = $2";
    OF_USER = "SELECT event_key, position FROM request_users WHERE user_id = $1 ORDER BY event_key DESC LIMIT $2";
    MERGE = "INSERT INTO request_users (user_id, event_key, position) VALUES ($1, $2, $3)
        ON CONFLICT (user_id, event_key) DO NOTHING";
    TAILS = "SELECT event_key, indexed_position, last_position FROM event_lines
        WHERE indexed_position < last_position ORDER BY event_key";
    TAIL = "SELECT line, user_id FROM requests WHERE line > $1 AND line <= $2 ORDER BY line LIMIT $3";
    SET_INDEXED = "UPDATE event_lines SET indexed_position = $2 WHERE event_key = $1 AND indexed_position < $2";
    FORGET = "DELETE FROM request_users WHERE event_key = $1 AND user_id IN (
        SELECT user_id FROM requests WHERE line > $2 AND line <= $3)";
    INDEXED = "SELECT event_key, indexed_position FROM event_lines WHERE indexed_position > 0 ORDER BY event_key";
}

/// How many are read from the tail at a time.
const TAIL_ROWS: i64 = 10_000;

#[derive(Debug, Default)]
pub struct UserIndex(RwLock<Pending>);

#[derive(Debug, Default)]
struct Pending {
    /// By event, then by user: the position.
    lines: HashMap<i64, HashMap<Box<str>, i64>>,
    count: usize,
    /// Who joined in the transaction under way, by its number; where it says more than the table, the table is right.
    uncommitted: (u64, HashMap<(i64, Box<str>), i64>),
    /// How often the file had been reopened when all this was read.
    recoveries: u64,
    /// Lines of which anything is in the index; all others need no look-up.
    indexed: HashSet<i64>,
}

/// A user's place that is yet to be written to the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub user_id: Box<str>,
    pub event_key: i64,
    pub position: i64,
}

impl UserIndex {
    fn read(&self) -> RwLockReadGuard<'_, Pending> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Pending> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are not in the index yet.
    pub fn pending(&self) -> usize {
        self.read().count
    }

    /// Notes people who are durably in line.
    pub fn joined<'a>(&self, people: impl Iterator<Item = (LineKey, &'a UserId)>) {
        let mut pending = self.write();
        for (key, user) in people {
            let line = pending.lines.entry(key.event_key()).or_default();
            if line.insert(user.as_str().into(), key.position()).is_none() {
                pending.count += 1;
            }
        }
    }

    /// Notes somebody who is in line once this transaction is committed. Needed where commands of one transaction are
    /// applied one by one.
    pub fn joins(&self, tx: &Tx<'_>, key: LineKey, user: &UserId) {
        let mut pending = self.write();
        if pending.uncommitted.0 != tx.number() {
            pending.uncommitted = (tx.number(), HashMap::new());
        }
        pending.uncommitted.1.insert((key.event_key(), user.as_str().into()), key.position());
    }

    /// Everybody who is not in the index yet, sorted as the index is.
    pub fn run(&self) -> Vec<Entry> {
        let pending = self.read();
        let mut run = Vec::with_capacity(pending.count);
        for (event_key, line) in &pending.lines {
            run.extend(line.iter().map(|(user, position)| Entry {
                user_id: user.clone(),
                event_key: *event_key,
                position: *position,
            }));
        }
        drop(pending);
        run.sort_unstable();
        run
    }

    /// Forgets those who are durably in the index now.
    pub fn merged(&self, run: &[Entry]) {
        let mut pending = self.write();
        for entry in run {
            let Some(line) = pending.lines.get_mut(&entry.event_key) else { continue };
            if line.remove(&entry.user_id).is_some() {
                pending.count -= 1;
            }
            pending.indexed.insert(entry.event_key);
        }
        pending.lines.retain(|_, line| !line.is_empty());
    }

    /// Marks the lines of a run whose first part is in the index, so that it is looked up there.
    pub fn merging(&self, run: &[Entry]) {
        self.write().indexed.extend(run.iter().map(|entry| entry.event_key));
    }

    pub(super) fn positions(
        &self,
        tx: &mut Tx<'_>,
        event_key: i64,
        users: &[&UserId],
    ) -> Result<Vec<Option<i64>>, Fault> {
        if self.read().recoveries != tx.recoveries() {
            self.load(tx)?;
        }
        let (mut found, indexed) = {
            let pending = self.read();
            let line = pending.lines.get(&event_key);
            let (number, uncommitted) = &pending.uncommitted;
            let place = |user: &&UserId| {
                let here = (*number == tx.number() && !uncommitted.is_empty())
                    .then(|| uncommitted.get(&(event_key, Box::from(user.as_str()))).copied());
                line.and_then(|line| line.get(user.as_str()).copied()).or(here.flatten())
            };
            (users.iter().map(place).collect::<Vec<_>>(), pending.indexed.contains(&event_key))
        };
        if indexed {
            for (place, user) in found.iter_mut().zip(users) {
                if place.is_none() {
                    let params = [user.as_str().into(), event_key.into()];
                    *place = tx.query_one(&POSITION, &params, |row| row.int(0))?;
                }
            }
        }
        Ok(found)
    }

    pub(super) fn keys_of_user(
        &self,
        tx: &mut Tx<'_>,
        user: &UserId,
        limit: i64,
    ) -> Result<Vec<LineKey>, Fault> {
        let params = [user.as_str().into(), limit.into()];
        let mut keys = tx.query(&OF_USER, &params, |row| Ok(LineKey::new(row.int(0)?, row.int(1)?)))?;
        let pending = self.read();
        let waiting = pending.lines.iter().filter_map(|(event_key, line)| {
            line.get(user.as_str()).map(|position| LineKey::new(*event_key, *position))
        });
        keys.extend(waiting);
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Reads again from the database what is not in the index: the tail of each line.
    pub fn load(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let mut fresh = Pending { recoveries: tx.recoveries(), ..Pending::default() };
        for key in tx.query(&INDEXED, &[], |row| row.int(0))? {
            fresh.indexed.insert(key);
        }
        let tails = tx.query(&TAILS, &[], |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?)))?;
        for (event_key, mut after, last) in tails {
            // A run that was cut off may have written any part of the tail.
            fresh.indexed.insert(event_key);
            while after < last {
                let params = [
                    LineKey::new(event_key, after).raw().into(),
                    LineKey::new(event_key, (1 << LINE_BITS) - 1).raw().into(),
                    TAIL_ROWS.into(),
                ];
                let rows =
                    tx.query(&TAIL, &params, |row| Ok((row.int(0)?, Box::<str>::from(row.text(1)?))))?;
                let Some((newest, _)) = rows.last() else { break };
                after = LineKey::from_raw(*newest).position();
                let line = fresh.lines.entry(event_key).or_default();
                for (key, user) in rows {
                    if line.insert(user, LineKey::from_raw(key).position()).is_none() {
                        fresh.count += 1;
                    }
                }
            }
        }
        *self.write() = fresh;
        Ok(())
    }
}

/// Writes a part of a run to the index. A row that is there already, from a run that was cut off, must say the same.
pub fn merge(tx: &mut Tx<'_>, entries: &[Entry]) -> Result<(), Fault> {
    let rows = entries.iter().map(|entry| -> [Param<'_>; 3] {
        [Param::Text(&entry.user_id), entry.event_key.into(), entry.position.into()]
    });
    let written = tx.execute_rows(&MERGE, rows)?;
    if written == u64::try_from(entries.len()).unwrap_or(u64::MAX) {
        return Ok(());
    }
    for entry in entries {
        let params = [Param::Text(&entry.user_id), entry.event_key.into()];
        let there = tx.query_one(&POSITION, &params, |row| row.int(0))?;
        if there != Some(entry.position) {
            let user = &entry.user_id;
            return Err(Fault::inconsistent(format!("{user} stands twice in the line {}", entry.event_key)));
        }
    }
    Ok(())
}

/// Notes how far each line of a whole run is in the index.
pub fn set_indexed(tx: &mut Tx<'_>, lines: &BTreeMap<i64, i64>) -> Result<(), Fault> {
    for (event_key, position) in lines {
        tx.execute(&SET_INDEXED, &[(*event_key).into(), (*position).into()])?;
    }
    Ok(())
}

/// Takes the users of a stretch of a line out of the index, before their requests are removed.
pub(super) fn forget(
    tx: &mut Tx<'_>,
    event_key: i64,
    after: Param<'_>,
    up_to: Param<'_>,
) -> Result<(), Fault> {
    tx.execute(&FORGET, &[event_key.into(), after, up_to]).map(drop)
}
