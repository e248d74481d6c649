//! The write connection, whatever the engine: transactions, and what to do when COMMIT goes unanswered.

mod postgres;
mod sqlite;

use super::checkpoint::Checkpointer;
use crate::coupons::holders::HolderIndex;
use crate::fault::Fault;
use crate::metrics::StoreMetrics;
use crate::tx::{Connection, Moment, Tx};
use guerdon_core::Timestamp;
use postgres::PostgresSession;
use sqlite::SqliteSession;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_postgres::Config;

/// The session's own clock: what a transaction calls now.
pub(crate) type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(crate) struct Session {
    writer: Writer,
    now: Now,
    holders: Arc<HolderIndex>,
    moment: Moment,
    /// Whether the open transaction has run a statement that writes.
    written: bool,
    /// Whether it has a message to publish.
    told: bool,
}

enum Writer {
    Sqlite(SqliteSession),
    Postgres(Box<PostgresSession>),
}

/// How a COMMIT ended.
pub(crate) enum Commit {
    Done,
    NotDone(Fault),
    Unknown,
}

impl Session {
    fn new(writer: Writer, now: Now, holders: Arc<HolderIndex>) -> Self {
        Self { writer, now, holders, moment: Moment::NONE, written: false, told: false }
    }

    pub(crate) fn sqlite(
        path: PathBuf,
        checkpointer: Arc<Checkpointer>,
        now: Now,
        holders: Arc<HolderIndex>,
    ) -> Result<Self, Fault> {
        Ok(Self::new(Writer::Sqlite(SqliteSession::open(path, checkpointer)?), now, holders))
    }

    pub(crate) fn postgres(
        config: Config,
        name: String,
        now: Now,
        holders: Arc<HolderIndex>,
    ) -> Result<Self, Fault> {
        Ok(Self::new(Writer::Postgres(Box::new(PostgresSession::open(config, name)?)), now, holders))
    }

    /// A transaction that need not be durable once it is committed is not waited for to be synced.
    pub(crate) fn begin(&mut self, metrics: &StoreMetrics, durable: bool) -> Result<(), Fault> {
        match &mut self.writer {
            Writer::Sqlite(session) => session.begin(durable)?,
            Writer::Postgres(session) => {
                session.begin(metrics, durable)?;
                self.moment.slot = session.slot();
            }
        }
        self.moment.number += 1;
        self.moment.now = (self.now)();
        self.written = false;
        self.told = false;
        Ok(())
    }

    /// Runs statements in the open transaction. A command that makes light of a statement that failed has failed too:
    /// on PostgreSQL nothing of its transaction could be committed.
    pub(crate) fn run<T>(
        &mut self,
        rows_limit: Option<u64>,
        run: impl FnOnce(&mut Tx<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let connection = match &mut self.writer {
            Writer::Sqlite(session) => Connection::Sqlite(session.connection().ok_or(Fault::Halted)?),
            Writer::Postgres(session) => Connection::Postgres(session.connection()?),
        };
        let mut tx = Tx::new(connection, self.moment, &self.holders).limit_rows(rows_limit);
        let outcome = run(&mut tx);
        let failed = tx.has_failed();
        self.written |= tx.has_written();
        self.told |= tx.has_told();
        match outcome {
            Ok(_) if failed => Err(Fault::inconsistent("a command went on after a statement that failed")),
            outcome => outcome,
        }
    }

    pub(crate) fn rollback(&mut self) {
        match &mut self.writer {
            Writer::Sqlite(session) => session.rollback(),
            Writer::Postgres(session) => session.rollback(),
        }
    }

    /// Gives up the connection, where a new one may do better; what the old one still holds is ended with it.
    pub(crate) fn disconnect(&mut self) {
        if let Writer::Postgres(session) = &mut self.writer {
            session.disconnect();
        }
    }

    pub(crate) fn commit(&mut self) -> Commit {
        match &mut self.writer {
            Writer::Sqlite(session) => session.commit(),
            Writer::Postgres(session) => session.commit(self.written),
        }
    }

    /// Whether what was committed last has a message to publish.
    pub(crate) fn has_told(&self) -> bool {
        self.told
    }

    /// Finds out what became of a COMMIT whose answer was lost: nothing is tried again before that is known.
    pub(crate) fn settle(&mut self, metrics: &StoreMetrics) -> Result<(), Fault> {
        match &mut self.writer {
            // Halted: the file is reopened before anything else is written.
            Writer::Sqlite(_) => Err(Fault::OutcomeUnknown),
            Writer::Postgres(session) => session.settle(metrics),
        }
    }

    /// Whether commands of a group can be undone one by one within its transaction. On PostgreSQL the first of them
    /// would keep its locks while the others take theirs, out of order.
    pub(crate) fn has_savepoints(&self) -> bool {
        matches!(self.writer, Writer::Sqlite(_))
    }

    pub(crate) fn savepoint(&mut self) -> Result<(), Fault> {
        self.batch("SAVEPOINT command")
    }

    pub(crate) fn release_savepoint(&mut self) -> Result<(), Fault> {
        self.batch("RELEASE SAVEPOINT command")
    }

    pub(crate) fn rollback_to_savepoint(&mut self) -> Result<(), Fault> {
        self.batch("ROLLBACK TO SAVEPOINT command; RELEASE SAVEPOINT command")
    }

    /// From here to the end of the transaction nobody's lock is waited for long.
    pub(crate) fn be_impatient(&mut self) -> Result<(), Fault> {
        match &mut self.writer {
            Writer::Sqlite(_) => Ok(()),
            Writer::Postgres(_) => self.batch("SET LOCAL lock_timeout = 300"),
        }
    }

    fn batch(&mut self, sql: &str) -> Result<(), Fault> {
        match &mut self.writer {
            Writer::Sqlite(session) => session.batch(sql),
            Writer::Postgres(session) => session.connection()?.batch(sql),
        }
    }

    pub(crate) fn is_halted(&self) -> bool {
        match &self.writer {
            Writer::Sqlite(session) => session.is_halted(),
            Writer::Postgres(_) => false,
        }
    }

    /// Whether a connection was there and is lost, so that a new one may do better.
    pub(crate) fn is_cut_off(&self) -> bool {
        match &self.writer {
            Writer::Sqlite(_) => false,
            Writer::Postgres(session) => session.is_cut_off(),
        }
    }

    /// Reopens the file after an I/O error, and goes on only once all that can be read from it is durable.
    pub(crate) fn recover(&mut self) -> Result<(), Fault> {
        if let Writer::Sqlite(session) = &mut self.writer {
            session.recover()?;
            self.moment.recoveries += 1;
        }
        Ok(())
    }

    pub(crate) fn close(self) {
        match self.writer {
            Writer::Sqlite(session) => session.close(),
            Writer::Postgres(session) => session.close(),
        }
    }
}
