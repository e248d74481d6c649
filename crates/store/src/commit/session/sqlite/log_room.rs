//! Room in the write-ahead log, made before it is needed: to sync bytes that a file already has takes a third of the
//! time that it takes to sync a file that has grown, because then the file system has to write down its new length too.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// How much the log grows at a time.
const STEP: u64 = 1024 * 1024;
/// How much of it has to be free when a transaction begins.
const MARGIN: u64 = 512 * 1024;
/// A page in the log, with its head.
const FRAME: u64 = 4096 + 24;

pub(super) struct LogRoom {
    path: PathBuf,
    log: Option<File>,
    /// How long the log is known to be.
    len: u64,
    zeros: Box<[u8]>,
}

impl LogRoom {
    pub(super) fn of(database: &Path) -> Self {
        // SQLite keeps its log beside the file itself, not beside a link to it.
        let database = database.canonicalize().unwrap_or_else(|_| database.into());
        let mut path = database.into_os_string();
        path.push("-wal");
        Self { path: path.into(), log: None, len: 0, zeros: vec![0; 64 * 1024].into() }
    }

    /// Makes room behind the log's `pages`. Called with a write transaction open, so that nobody else adds to the log;
    /// zeros behind its end are nothing to SQLite, which knows its own pages by their checksums.
    pub(super) fn keep(&mut self, pages: i64) {
        let used = u64::try_from(pages).unwrap_or(0).saturating_mul(FRAME);
        if used + MARGIN <= self.len {
            return;
        }
        if let Err(error) = self.grow(used) {
            // Without room commits are slower, and say for themselves what the disk has against them.
            tracing::debug!(%error, "no room was made in the log");
            self.len = used + STEP;
        }
    }

    fn grow(&mut self, used: u64) -> std::io::Result<()> {
        let log = match self.log.take() {
            Some(log) => log,
            None => OpenOptions::new().write(true).open(&self.path)?,
        };
        let log = self.log.insert(log);
        let mut end = log.metadata()?.len();
        let goal = (used + MARGIN).next_multiple_of(STEP);
        while end < goal {
            let count = (goal - end).min(self.zeros.len() as u64);
            let zeros = usize::try_from(count).map_or(&self.zeros[..], |count| &self.zeros[..count]);
            log.write_all_at(zeros, end)?;
            end += count;
        }
        self.len = end;
        Ok(())
    }
}
