//! The write connection, whatever the engine: transactions, savepoints, and what to do when COMMIT goes unanswered.

use super::checkpoint::Checkpointer;
use crate::fault::Fault;
use crate::metrics::StoreMetrics;
use crate::postgres::{PgConnection, Settled, Use};
use crate::sqlite;
use crate::stopwatch::Stopwatch;
use crate::tx::{Connection, Tx};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::Config;

/// How long a COMMIT whose answer was lost may keep everybody waiting.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) enum Session {
    Sqlite(SqliteSession),
    Postgres(Box<PostgresSession>),
}

pub(crate) struct SqliteSession {
    path: PathBuf,
    /// None after an I/O error, until the file was reopened.
    connection: Option<rusqlite::Connection>,
    checkpointer: Arc<Checkpointer>,
}

pub(crate) struct PostgresSession {
    config: Config,
    /// What this process calls its connections; a number follows.
    name: String,
    connections: u64,
    connection: Option<PgConnection>,
    /// The transaction that is open.
    transaction: Option<String>,
}

/// How a COMMIT ended.
pub(crate) enum Commit {
    Done,
    NotDone(Fault),
    Unknown,
}

impl Session {
    pub(crate) fn sqlite(path: PathBuf, checkpointer: Arc<Checkpointer>) -> Result<Self, Fault> {
        let connection = open_watched(&path, &checkpointer)?;
        Ok(Self::Sqlite(SqliteSession { path, connection: Some(connection), checkpointer }))
    }

    pub(crate) fn postgres(config: Config, name: String) -> Result<Self, Fault> {
        let mut session =
            PostgresSession { config, name, connections: 0, connection: None, transaction: None };
        session.connect()?;
        Ok(Self::Postgres(Box::new(session)))
    }

    pub(crate) fn begin(&mut self, metrics: &StoreMetrics) -> Result<(), Fault> {
        match self {
            Self::Sqlite(session) => session.run("BEGIN IMMEDIATE"),
            Self::Postgres(session) => session.begin(metrics),
        }
    }

    /// The open transaction.
    pub(crate) fn tx(&mut self) -> Tx<'_> {
        Tx::new(match self {
            Self::Sqlite(session) => {
                Connection::Sqlite(session.connection.as_ref().expect("a transaction is open"))
            }
            Self::Postgres(session) => {
                Connection::Postgres(session.connection.as_mut().expect("a transaction is open"))
            }
        })
    }

    pub(crate) fn rollback(&mut self) {
        let ended = self.run("ROLLBACK");
        if let Self::Postgres(session) = self {
            session.transaction = None;
            if ended.is_err() {
                session.connection = None;
            }
        }
    }

    pub(crate) fn savepoint(&mut self) -> Result<(), Fault> {
        self.run("SAVEPOINT command")
    }

    pub(crate) fn release_savepoint(&mut self) -> Result<(), Fault> {
        self.run("RELEASE SAVEPOINT command")
    }

    pub(crate) fn rollback_to_savepoint(&mut self) -> Result<(), Fault> {
        self.run("ROLLBACK TO SAVEPOINT command")?;
        self.run("RELEASE SAVEPOINT command")
    }

    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        match self {
            Self::Sqlite(session) => session.run(sql),
            Self::Postgres(session) => session.run(sql),
        }
    }

    pub(crate) fn commit(&mut self) -> Commit {
        match self {
            Self::Sqlite(session) => session.commit(),
            Self::Postgres(session) => match session.run("COMMIT") {
                Ok(()) => {
                    session.transaction = None;
                    Commit::Done
                }
                // The server took back the transaction and said so.
                Err(fault @ (Fault::Conflict(_) | Fault::Statement(_))) => {
                    session.transaction = None;
                    Commit::NotDone(fault)
                }
                Err(_) => Commit::Unknown,
            },
        }
    }

    /// Finds out what became of a COMMIT whose answer was lost: nothing is tried again before that is known.
    pub(crate) fn settle(&mut self, metrics: &StoreMetrics) -> Result<(), Fault> {
        match self {
            // Halted: the file is reopened before anything else is written.
            Self::Sqlite(_) => Err(Fault::OutcomeUnknown),
            Self::Postgres(session) => session.settle(metrics),
        }
    }

    pub(crate) fn is_halted(&self) -> bool {
        matches!(self, Self::Sqlite(SqliteSession { connection: None, .. }))
    }

    /// Whether a connection was there and is lost, so that a new one may do better.
    pub(crate) fn is_cut_off(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(session) => session.connection.as_ref().is_none_or(PgConnection::is_closed),
        }
    }

    /// Reopens the file after an I/O error, and goes on only once all that can be read from it is durable.
    pub(crate) fn recover(&mut self) -> Result<(), Fault> {
        let Self::Sqlite(session) = self else { return Ok(()) };
        // What a failed sync left in the log must neither be lost nor come back later: TRUNCATE writes every committed
        // page to the database file, syncs that, and throws the rest of the log away.
        let connection = open_watched(&session.path, &session.checkpointer).map_err(|_| Fault::Halted)?;
        sqlite::checkpoint(&connection, "TRUNCATE").map_err(|_| Fault::Halted)?;
        session.connection = Some(connection);
        Ok(())
    }

    pub(crate) fn close(self) {
        if let Self::Sqlite(SqliteSession { connection: Some(connection), .. }) = self
            && let Err(fault) = sqlite::checkpoint(&connection, "TRUNCATE")
        {
            tracing::debug!(%fault, "the log was left for the next start to read");
        }
    }
}

/// Opens the file with a hook that tells the checkpointer how long the log has become.
fn open_watched(
    path: &std::path::Path,
    checkpointer: &Arc<Checkpointer>,
) -> Result<rusqlite::Connection, Fault> {
    let mut connection = sqlite::open_writer(path)?;
    let watcher = Arc::clone(checkpointer);
    connection
        .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages: i32| {
            watcher.log_has(i64::from(pages));
            Ok(())
        }))
        .map_err(|error| sqlite::fault(&error))?;
    Ok(connection)
}

impl SqliteSession {
    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        let connection = self.connection.as_ref().ok_or(Fault::Halted)?;
        let outcome = connection.execute_batch(sql).map_err(|error| sqlite::fault(&error));
        if outcome == Err(Fault::Halted) {
            self.connection = None;
        }
        outcome
    }

    fn commit(&mut self) -> Commit {
        // Held while the log is written, so that a checkpoint which has to catch up can ask for a pause.
        let _pass = self.checkpointer.pass();
        let Some(connection) = self.connection.as_ref() else { return Commit::NotDone(Fault::Halted) };
        match connection.execute_batch("COMMIT").map_err(|error| sqlite::fault(&error)) {
            Ok(()) => Commit::Done,
            Err(Fault::Halted) => {
                self.connection = None;
                Commit::Unknown
            }
            Err(fault) => {
                let _ = connection.execute_batch("ROLLBACK");
                Commit::NotDone(fault)
            }
        }
    }
}

impl PostgresSession {
    fn connect(&mut self) -> Result<(), Fault> {
        self.connection = None;
        self.connections += 1;
        let name = format!("{}-writer-{}", self.name, self.connections);
        self.connection = Some(PgConnection::connect(&self.config, name, Use::Write)?);
        Ok(())
    }

    fn reconnect(&mut self, metrics: &StoreMetrics) -> Result<(), Fault> {
        metrics.reconnects.inc();
        self.connect()
    }

    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        let lost = || Fault::Unavailable("the connection was lost".into());
        self.connection.as_mut().ok_or_else(lost)?.batch(sql)
    }

    fn begin(&mut self, metrics: &StoreMetrics) -> Result<(), Fault> {
        if self.connection.as_ref().is_none_or(PgConnection::is_closed) {
            self.reconnect(metrics)?;
        }
        let connection = self.connection.as_mut().expect("connected above");
        match connection.begin() {
            Ok(transaction) => {
                self.transaction = Some(transaction);
                Ok(())
            }
            Err(fault) => {
                self.connection = None;
                Err(fault)
            }
        }
    }

    fn settle(&mut self, metrics: &StoreMetrics) -> Result<(), Fault> {
        let Some(transaction) = self.transaction.take() else { return Err(Fault::OutcomeUnknown) };
        let lost =
            self.connection.take().map(|connection| (connection.name().to_owned(), connection.backend_pid()));
        let started = Stopwatch::start();
        loop {
            match self.ask(&transaction, lost.as_ref(), metrics) {
                Ok(Some(Settled::Committed)) => return Ok(()),
                // As a lost connection: the group is run again.
                Ok(Some(Settled::Aborted)) => {
                    self.connection = None;
                    return Err(Fault::Unavailable("the transaction was cut off before its commit".into()));
                }
                Ok(None) => return Err(Fault::OutcomeUnknown),
                Ok(Some(Settled::InProgress)) => {}
                Err(fault) => {
                    self.connection = None;
                    tracing::debug!(%fault, "cannot ask yet what became of a COMMIT");
                }
            }
            if started.elapsed() > SETTLE_TIMEOUT {
                return Err(Fault::OutcomeUnknown);
            }
            std::thread::park_timeout(SETTLE_INTERVAL);
        }
    }

    fn ask(
        &mut self,
        transaction: &str,
        lost: Option<&(String, i32)>,
        metrics: &StoreMetrics,
    ) -> Result<Option<Settled>, Fault> {
        if self.connection.is_none() {
            self.reconnect(metrics)?;
            if let (Some(connection), Some((name, pid))) = (self.connection.as_mut(), lost) {
                connection.end_backend(name, *pid)?;
            }
        }
        let connection = self.connection.as_mut().expect("connected above");
        connection.settle(transaction)
    }
}
