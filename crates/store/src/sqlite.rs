//! SQLite: how its file is opened, who may serve it, and what its errors mean.

use crate::fault::Fault;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const STATEMENTS_CACHED: usize = 256;
/// Pages that the writer keeps in memory, in KiB. SQLite walks through all of them at every commit in which it moved pages of
/// an index about; what is not in there is in the system's own cache.
const WRITER_CACHE_KIB: i64 = 8 * 1024;

/// Opens the file for the one writer of this process, and brings it into write-ahead mode.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, Fault> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let set_up = || {
        // FULL: a commit is on the disk before it is answered. Checkpoints run on a thread of their own.
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        connection.pragma_update(None, "temp_store", "MEMORY")
    };
    set_up().map_err(|error| unusable(path, &error))?;
    Ok(connection)
}

pub(crate) fn open_reader(path: &Path) -> Result<Connection, Fault> {
    let connection = open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "query_only", true).map_err(|error| unusable(path, &error))?;
    Ok(connection)
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection, Fault> {
    let open = || {
        let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        Ok(connection)
    };
    open().map_err(|error| unusable(path, &error))
}

fn unusable(path: &Path, error: &rusqlite::Error) -> Fault {
    Fault::Unavailable(format!("{}: {error}", path.display()))
}

/// What a checkpoint found: pages in the log, and how many of them are in the database file now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) log_pages: i64,
    pub(crate) moved_pages: i64,
}

/// Moves pages from the log to the database file; PASSIVE waits for nobody, TRUNCATE empties the log.
pub(crate) fn checkpoint(connection: &Connection, mode: &str) -> Result<Checkpoint, Fault> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let (busy, log_pages, moved_pages) = connection
        .query_row(&sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?)))
        .map_err(|error| fault(&error))?;
    if busy != 0 && mode != "PASSIVE" {
        return Err(Fault::Unavailable("the checkpoint was held up by a reader".into()));
    }
    Ok(Checkpoint { log_pages, moved_pages })
}

pub(crate) fn page_bytes(connection: &Connection) -> i64 {
    connection.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap_or(4096)
}

pub(crate) fn fault(error: &rusqlite::Error) -> Fault {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted) => {
            Fault::TimedOut(text)
        }
        Some(ErrorCode::DiskFull | ErrorCode::OutOfMemory | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
            Fault::Unavailable(text)
        }
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::FileLockingProtocolFailed,
        ) => {
            tracing::error!(error = text, "SQLite met an I/O error");
            Fault::Halted
        }
        _ => Fault::Statement(text),
    }
}

/// The right to serve a file: a lock on the file itself, so that no other name of it gets around it. Held until dropped,
/// and by the operating system no longer than the process lives. SQLite's own locks are of another kind; they would be
/// lost if this handle were closed while a connection is open, so it is dropped last.
#[derive(Debug)]
pub(crate) struct ServingLock {
    _file: File,
}

impl ServingLock {
    pub(crate) fn take(database: &Path) -> Result<Self, Fault> {
        let unusable = |error: std::io::Error| Fault::Unavailable(format!("{}: {error}", database.display()));
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(database).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Fault::Unavailable(format!(
                "{} is being served by another process; a SQLite file has one server at a time \
                 (several servers can share one PostgreSQL)",
                database.display()
            ))),
            Err(TryLockError::Error(error)) => Err(unusable(error)),
        }
    }
}
