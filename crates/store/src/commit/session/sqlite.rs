//! Writing to SQLite, and stopping when the disk fails.

mod log_room;

use super::Commit;
use crate::commit::checkpoint::Checkpointer;
use crate::fault::Fault;
use crate::sqlite;
use log_room::LogRoom;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct SqliteSession {
    path: PathBuf,
    /// None after an I/O error, until the file was reopened.
    connection: Option<Connection>,
    checkpointer: Arc<Checkpointer>,
    room: LogRoom,
    /// Whether a commit waits for the disk.
    syncs: bool,
}

impl SqliteSession {
    pub(super) fn open(path: PathBuf, checkpointer: Arc<Checkpointer>) -> Result<Self, Fault> {
        let connection = open_watched(&path, &checkpointer)?;
        let room = LogRoom::of(&path);
        Ok(Self { path, connection: Some(connection), checkpointer, room, syncs: true })
    }

    pub(super) fn connection(&self) -> Option<&Connection> {
        self.connection.as_ref()
    }

    pub(super) fn is_halted(&self) -> bool {
        self.connection.is_none()
    }

    pub(super) fn begin(&mut self, durable: bool) -> Result<(), Fault> {
        if self.syncs != durable {
            self.batch(if durable { "PRAGMA synchronous = FULL" } else { "PRAGMA synchronous = NORMAL" })?;
            self.syncs = durable;
        }
        self.checkpointer.enter();
        let begun = self.once("BEGIN IMMEDIATE");
        match begun {
            Ok(()) => self.room.keep(self.checkpointer.log_pages()),
            Err(_) => self.checkpointer.leave(),
        }
        begun
    }

    pub(super) fn batch(&mut self, sql: &str) -> Result<(), Fault> {
        self.run(|connection| connection.execute_batch(sql))
    }

    /// One statement that every group runs: it is read by SQLite's parser once, and not for each group.
    fn once(&mut self, sql: &str) -> Result<(), Fault> {
        self.run(|connection| connection.prepare_cached(sql)?.execute([]).map(drop))
    }

    fn run(&mut self, run: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<(), Fault> {
        let connection = self.connection.as_ref().ok_or(Fault::Halted)?;
        let outcome = run(connection).map_err(|error| sqlite::fault(&error));
        if outcome == Err(Fault::Halted) {
            self.connection = None;
        }
        outcome
    }

    pub(super) fn rollback(&mut self) {
        // An error that ended the transaction already leaves nothing to roll back.
        let _ = self.batch("ROLLBACK");
        self.checkpointer.leave();
    }

    pub(super) fn commit(&mut self) -> Commit {
        let committed = self.once("COMMIT");
        let outcome = match committed {
            Ok(()) => Commit::Done,
            Err(Fault::Halted) => Commit::Unknown,
            Err(fault) => {
                let _ = self.batch("ROLLBACK");
                Commit::NotDone(fault)
            }
        };
        self.checkpointer.leave();
        outcome
    }

    pub(super) fn recover(&mut self) -> Result<(), Fault> {
        // What a failed sync left in the log must neither be lost nor come back later: TRUNCATE writes every committed
        // page to the database file, syncs that, and throws the rest of the log away.
        let connection = open_watched(&self.path, &self.checkpointer).map_err(|_| Fault::Halted)?;
        sqlite::checkpoint(&connection, "TRUNCATE").map_err(|_| Fault::Halted)?;
        self.checkpointer.log_is_empty();
        self.connection = Some(connection);
        self.room = LogRoom::of(&self.path);
        self.syncs = true;
        Ok(())
    }

    pub(super) fn close(self) {
        if let Some(connection) = self.connection
            && let Err(fault) = sqlite::checkpoint(&connection, "TRUNCATE")
        {
            tracing::debug!(%fault, "the log was left for the next start to read");
        }
    }
}

/// Opens the file with a hook that tells the checkpointer how long the log has become.
fn open_watched(path: &Path, checkpointer: &Arc<Checkpointer>) -> Result<Connection, Fault> {
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
