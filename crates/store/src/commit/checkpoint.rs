//! SQLite's checkpoints, on a thread of their own so that no commit pays for them.

use crate::fault::Fault;
use crate::metrics::StoreMetrics;
use crate::sqlite;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// From this many pages on the log is worth moving (about 32 MiB): each move syncs the database file.
const PAGES_WORTH_MOVING: i64 = 8_000;
/// Beyond this many pages the writer pauses between two commits until the log is moved (about 256 MiB).
const PAGES_MAX: i64 = 64_000;
/// What little there is gets moved when nothing else happens.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(crate) struct Checkpointer {
    log_pages: AtomicI64,
    signal: Mutex<Signal>,
    wake: Condvar,
    gate: Mutex<Gate>,
    moved: Condvar,
}

/// The writer goes through for a whole transaction: the log can only begin anew in one that started after all of it
/// was moved.
#[derive(Debug, Default)]
struct Gate {
    shut: bool,
    inside: bool,
}

#[derive(Debug, Default)]
struct Signal {
    due: bool,
    closed: bool,
}

impl Checkpointer {
    /// How many pages the log has, as far as known; none once all of them were moved.
    pub(crate) fn log_pages(&self) -> i64 {
        self.log_pages.load(Ordering::Relaxed)
    }

    /// The log was emptied by others.
    pub(crate) fn log_is_empty(&self) {
        self.log_pages.store(0, Ordering::Relaxed);
    }

    /// Called by the writer after each commit.
    pub(crate) fn log_has(&self, pages: i64) {
        self.log_pages.store(pages, Ordering::Relaxed);
        if pages >= PAGES_WORTH_MOVING {
            self.signal().due = true;
            self.wake.notify_one();
        }
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer's way in, before it opens a transaction; waits while a checkpoint has to catch up.
    pub(crate) fn enter(&self) {
        let gate = self.moved.wait_while(self.gate(), |gate| gate.shut);
        gate.unwrap_or_else(PoisonError::into_inner).inside = true;
    }

    /// The writer's way out, once the transaction has ended.
    pub(crate) fn leave(&self) {
        self.gate().inside = false;
        self.moved.notify_all();
    }

    fn shut(&self) {
        let mut gate = self.gate();
        gate.shut = true;
        drop(self.moved.wait_while(gate, |gate| gate.inside));
    }

    fn open(&self) {
        self.gate().shut = false;
        self.moved.notify_all();
    }

    pub(crate) fn close(&self) {
        self.signal().closed = true;
        self.wake.notify_one();
    }

    fn signal(&self) -> MutexGuard<'_, Signal> {
        self.signal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something to move; false once closed.
    fn wait(&self) -> bool {
        let signal = self.signal();
        let (mut signal, _) = self
            .wake
            .wait_timeout_while(signal, IDLE, |signal| !signal.due && !signal.closed)
            .unwrap_or_else(PoisonError::into_inner);
        signal.due = false;
        !signal.closed
    }

    pub(crate) fn run(&self, path: &Path, metrics: &StoreMetrics) {
        let mut connection = None;
        while self.wait() {
            if self.log_pages.load(Ordering::Relaxed) == 0 {
                continue;
            }
            if connection.is_none() {
                connection = sqlite::open_writer(path).ok();
            }
            let Some(open) = connection.as_ref() else { continue };
            if let Err(fault) = self.move_pages(open, metrics) {
                tracing::warn!(%fault, "a checkpoint failed; the log grows until one succeeds");
                connection = None;
            }
        }
    }

    fn move_pages(&self, connection: &rusqlite::Connection, metrics: &StoreMetrics) -> Result<(), Fault> {
        let page_bytes = sqlite::page_bytes(connection);
        let mut done = sqlite::checkpoint(connection, "PASSIVE")?;
        metrics.checkpoints.inc();
        if done.log_pages > PAGES_MAX {
            // The writer adds to the log while it is being moved; with the gate shut the rest is short.
            self.shut();
            let caught_up = sqlite::checkpoint(connection, "PASSIVE");
            self.open();
            done = caught_up?;
        }
        metrics.wal_bytes.set(done.log_pages.saturating_mul(page_bytes));
        if done.moved_pages == done.log_pages {
            // The next commit begins the log anew and reports its length.
            self.log_pages.store(0, Ordering::Relaxed);
        }
        Ok(())
    }
}
