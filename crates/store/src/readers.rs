//! Reads: a few threads, each with a connection of its own, off the writer's path.

use crate::coupons::holders::HolderIndex;
use crate::database::Database;
use crate::fault::Fault;
use crate::metrics::StoreMetrics;
use crate::postgres::{PgConnection, Use};
use crate::sqlite;
use crate::stopwatch::Stopwatch;
use crate::tx::{Connection, Moment, Tx};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// A read that lasts longer would pin SQLite's log or hold up PostgreSQL's vacuum.
pub(crate) const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// How many of SQLite's instructions pass between two looks at the clock.
const INSTRUCTIONS_BETWEEN_LOOKS: i32 = 10_000;

type Job = Box<dyn FnOnce(&mut Reader) + Send>;

pub(crate) struct Readers {
    jobs: Sender<Job>,
}

impl Readers {
    pub(crate) fn channel(waiting_max: usize) -> (Self, Receiver<Job>) {
        let (jobs, inbox) = crossbeam_channel::bounded(waiting_max);
        (Self { jobs }, inbox)
    }

    /// Runs a read on the next free thread. It may be run twice, when a connection turns out to be dead.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        read: impl Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, Fault>>, Fault> {
        let (answer, pending) = oneshot::channel();
        let job: Job = Box::new(move |reader| {
            // Nobody waits for the answer any more: the work is dropped.
            if !answer.is_closed() {
                let _ = answer.send(reader.run(&read));
            }
        });
        match self.jobs.try_send(job) {
            Ok(()) => Ok(pending),
            Err(TrySendError::Full(_)) => Err(Fault::Busy),
            Err(TrySendError::Disconnected(_)) => Err(Fault::Stopping),
        }
    }
}

/// One reader thread's connection.
pub(crate) struct Reader {
    database: Database,
    name: String,
    holders: Arc<HolderIndex>,
    connections: u64,
    metrics: StoreMetrics,
    connection: Option<Open>,
    timeout: Duration,
}

enum Open {
    Sqlite { connection: rusqlite::Connection, started: Arc<Mutex<Stopwatch>> },
    Postgres(Box<PgConnection>),
}

impl Reader {
    pub(crate) fn new(
        database: Database,
        name: String,
        metrics: StoreMetrics,
        holders: Arc<HolderIndex>,
    ) -> Self {
        Self { database, name, holders, connections: 0, metrics, connection: None, timeout: READ_TIMEOUT }
    }

    /// Lets reads last longer: for a thread that is kept from its work by everybody else.
    pub(crate) fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn serve(mut self, inbox: &Receiver<Job>) {
        for job in inbox {
            job(&mut self);
        }
    }

    fn run<T>(&mut self, read: &impl Fn(&mut Tx<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        let fresh = self.connection.is_none();
        match self.run_once(read) {
            Err(Fault::Unavailable(_) | Fault::Halted) if !fresh => {
                self.connection = None;
                self.run_once(read)
            }
            outcome => outcome,
        }
    }

    /// Runs a read that is not to be run twice.
    pub(crate) fn run_once<T>(
        &mut self,
        mut read: impl FnMut(&mut Tx<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.connection.is_none() {
            self.connection = Some(self.open()?);
        }
        let connection = self.connection.as_mut().expect("opened above");
        let holders = &*self.holders;
        let outcome = catch_unwind(AssertUnwindSafe(|| match connection {
            Open::Sqlite { connection, started } => {
                *started.lock().unwrap_or_else(PoisonError::into_inner) = Stopwatch::start();
                snapshot(connection, holders, &mut read)
            }
            Open::Postgres(connection) => {
                read(&mut Tx::new(Connection::Postgres(connection), Moment::NONE, holders))
            }
        }));
        let outcome = outcome.unwrap_or(Err(Fault::Panicked));
        if matches!(outcome, Err(Fault::Unavailable(_) | Fault::Halted | Fault::Panicked)) {
            self.connection = None;
        }
        outcome
    }

    fn open(&mut self) -> Result<Open, Fault> {
        self.connections += 1;
        if self.connections > 1 {
            self.metrics.reconnects.inc();
        }
        match &self.database {
            Database::Sqlite(path) => {
                let mut connection = sqlite::open_reader(path)?;
                let started = Arc::new(Mutex::new(Stopwatch::start()));
                let (watch, timeout) = (Arc::clone(&started), self.timeout);
                connection
                    .progress_handler(
                        INSTRUCTIONS_BETWEEN_LOOKS,
                        Some(move || {
                            watch.lock().unwrap_or_else(PoisonError::into_inner).elapsed() > timeout
                        }),
                    )
                    .map_err(|error| sqlite::fault(&error))?;
                Ok(Open::Sqlite { connection, started })
            }
            Database::Postgres(config) => {
                let name = format!("{}-{}", self.name, self.connections);
                Ok(Open::Postgres(Box::new(PgConnection::connect(config, name, Use::Read(self.timeout))?)))
            }
        }
    }
}

/// On SQLite all statements of a read see one moment. On PostgreSQL each statement has its own: a round trip saved.
fn snapshot<T>(
    connection: &rusqlite::Connection,
    holders: &HolderIndex,
    read: &mut impl FnMut(&mut Tx<'_>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    connection.execute_batch("BEGIN").map_err(|error| sqlite::fault(&error))?;
    let outcome = read(&mut Tx::new(Connection::Sqlite(connection), Moment::NONE, holders));
    let ended = connection.execute_batch("ROLLBACK").map_err(|error| sqlite::fault(&error));
    outcome.and_then(|found| ended.map(|()| found))
}
