//! A transaction, whatever the engine. Parts are plain functions over `&mut Tx`.

use crate::coupons::holders::HolderIndex;
use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Columns, Param, Row};
use crate::postgres::PgConnection;
use crate::sqlite;
use crate::statement::{ROWS, Statement};
use guerdon_core::{Timestamp, Trace};
use std::collections::HashMap;

/// An open transaction, or on a reader the right to run statements one by one.
pub struct Tx<'c> {
    connection: Connection<'c>,
    rows_written: u64,
    rows_limit: Option<u64>,
    moment: Moment,
    /// Whether a statement failed: whatever the command makes of it, nothing of it may be committed.
    failed: bool,
    wrote: bool,
    /// Whether it wrote a message that somebody waits to publish.
    told: bool,
    /// Where what it writes belongs, by the id of what it is about; empty unless somebody follows it.
    traces: HashMap<String, Trace>,
    holders: &'c HolderIndex,
}

/// What is the same for all of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    pub(crate) number: u64,
    pub(crate) recoveries: u64,
    pub(crate) slot: i64,
}

impl Moment {
    /// Reads have no time of their own.
    pub(crate) const NONE: Moment =
        Moment { now: Timestamp::from_millis(0), number: 0, recoveries: 0, slot: 0 };
}

pub(crate) enum Connection<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c mut PgConnection),
}

impl<'c> Tx<'c> {
    pub(crate) fn new(connection: Connection<'c>, moment: Moment, holders: &'c HolderIndex) -> Self {
        Self {
            connection,
            rows_written: 0,
            rows_limit: None,
            moment,
            failed: false,
            wrote: false,
            told: false,
            traces: HashMap::new(),
            holders,
        }
    }

    /// When the transaction began, by the server's clock: the time of what it writes.
    pub fn now(&self) -> Timestamp {
        self.moment.now
    }

    /// Unlike that of any other transaction of this process.
    pub fn number(&self) -> u64 {
        self.moment.number
    }

    /// A small number that no other process on this database has just now, as far as there are enough of them.
    pub fn slot(&self) -> i64 {
        self.moment.slot
    }

    /// How often the database file was reopened after an I/O error: what is kept in memory beside it is read again.
    pub fn recoveries(&self) -> u64 {
        self.moment.recoveries
    }

    /// Refuses to write more rows than this; the transaction then fails as a whole.
    pub(crate) fn limit_rows(mut self, limit: Option<u64>) -> Self {
        self.rows_limit = limit;
        self
    }

    pub fn engine(&self) -> Engine {
        match self.connection {
            Connection::Sqlite(_) => Engine::Sqlite,
            Connection::Postgres(_) => Engine::Postgres,
        }
    }

    /// How many more rows may be written, where that is bounded.
    pub(crate) fn rows_left(&self) -> Option<usize> {
        let left = self.rows_limit?.saturating_sub(self.rows_written);
        Some(usize::try_from(left).unwrap_or(usize::MAX))
    }

    pub fn rows_written(&self) -> u64 {
        self.rows_written
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Whether any statement was run that could have written.
    pub(crate) fn has_written(&self) -> bool {
        self.wrote
    }

    /// Says that there is a message to publish once this is committed.
    pub(crate) fn tells(&mut self) {
        self.told = true;
    }

    /// Who has which coupons, as far as this process keeps it in memory.
    pub fn holders(&self) -> &'c HolderIndex {
        self.holders
    }

    /// Says in which trace something belongs: what is written about it in this transaction keeps that beside it.
    pub fn follow(&mut self, about: &impl ToString, trace: Option<Trace>) {
        if let Some(trace) = trace {
            self.traces.insert(about.to_string(), trace);
        }
    }

    /// In which trace something belongs, if anybody said so.
    pub(crate) fn trace_of(&self, about: &impl ToString) -> Option<Trace> {
        if self.traces.is_empty() { None } else { self.traces.get(&about.to_string()).copied() }
    }

    pub(crate) fn has_told(&self) -> bool {
        self.told
    }

    /// Notes how a statement ended, and whether it was one that writes.
    fn note<T>(&mut self, statement: &'static Statement, outcome: Result<T, Fault>) -> Result<T, Fault> {
        self.failed |= outcome.is_err();
        self.wrote |= !statement.text(self.engine()).trim_start().starts_with("SELECT");
        outcome
    }

    /// Runs a statement that returns no rows; the number of rows that it changed.
    pub fn execute(&mut self, statement: &'static Statement, params: &[Param<'_>]) -> Result<u64, Fault> {
        let outcome = self.run_execute(statement, params);
        self.note(statement, outcome)
    }

    fn run_execute(&mut self, statement: &'static Statement, params: &[Param<'_>]) -> Result<u64, Fault> {
        let changed = match &mut self.connection {
            Connection::Sqlite(connection) => {
                let text = statement.text(Engine::Sqlite);
                let run = || {
                    let mut prepared = connection.prepare_cached(text)?;
                    prepared.execute(rusqlite::params_from_iter(params))
                };
                let changed = run().map_err(|error| sqlite::fault(&error))?;
                u64::try_from(changed).unwrap_or(u64::MAX)
            }
            Connection::Postgres(connection) => connection.execute(statement, params)?,
        };
        self.count_rows(changed)
    }

    fn count_rows(&mut self, changed: u64) -> Result<u64, Fault> {
        self.rows_written = self.rows_written.saturating_add(changed);
        match self.rows_limit {
            Some(limit) if self.rows_written > limit => Err(Fault::TooManyRows { limit }),
            _ => Ok(changed),
        }
    }

    /// Runs a statement once for each row of parameters; the number of rows that it changed in all. For SQLite, where a
    /// statement costs no round trip; on PostgreSQL one statement with lists does better.
    pub fn execute_rows<'p, const N: usize>(
        &mut self,
        statement: &'static Statement,
        rows: impl Iterator<Item = [Param<'p>; N]>,
    ) -> Result<u64, Fault> {
        let outcome = self.run_rows(statement, rows);
        self.note(statement, outcome)
    }

    fn run_rows<'p, const N: usize>(
        &mut self,
        statement: &'static Statement,
        rows: impl Iterator<Item = [Param<'p>; N]>,
    ) -> Result<u64, Fault> {
        let Connection::Sqlite(connection) = &self.connection else {
            let mut changed = 0;
            for row in rows {
                changed += self.execute(statement, &row)?;
            }
            return Ok(changed);
        };
        let rows: Vec<_> = rows.collect();
        let one = statement.text(Engine::Sqlite);
        let (many, rest) = match statement.for_rows() {
            Some(text) => {
                let (groups, rest) = rows.as_chunks::<ROWS>();
                (run_each(connection, text, groups.iter().map(|group| group.as_flattened())), rest)
            }
            None => (Ok(0), rows.as_slice()),
        };
        let changed = many.and_then(|many| {
            run_each(connection, one, rest.iter().map(<[_; N]>::as_slice)).map(|rest| many + rest)
        });
        let changed = changed.map_err(|error| sqlite::fault(&error))?;
        self.count_rows(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    /// Runs a statement and reads each of its rows.
    pub fn query<T>(
        &mut self,
        statement: &'static Statement,
        params: &[Param<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let outcome = self.run_query(statement, params, read);
        self.note(statement, outcome)
    }

    fn run_query<T>(
        &mut self,
        statement: &'static Statement,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let mut found = Vec::new();
        match &mut self.connection {
            Connection::Sqlite(connection) => {
                let mut prepared = connection
                    .prepare_cached(statement.text(Engine::Sqlite))
                    .map_err(|error| sqlite::fault(&error))?;
                let mut rows = prepared
                    .query(rusqlite::params_from_iter(params))
                    .map_err(|error| sqlite::fault(&error))?;
                while let Some(row) = rows.next().map_err(|error| sqlite::fault(&error))? {
                    found.push(read(&Row(Columns::Sqlite(row)))?);
                }
            }
            Connection::Postgres(connection) => {
                for row in connection.query(statement, params)? {
                    found.push(read(&Row(Columns::Postgres(&row)))?);
                }
            }
        }
        Ok(found)
    }

    /// Runs a statement that finds at most one row.
    pub fn query_one<T>(
        &mut self,
        statement: &'static Statement,
        params: &[Param<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        let mut found = self.query(statement, params, read)?;
        if found.len() > 1 {
            return Err(Fault::inconsistent(format!("{} rows where at most one was expected", found.len())));
        }
        Ok(found.pop())
    }

    /// Checks that a statement is one that the engine understands.
    pub fn prepare(&mut self, statement: &'static Statement) -> Result<(), Fault> {
        match &mut self.connection {
            Connection::Sqlite(connection) => {
                let mut texts = std::iter::once(statement.text(Engine::Sqlite)).chain(statement.for_rows());
                texts
                    .try_for_each(|text| connection.prepare_cached(text).map(drop))
                    .map_err(|error| sqlite::fault(&error))
            }
            Connection::Postgres(connection) => connection.prepare(statement).map(drop),
        }
    }
}

/// Runs a statement of SQLite's with each of these lists of parameters; how many rows it changed in all.
fn run_each<'a, 'p: 'a>(
    connection: &rusqlite::Connection,
    text: &str,
    lists: impl ExactSizeIterator<Item = &'a [Param<'p>]>,
) -> rusqlite::Result<usize> {
    if lists.len() == 0 {
        return Ok(0);
    }
    let mut prepared = connection.prepare_cached(text)?;
    let mut changed = 0;
    let mut bound: &[Param<'_>] = &[];
    for params in lists {
        if params.len() != prepared.parameter_count() {
            return Err(rusqlite::Error::InvalidParameterCount(params.len(), prepared.parameter_count()));
        }
        for (index, value) in params.iter().enumerate() {
            // What is the same as the time before is bound already.
            if bound.get(index) != Some(value) {
                prepared.raw_bind_parameter(index + 1, value)?;
            }
        }
        changed += prepared.raw_execute()?;
        bound = params;
    }
    Ok(changed)
}
