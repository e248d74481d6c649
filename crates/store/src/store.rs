//! The store: what a process opens once and hands to everything that reads or writes.

use crate::bell::{Bell, Listener};
use crate::commit::{Checkpointer, Committer, Now, Pulse, Session};
use crate::coupons::holders::HolderIndex;
use crate::database::{Database, Engine};
use crate::fault::Fault;
use crate::lanes::{Command, Intake, Lanes, Pending, Silence};
use crate::metrics::StoreMetrics;
use crate::migrate::bring_up_to_date;
use crate::readers::{Reader, Readers};
use crate::reading::Reading;
use crate::sqlite::ServingLock;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// A commit that takes longer, or a wait, means that the committer is stuck.
const STALL: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Threads that read, each with a connection.
    pub readers: usize,
    /// The most commands that are committed together.
    pub group_max: usize,
    /// The most commands, and the most reads, that wait.
    pub waiting_max: usize,
    /// For the jitter of retries and the names of connections.
    pub seed: u64,
    /// Whether other processes' commits are listened for.
    pub listens: bool,
    /// Whose tasks wait for answers, if they all are of one runtime.
    pub answers_on: Option<Handle>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { readers: 4, group_max: 512, waiting_max: 8_192, seed: 1, listens: false, answers_on: None }
    }
}

/// Whether the store can do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    /// With the reason, for an operator.
    Ill(String),
}

pub struct Store {
    database: Database,
    engine: Engine,
    holders: Arc<HolderIndex>,
    lanes: Arc<Lanes>,
    /// For callers, and for the house itself.
    readers: Mutex<Option<(Arc<Readers>, Arc<Readers>)>>,
    pulse: Arc<Pulse>,
    checkpointer: Option<Arc<Checkpointer>>,
    bell: Bell,
    listener: Option<Listener>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    _serving: Option<ServingLock>,
}

impl Store {
    /// Takes the right to serve the database, migrates it, and starts the threads that work on it.
    pub fn open(
        database: &Database,
        options: &StoreOptions,
        metrics: &StoreMetrics,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<Self, Fault> {
        let serving = database.sqlite_path().map(ServingLock::take).transpose()?;
        let applied = bring_up_to_date(database, now())?;
        let now: Now = Arc::new(now);
        if !applied.is_empty() {
            tracing::info!(%database, versions = ?applied, "the database was migrated");
        }
        let name = format!("guerdon-{:016x}", options.seed);
        let mut threads = Vec::new();
        let holders = Arc::new(HolderIndex::on(database.engine()));
        let (session, checkpointer) = match database {
            Database::Sqlite(path) => {
                let checkpointer = Arc::new(Checkpointer::default());
                let session =
                    Session::sqlite(path.clone(), Arc::clone(&checkpointer), now, Arc::clone(&holders))?;
                let (runner, path, metrics) = (Arc::clone(&checkpointer), path.clone(), metrics.clone());
                threads.push(spawn("checkpointer", move || runner.run(&path, &metrics))?);
                (session, Some(checkpointer))
            }
            Database::Postgres(config) => {
                (Session::postgres((**config).clone(), name.clone(), now, Arc::clone(&holders))?, None)
            }
        };
        let lanes = Arc::new(Lanes::new(options.waiting_max, options.group_max, metrics.waiting.clone()));
        let pulse = Arc::new(Pulse::default());
        let bell = Bell::default();
        let committer = Committer::new(
            session,
            Arc::clone(&lanes),
            Arc::clone(&pulse),
            metrics.clone(),
            bell.clone(),
            options,
        );
        threads.push(spawn("committer", move || committer.run())?);
        let (readers, inbox) = Readers::channel(options.waiting_max);
        let (first, first_inbox) = Readers::channel(options.waiting_max);
        let inboxes = std::iter::once(first_inbox).chain(std::iter::repeat_n(inbox, options.readers));
        for (number, inbox) in inboxes.enumerate() {
            let name = format!("{name}-reader-{number}");
            let reader = Reader::new(database.clone(), name, metrics.clone(), Arc::clone(&holders));
            threads.push(spawn("reader", move || reader.serve(&inbox))?);
        }
        Ok(Self {
            database: database.clone(),
            engine: database.engine(),
            holders,
            lanes,
            readers: Mutex::new(Some((Arc::new(readers), Arc::new(first)))),
            pulse,
            checkpointer,
            listener: options.listens.then(|| Listener::start(database, &name, &bell)).flatten(),
            bell,
            threads: Mutex::new(threads),
            _serving: serving,
        })
    }

    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Who has which coupons, as far as it is kept in memory.
    pub fn holders(&self) -> &HolderIndex {
        &self.holders
    }

    /// For the threads that submit commands, to say when they rest.
    pub fn silence(&self) -> Silence {
        Silence::new(Arc::clone(&self.lanes))
    }

    /// Changes with every commit that has a message to publish; with another process's as well, where it rang.
    pub fn news(&self) -> tokio::sync::watch::Receiver<u64> {
        self.bell.hear()
    }

    /// Changes with this process's own.
    pub fn own_news(&self) -> tokio::sync::watch::Receiver<u64> {
        self.bell.hear_ourselves()
    }

    pub fn intake(&self) -> Intake {
        self.lanes.intake()
    }

    /// Hands a command to the committer; the answer comes once it is durable.
    pub fn submit<C: Command>(&self, command: C) -> Result<Pending<C::Output>, Fault> {
        self.lanes.push(command)
    }

    /// Runs a read on a reader thread. It must be ready to run twice.
    pub fn read<T: Send + 'static>(
        &self,
        read: impl Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, Fault>>, Fault> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        readers.ok_or(Fault::Stopping)?.0.submit(read)
    }

    /// The same on a thread that callers cannot keep busy.
    pub fn read_first<T: Send + 'static>(
        &self,
        read: impl Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<oneshot::Receiver<Result<T, Fault>>, Fault> {
        let readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        readers.ok_or(Fault::Stopping)?.1.submit(read)
    }

    /// For reads that take their time, on a connection of their own.
    pub fn open_reading(&self) -> Reading {
        Reading::on(&self.database, "guerdon-reading".into())
    }

    /// How the committer is; whether the database answers is for a read to find out.
    pub fn committer_health(&self) -> Health {
        if self.pulse.is_halted() {
            return Health::Ill("the writer has stopped after an I/O error on the database file".into());
        }
        if let Some(trouble) = self.pulse.trouble() {
            return Health::Ill(trouble);
        }
        let stuck = self.pulse.busy_for().max(self.lanes.oldest_wait());
        if stuck > STALL {
            return Health::Ill(format!("the committer has been stuck for {} s", stuck.as_secs()));
        }
        Health::Well
    }

    /// Commits what waits, answers it, and ends the threads. Later calls are refused.
    pub fn close(&self) {
        self.lanes.close();
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.close();
        }
        if let Some(listener) = &self.listener {
            listener.stop();
        }
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store had panicked");
            }
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Fault> {
    std::thread::Builder::new()
        .name(format!("store-{name}"))
        .spawn(run)
        .map_err(|error| Fault::Unavailable(format!("cannot start a thread: {error}")))
}
