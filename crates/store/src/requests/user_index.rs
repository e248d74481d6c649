//! Who stands in which line, on SQLite.
//!
//! Users come in random order, and a B-tree that is written in random order dirties a page for each of them. So the
//! index is written later, in sorted runs: whoever is not in it yet is kept in memory, and the tail of the table tells
//! who that is when the process starts. The index's primary key stays as the net beneath.
//!
//! A run is not written by itself: each group of people who join carries a part of it along in its own transaction, so
//! that there is no second commit to wait for and no moment at which everybody waits. Nearly all who come are new, which
//! a filter in memory knows without a look into the index.

mod merge;

use super::{RequestRow, find_at};
use crate::database::Engine;
use crate::deferred::{AsIs, Filter, Run, is_run_worth};
use crate::fault::Fault;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::UserId;
use guerdon_core::requests::{LINE_BITS, LineKey};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

statements! {
    POSITION = "SELECT position FROM request_users WHERE user_id = $1 AND event_key = $2";
    OF_USER = "SELECT event_key, position FROM request_users WHERE user_id = $1 ORDER BY event_key DESC LIMIT $2";
    MERGE = "INSERT INTO request_users (user_id, event_key, position) VALUES ($1, $2, $3)
        ON CONFLICT (user_id, event_key) DO NOTHING";
    LINES = "SELECT event_key, indexed_position, last_position, swept_position FROM event_lines ORDER BY event_key";
    TAIL = "SELECT line, user_id FROM requests WHERE line > $1 AND line <= $2 ORDER BY line LIMIT $3";
    SET_INDEXED = "UPDATE event_lines SET indexed_position = $2 WHERE event_key = $1 AND indexed_position < $2";
    PAGE = "SELECT user_id, event_key FROM request_users WHERE (user_id, event_key) > ($1, $2)
        ORDER BY user_id, event_key LIMIT $3";
    FORGET = "DELETE FROM request_users WHERE event_key = $1 AND user_id IN (
        SELECT user_id FROM requests WHERE line > $2 AND line <= $3)";
}

/// How many are read from the tail at a time.
pub const TAIL_ROWS: i64 = 10_000;

#[derive(Debug)]
pub struct UserIndex {
    /// PostgreSQL has an index like any other, and nothing is kept in memory.
    needed: bool,
    hasher: RandomState,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Who joined since the last run began.
    fresh: Places,
    /// Who is being written to the index.
    leaving: Places,
    run: Option<Arc<Run<LineKey>>>,
    /// How much of the run is durably in the index.
    written: usize,
    /// How much of it will be once the transaction under way is committed.
    carried: Option<usize>,
    /// Who joined in the transaction under way, by its number; where it says more than the table, the table is right.
    uncommitted: (u64, HashMap<(i64, Box<str>), LineKey>),
    /// How often the file had been reopened when all this was read.
    recoveries: u64,
    /// Lines of which anything may be in the index; all others need no look-up.
    indexed: HashSet<i64>,
    indexed_rows: u64,
    /// Everybody who joined or was read since the process started.
    filter: Filter,
    /// Whether the filter has everybody who is in the index.
    filter_is_whole: bool,
}

/// Places in lines by the hash of the line and the user: the table tells whether it is really them.
#[derive(Debug, Default)]
struct Places {
    by_hash: HashMap<u64, LineKey, BuildHasherDefault<AsIs>>,
    /// Further places of the same hash.
    twins: Vec<(u64, LineKey)>,
    /// The last position of each line.
    ends: BTreeMap<i64, i64>,
}

impl Places {
    fn len(&self) -> usize {
        self.by_hash.len() + self.twins.len()
    }

    fn insert(&mut self, hash: u64, key: LineKey) {
        match self.by_hash.entry(hash) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(key);
            }
            std::collections::hash_map::Entry::Occupied(entry) if *entry.get() == key => return,
            std::collections::hash_map::Entry::Occupied(_) => self.twins.push((hash, key)),
        }
        let end = self.ends.entry(key.event_key()).or_default();
        *end = key.position().max(*end);
    }

    fn find(&self, hash: u64) -> impl Iterator<Item = LineKey> + '_ {
        let twins = self.twins.iter().filter(move |(twin, _)| *twin == hash).map(|(_, key)| *key);
        self.by_hash.get(&hash).copied().into_iter().chain(twins)
    }
}

impl UserIndex {
    pub fn on(engine: Engine) -> Self {
        Self { needed: engine == Engine::Sqlite, hasher: RandomState::new(), state: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, event_key: i64, user: &str) -> u64 {
        self.hasher.hash_one((event_key, user))
    }

    /// How many are not in the index yet.
    pub fn pending(&self) -> usize {
        let state = self.read();
        state.fresh.len() + state.leaving.len()
    }

    /// Notes people who are durably in line.
    pub fn joined<'a>(&self, people: impl Iterator<Item = (LineKey, &'a UserId)>) {
        if !self.needed {
            return;
        }
        let mut state = self.write();
        for (key, user) in people {
            let hash = self.hash(key.event_key(), user.as_str());
            state.fresh.insert(hash, key);
            state.filter.insert(hash);
        }
        if let Some(written) = state.carried.take() {
            state.written = written;
        }
    }

    /// Notes somebody who is in line once this transaction is committed. Needed where commands of one transaction are
    /// applied one by one.
    pub fn joins(&self, tx: &Tx<'_>, key: LineKey, user: &UserId) {
        if !self.needed {
            return;
        }
        let mut state = self.write();
        if state.uncommitted.0 != tx.number() {
            state.uncommitted = (tx.number(), HashMap::new());
        }
        state.uncommitted.1.insert((key.event_key(), user.as_str().into()), key);
    }

    /// Whether enough people wait for a run to be worth it.
    pub fn is_run_due(&self) -> bool {
        let state = self.read();
        is_run_worth(state.fresh.len(), state.indexed_rows)
    }

    /// Whether the filter knows everybody who is in the index.
    pub fn is_filter_whole(&self) -> bool {
        self.read().filter_is_whole
    }

    /// Adds a page of the index to the filter, which is whole with the empty one. Whether there is more to add: not when
    /// the file was reopened since the first page, for then it begins anew.
    pub fn filter_page(&self, page: &[(Box<str>, i64)], recoveries: u64) -> bool {
        let mut state = self.write();
        if state.recoveries != recoveries {
            return false;
        }
        for (user, event_key) in page {
            let hash = self.hash(*event_key, user);
            state.filter.insert(hash);
        }
        state.filter_is_whole = page.is_empty();
        !page.is_empty()
    }

    pub fn recoveries(&self) -> u64 {
        self.read().recoveries
    }

    /// How many rows of a run each newcomer carries along: more when the next run is half full already.
    pub fn haste(&self) -> usize {
        let state = self.read();
        if state.fresh.len() > state.leaving.len() / 2 { 2 } else { 1 }
    }

    /// How much of the run under way is still to be written, if there is one.
    pub fn run_left(&self) -> Option<usize> {
        let state = self.read();
        state.run.as_ref().map(|run| run.len() - state.written)
    }

    /// Begins a run, or a run anew that could not be begun before: where each of its lines ends.
    pub fn gather(&self) -> BTreeMap<i64, i64> {
        let mut state = self.write();
        if state.leaving.len() == 0 {
            state.leaving = std::mem::take(&mut state.fresh);
            let lines: Vec<_> = state.leaving.ends.keys().copied().collect();
            state.indexed.extend(lines);
        }
        state.leaving.ends.clone()
    }

    /// Where the lines of the run under way end.
    pub fn ends(&self) -> BTreeMap<i64, i64> {
        self.read().leaving.ends.clone()
    }

    /// From here on the run is carried along by whatever is committed.
    pub fn begin(&self, run: Run<LineKey>) {
        let mut state = self.write();
        // Somebody may have read everything anew in the meantime.
        if state.leaving.len() > 0 {
            (state.run, state.written, state.carried) = (Some(Arc::new(run)), 0, None);
        }
    }

    /// The run is in the index, and the table says so.
    pub fn end(&self) {
        let mut state = self.write();
        state.indexed_rows += u64::try_from(state.leaving.len()).unwrap_or(0);
        state.leaving = Places::default();
        state.run = None;
    }

    /// Writes the next part of the run under way, if there is one, in this transaction; [`Self::joined`] or
    /// [`Self::committed`] then says that it was committed. Called first in every transaction that will say so, since it
    /// also forgets what one carried that was undone.
    pub fn carry(&self, tx: &mut Tx<'_>, rows: usize) -> Result<(), Fault> {
        let (run, from) = {
            let mut state = self.write();
            state.carried = None;
            match &state.run {
                Some(run) if state.recoveries == tx.recoveries() => (Arc::clone(run), state.written),
                _ => return Ok(()),
            }
        };
        let to = (from + rows).min(run.len());
        if from < to {
            merge::write(tx, &run, from..to)?;
            self.write().carried = Some(to);
        }
        Ok(())
    }

    pub fn committed(&self) {
        self.joined(std::iter::empty());
    }

    /// The request of each of these users in the event's line, if they stand there.
    pub(super) fn standing(
        &self,
        tx: &mut Tx<'_>,
        event_key: i64,
        users: &[&UserId],
    ) -> Result<Vec<Option<RequestRow>>, Fault> {
        if self.read().recoveries != tx.recoveries() {
            self.load(tx)?;
        }
        let mut found: Vec<Option<RequestRow>> = Vec::with_capacity(users.len());
        let mut known: Vec<(usize, LineKey)> = Vec::new();
        // Those who may be in the index.
        let mut unsure: Vec<usize> = Vec::new();
        {
            let state = self.read();
            let (number, uncommitted) = &state.uncommitted;
            let apart = *number == tx.number() && !uncommitted.is_empty();
            let indexed = state.indexed.contains(&event_key);
            for (index, user) in users.iter().enumerate() {
                let hash = self.hash(event_key, user.as_str());
                if indexed && (!state.filter_is_whole || state.filter.may_have(hash)) {
                    unsure.push(index);
                }
                known.extend(state.fresh.find(hash).chain(state.leaving.find(hash)).map(|key| (index, key)));
                if apart && let Some(key) = uncommitted.get(&(event_key, user.as_str().into())) {
                    known.push((index, *key));
                }
                found.push(None);
            }
        }
        for (index, key) in known {
            if let Some(row) = find_at(tx, key)?.filter(|row| row.user_id == *users[index]) {
                found[index] = Some(row);
            }
        }
        for index in unsure {
            if found[index].is_some() {
                continue;
            }
            let params = [users[index].as_str().into(), event_key.into()];
            if let Some(position) = tx.query_one(&POSITION, &params, |row| row.int(0))? {
                let there = find_at(tx, LineKey::new(event_key, position))?;
                // The table has the last word on who stands at a position.
                found[index] = there.filter(|row| row.user_id == *users[index]);
            }
        }
        Ok(found)
    }

    /// Where a user may stand; the table tells whether it is really them.
    pub(super) fn keys_of_user(
        &self,
        tx: &mut Tx<'_>,
        user: &UserId,
        limit: i64,
    ) -> Result<Vec<LineKey>, Fault> {
        let mut keys = Vec::new();
        // Memory first: whoever leaves it before the look into the index is in the index by then.
        {
            let state = self.read();
            for places in [&state.fresh, &state.leaving] {
                for event_key in places.ends.keys() {
                    keys.extend(places.find(self.hash(*event_key, user.as_str())));
                }
            }
        }
        let params = [user.as_str().into(), limit.into()];
        keys.extend(tx.query(&OF_USER, &params, |row| Ok(LineKey::new(row.int(0)?, row.int(1)?)))?);
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// Reads again from the database what is not in the index: the tail of each line.
    pub fn load(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let mut state = State { recoveries: tx.recoveries(), filter_is_whole: true, ..State::default() };
        let lines = tx.query(&LINES, &[], |row| Ok((row.int(0)?, row.int(1)?, row.int(2)?, row.int(3)?)))?;
        for (event_key, indexed, last, swept) in lines {
            state.indexed_rows += u64::try_from(indexed - swept).unwrap_or(0);
            // A run that was cut off is in the tail as well.
            state.filter_is_whole &= indexed == 0;
            // A run that was cut off may have written any part of the tail.
            if last > 0 {
                state.indexed.insert(event_key);
            }
            let mut after = indexed;
            while after < last {
                let rows = tail(tx, event_key, after, last)?;
                let Some((newest, _)) = rows.last() else { break };
                after = newest.position();
                for (key, user) in rows {
                    let hash = self.hash(event_key, &user);
                    state.fresh.insert(hash, key);
                    state.filter.insert(hash);
                }
            }
        }
        *self.write() = state;
        Ok(())
    }
}

/// Who stands in a line after a position, as far as another; some at a time.
pub fn tail(
    tx: &mut Tx<'_>,
    event_key: i64,
    after: i64,
    up_to: i64,
) -> Result<Vec<(LineKey, Box<str>)>, Fault> {
    let params = [
        LineKey::new(event_key, after).raw().into(),
        LineKey::new(event_key, up_to.min((1 << LINE_BITS) - 1)).raw().into(),
        TAIL_ROWS.into(),
    ];
    tx.query(&TAIL, &params, |row| Ok((LineKey::from_raw(row.int(0)?), row.text(1)?.into())))
}

/// The users of the index after one of them, some at a time.
pub fn page(tx: &mut Tx<'_>, (user, event_key): (&str, i64)) -> Result<Vec<(Box<str>, i64)>, Fault> {
    let params = [user.into(), event_key.into(), TAIL_ROWS.into()];
    tx.query(&PAGE, &params, |row| Ok((row.text(0)?.into(), row.int(1)?)))
}

/// How far each line is in the index.
pub fn indexed_positions(tx: &mut Tx<'_>) -> Result<BTreeMap<i64, i64>, Fault> {
    let lines = tx.query(&LINES, &[], |row| Ok((row.int(0)?, row.int(1)?)))?;
    Ok(lines.into_iter().collect())
}

/// Notes how far each line of a whole run is in the index.
pub fn set_indexed(tx: &mut Tx<'_>, ends: &BTreeMap<i64, i64>) -> Result<(), Fault> {
    for (event_key, position) in ends {
        tx.execute(&SET_INDEXED, &[(*event_key).into(), (*position).into()])?;
    }
    Ok(())
}

/// Takes the users of a stretch of a line out of the index, before their requests are removed.
pub(super) fn forget(
    tx: &mut Tx<'_>,
    event_key: i64,
    after: crate::param::Param<'_>,
    up_to: crate::param::Param<'_>,
) -> Result<(), Fault> {
    tx.execute(&FORGET, &[event_key.into(), after, up_to]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{Engine, LineKey, Places, UserId, UserIndex};

    #[test]
    fn only_sqlite_keeps_people_in_memory() {
        let somebody = UserId::parse("u-1").unwrap();
        for (engine, kept) in [(Engine::Sqlite, 1), (Engine::Postgres, 0)] {
            let index = UserIndex::on(engine);
            index.joined([(LineKey::new(1, 1), &somebody)].into_iter());
            assert_eq!(index.pending(), kept, "{engine:?}");
        }
    }

    #[test]
    fn users_of_one_hash_are_told_apart() {
        let mut places = Places::default();
        let (first, second) = (LineKey::new(1, 1), LineKey::new(1, 2));
        places.insert(7, first);
        places.insert(7, second);
        places.insert(7, first);
        places.insert(8, LineKey::new(2, 9));
        assert_eq!(places.find(7).collect::<Vec<_>>(), [first, second]);
        assert_eq!((places.len(), places.ends.len(), places.ends[&1]), (3, 2, 2));
    }
}
