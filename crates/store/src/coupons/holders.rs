//! Who has which coupons, on SQLite.
//!
//! Users come in random order, so the index of who has what is written later, in sorted runs, as that of lines is
//! ([`crate::deferred`]). Until then a coupon stands in the tail of the index, a table that is only ever appended to, and is
//! known in memory. What memory says is a hint: the table of coupons tells what there really is, so hints are given when a
//! coupon is written, and those of a transaction that is undone lead nowhere.
//!
//! A run is carried along by those who are given coupons, in their transactions; how far it has come is a row, which is
//! undone with whatever is undone. PostgreSQL has an index like any other.

use crate::database::Engine;
use crate::deferred::{AsIs, Filter, Run, is_run_worth};
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::coupons::{UserCoupon, UserCouponId};
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

statements! {
    OF_USER = "SELECT user_coupon_id FROM user_coupon_holders WHERE user_id = $1 AND user_coupon_id < $2
        ORDER BY user_coupon_id DESC LIMIT $3";
    MERGE = "INSERT INTO user_coupon_holders (user_id, user_coupon_id) VALUES ($1, $2)
        ON CONFLICT (user_id, user_coupon_id) DO NOTHING";
    PAGE = "SELECT user_id, user_coupon_id FROM user_coupon_holders WHERE (user_id, user_coupon_id) > ($1, $2)
        ORDER BY user_id, user_coupon_id LIMIT $3";
    APPEND = "INSERT INTO user_coupon_tail (user_id, user_coupon_id) VALUES ($1, $2)";
    TAIL = "SELECT number, user_id, user_coupon_id FROM user_coupon_tail WHERE number > $1 AND number <= $2
        ORDER BY number LIMIT $3";
    LAST = "SELECT COALESCE(MAX(number), 0) FROM user_coupon_tail";
    /// The last one stays, so that no number is given twice.
    CUT = "DELETE FROM user_coupon_tail WHERE number <= $1 AND number <= $2
        AND number < (SELECT MAX(number) FROM user_coupon_tail)";
    FIRST = "SELECT COALESCE(MIN(number), 0) FROM user_coupon_tail";
    WRITTEN = "SELECT value FROM counters WHERE name = 'user_coupon_run'";
    SET_WRITTEN = "UPDATE counters SET value = $1 WHERE name = 'user_coupon_run'";
}

/// How many are read at a time.
const PAGE_ROWS: i64 = 10_000;
/// How many leave the tail in one transaction.
const CUT_ROWS: i64 = 1_900;
/// What else may be written in a transaction beside coupons and messages: counts.
const SPARE_ROWS: usize = 20;
/// After every id.
const LAST_ID: [u8; 16] = [0xff; 16];

/// A row of the tail: its number, the user, and what they have.
pub type TailRow = (i64, Box<str>, UserCouponId);

#[derive(Debug)]
pub struct HolderIndex {
    needed: bool,
    hasher: RandomState,
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the tail was read.
    loaded: bool,
    /// The last of the tail that was read.
    read_to: i64,
    /// Given since the last run began.
    fresh: Hints,
    /// Being written to the index.
    leaving: Hints,
    /// In the index since the last run: a read that began before it ended may still look for them here.
    left: Hints,
    run: Option<Arc<Run<UserCouponId>>>,
    /// The last of the tail that was gathered.
    run_ends_at: i64,
    indexed_rows: u64,
    /// Everybody who was given anything or was read since the process started.
    filter: Filter,
    /// Whether the filter has everybody who is in the index.
    filter_is_whole: bool,
}

impl State {
    /// Takes in the tail after what was read of it.
    fn read_on(&mut self, hasher: &RandomState, tx: &mut Tx<'_>) -> Result<(), Fault> {
        loop {
            let page = tail(tx, self.read_to, i64::MAX)?;
            let Some((last, ..)) = page.last() else { return Ok(()) };
            self.read_to = *last;
            for (_, user, id) in &page {
                self.fresh.insert(hasher, user, *id);
                self.filter.insert(hash(hasher, user, 0));
            }
        }
    }
}

/// What users have, by the hash of a user and a number: the first that a user has is under 0, the next under 1.
#[derive(Debug, Default)]
struct Hints(HashMap<u64, UserCouponId, BuildHasherDefault<AsIs>>);

impl Hints {
    fn insert(&mut self, hasher: &RandomState, user: &str, id: UserCouponId) {
        for nth in 0_u32.. {
            match self.0.entry(hash(hasher, user, nth)) {
                std::collections::hash_map::Entry::Occupied(entry) if *entry.get() == id => return,
                std::collections::hash_map::Entry::Occupied(_) => {}
                std::collections::hash_map::Entry::Vacant(entry) => {
                    entry.insert(id);
                    return;
                }
            }
        }
    }

    fn find<'a>(&'a self, hasher: &'a RandomState, user: &'a str) -> impl Iterator<Item = UserCouponId> + 'a {
        (0_u32..).map_while(move |nth| self.0.get(&hash(hasher, user, nth)).copied())
    }
}

fn hash(hasher: &RandomState, user: &str, nth: u32) -> u64 {
    hasher.hash_one((user, nth))
}

impl HolderIndex {
    pub(crate) fn on(engine: Engine) -> Self {
        Self { needed: engine == Engine::Sqlite, hasher: RandomState::new(), state: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are not in the index yet.
    pub fn pending(&self) -> usize {
        let state = self.read();
        state.fresh.0.len() + state.leaving.0.len()
    }

    /// How long the run under way is, if there is one.
    pub fn run_length(&self) -> Option<usize> {
        self.read().run.as_ref().map(|run| run.len())
    }

    pub fn is_run_due(&self) -> bool {
        let state = self.read();
        is_run_worth(state.fresh.0.len(), state.indexed_rows)
    }

    pub fn is_filter_whole(&self) -> bool {
        self.read().filter_is_whole
    }

    /// Adds a page of the index to the filter, which is whole with the empty one.
    pub fn filter_page(&self, page: &[(Box<str>, UserCouponId)]) {
        let mut state = self.write();
        for (user, _) in page {
            state.filter.insert(hash(&self.hasher, user, 0));
        }
        state.indexed_rows += u64::try_from(page.len()).unwrap_or(0);
        state.filter_is_whole = page.is_empty();
    }

    /// Reads what is in the tail; what was left of a run is begun anew.
    pub fn load(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        if !self.needed {
            return Ok(());
        }
        let mut loaded = State { loaded: true, ..State::default() };
        loaded.read_on(&self.hasher, tx)?;
        *self.write() = loaded;
        Ok(())
    }

    /// Reads what was added to the tail meanwhile by somebody else: for whoever only looks, beside the server.
    pub(crate) fn follow(&self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        if !self.needed {
            return Ok(());
        }
        self.write().read_on(&self.hasher, tx)
    }

    /// The ids of what a user has, or may have, the newest first, of those before one: the table tells what there is.
    pub(super) fn ids_of(
        &self,
        tx: &mut Tx<'_>,
        user: &str,
        before: &[u8],
        limit: i64,
    ) -> Result<Vec<UserCouponId>, Fault> {
        if !self.read().loaded {
            self.load(tx)?;
        }
        // Memory first: what leaves it before the look into the index is in the index by then.
        let (mut ids, may_be_indexed): (Vec<_>, bool) = {
            let state = self.read();
            let known = [&state.fresh, &state.leaving, &state.left];
            let known = known.into_iter().flat_map(|hints| hints.find(&self.hasher, user));
            let unknown = state.filter_is_whole && !state.filter.may_have(hash(&self.hasher, user, 0));
            (known.filter(|id| id.as_bytes().as_slice() < before).collect(), !unknown)
        };
        if may_be_indexed {
            let params = [user.into(), Param::Blob(before), limit.into()];
            ids.extend(tx.query(&OF_USER, &params, |row| Ok(UserCouponId::from_bytes(row.uuid(0)?)))?);
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        Ok(ids)
    }

    /// All that a user has, or may have.
    pub(super) fn all_of(&self, tx: &mut Tx<'_>, user: &str) -> Result<Vec<UserCouponId>, Fault> {
        self.ids_of(tx, user, &LAST_ID, i64::MAX)
    }

    /// Notes what is written in this transaction, and carries a part of the run along.
    pub(super) fn given(&self, tx: &mut Tx<'_>, held: &[UserCoupon]) -> Result<(), Fault> {
        let rows = held.iter().map(|held| [held.user_id.as_str().into(), Param::Blob(held.id.as_bytes())]);
        tx.execute_rows(&APPEND, rows)?;
        let haste = {
            let mut state = self.write();
            for held in held {
                let user = held.user_id.as_str();
                state.fresh.insert(&self.hasher, user, held.id);
                state.filter.insert(hash(&self.hasher, user, 0));
            }
            // More when the next run fills up meanwhile.
            if state.fresh.0.len() > state.leaving.0.len() / 4 { 3 } else { 1 }
        };
        // Whoever carries it along may be bounded, and has a message to write for each of them yet.
        let room = tx.rows_left().map_or(usize::MAX, |left| left.saturating_sub(held.len() + SPARE_ROWS));
        self.carry(tx, (held.len() * haste).min(room)).map(drop)
    }

    /// Writes the next part of the run under way, if there is one; how much of it is left after that.
    pub fn carry(&self, tx: &mut Tx<'_>, rows: usize) -> Result<usize, Fault> {
        let Some(run) = self.read().run.clone() else { return Ok(0) };
        let from = written(tx)?.min(run.len());
        let to = (from + rows).min(run.len());
        if from < to {
            let rows = run.part(from..to).map(|(user, id)| (user, *id.as_bytes())).collect::<Vec<_>>();
            tx.execute_rows(&MERGE, rows.iter().map(|(user, id)| [Param::Text(user), Param::Blob(id)]))?;
            tx.execute(&SET_WRITTEN, &[i64::try_from(to).unwrap_or(i64::MAX).into()])?;
        }
        Ok(run.len() - to)
    }

    /// Begins a run: up to where in the tail it goes. Only where nobody else writes, so that what is known in memory by now is
    /// in the tail, or nowhere.
    pub fn gather(&self, tx: &mut Tx<'_>) -> Result<i64, Fault> {
        let last = tx.query_one(&LAST, &[], |row| row.int(0))?.unwrap_or(0);
        tx.execute(&SET_WRITTEN, &[0_i64.into()])?;
        let mut state = self.write();
        // One that was gathered before and not begun is begun now.
        if state.leaving.0.is_empty() {
            state.leaving = std::mem::take(&mut state.fresh);
            state.run_ends_at = last;
        }
        Ok(state.run_ends_at)
    }

    /// From here on the run is carried along.
    pub fn begin(&self, run: Run<UserCouponId>) {
        self.write().run = Some(Arc::new(run));
    }

    /// Takes what is in the index out of the tail, some at a time; whether that is all of it.
    pub fn cut(&self, tx: &mut Tx<'_>) -> Result<bool, Fault> {
        let run_ends_at = self.read().run_ends_at;
        let first = tx.query_one(&FIRST, &[], |row| row.int(0))?.unwrap_or(0);
        let removed = tx.execute(&CUT, &[run_ends_at.into(), first.saturating_add(CUT_ROWS - 1).into()])?;
        Ok(removed == 0)
    }

    /// All of the run is in the index, and no more in the tail.
    pub fn end(&self) {
        let mut state = self.write();
        state.indexed_rows += u64::try_from(state.leaving.0.len()).unwrap_or(0);
        state.left = std::mem::take(&mut state.leaving);
        state.run = None;
    }
}

fn written(tx: &mut Tx<'_>) -> Result<usize, Fault> {
    let written = tx.query_one(&WRITTEN, &[], |row| row.int(0))?.unwrap_or(0);
    usize::try_from(written).map_err(|_| Fault::inconsistent("a run that is written backwards"))
}

/// How much of the run under way is left, by what is committed.
pub fn run_left(tx: &mut Tx<'_>, length: usize) -> Result<usize, Fault> {
    Ok(length.saturating_sub(written(tx)?))
}

/// The tail after a number, as far as another; some at a time.
pub fn tail(tx: &mut Tx<'_>, after: i64, up_to: i64) -> Result<Vec<TailRow>, Fault> {
    tx.query(&TAIL, &[after.into(), up_to.into(), PAGE_ROWS.into()], |row| {
        Ok((row.int(0)?, row.text(1)?.into(), UserCouponId::from_bytes(row.uuid(2)?)))
    })
}

/// The index after one of its rows, some at a time.
pub fn page(tx: &mut Tx<'_>, (user, id): (&str, &[u8])) -> Result<Vec<(Box<str>, UserCouponId)>, Fault> {
    tx.query(&PAGE, &[user.into(), Param::Blob(id), PAGE_ROWS.into()], |row| {
        Ok((row.text(0)?.into(), UserCouponId::from_bytes(row.uuid(1)?)))
    })
}

#[cfg(test)]
mod tests;
