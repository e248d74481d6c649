//! Writing to PostgreSQL, and settling what became of a COMMIT whose answer was lost.
//!
//! Every transaction that writes leaves a mark: a number in a row of this process's own, written in the same round trip
//! as COMMIT. Whoever asks for that row afterwards waits until the lost transaction has ended, and sees whether the
//! number is there. (The server's own record of transaction ids does not do: after a crash an id can be used again.)

use super::Commit;
use crate::fault::Fault;
use crate::metrics::StoreMetrics;
use crate::postgres::{PgConnection, Use};
use crate::stopwatch::Stopwatch;
use std::time::Duration;
use tokio_postgres::Config;

/// How long a COMMIT whose answer was lost may keep everybody waiting.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
const SETTLE_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct PostgresSession {
    config: Config,
    /// What this process calls itself: unlike any other. Its connections have a number after it.
    name: String,
    connections: u64,
    connection: Option<PgConnection>,
    /// The backend of a connection that was given up, which may still hold locks.
    lost: Option<(String, i32)>,
    /// The number of the last transaction that was to be committed.
    mark: i64,
    /// Unlike that of any other process, for as long as there are enough.
    slot: i64,
    /// Whether the commit of the present transaction waits for the disk.
    durable: bool,
}

/// As many processes as can each have rows of their own for what all of them write to.
const SLOTS: i64 = 16;
/// Any number that no other program would choose.
const SLOT_LOCKS: i32 = 0x4775_6572;

impl PostgresSession {
    pub(super) fn open(config: Config, name: String) -> Result<Self, Fault> {
        let mut session = Self {
            config,
            name,
            connections: 0,
            connection: None,
            lost: None,
            mark: 0,
            slot: 0,
            durable: true,
        };
        session.connect()?;
        Ok(session)
    }

    pub(super) fn connection(&mut self) -> Result<&mut PgConnection, Fault> {
        self.connection.as_mut().ok_or_else(|| Fault::Unavailable("the connection was lost".into()))
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.connection.as_ref().is_none_or(PgConnection::is_closed)
    }

    fn connect(&mut self) -> Result<(), Fault> {
        self.disconnect();
        self.connections += 1;
        let name = format!("{}-writer-{}", self.name, self.connections);
        let mut connection = PgConnection::connect(&self.config, name, Use::Write)?;
        if let Some((name, pid)) = &self.lost {
            connection.end_backend(name, *pid)?;
            self.lost = None;
        }
        let row = format!(
            "INSERT INTO commit_marks (name, mark) VALUES ('{}', 0) ON CONFLICT (name) DO NOTHING",
            self.name
        );
        connection.batch(&row)?;
        self.slot = take_slot(&mut connection)?;
        self.connection = Some(connection);
        Ok(())
    }

    pub(super) fn slot(&self) -> i64 {
        self.slot
    }

    fn reconnect(&mut self, metrics: &StoreMetrics) -> Result<(), Fault> {
        metrics.reconnects.inc();
        self.connect()
    }

    pub(super) fn disconnect(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.lost = Some((connection.name().to_owned(), connection.backend_pid()));
        }
    }

    pub(super) fn begin(&mut self, metrics: &StoreMetrics, durable: bool) -> Result<(), Fault> {
        if self.is_cut_off() {
            self.reconnect(metrics)?;
        }
        self.durable = durable;
        self.connection()?.begin();
        Ok(())
    }

    pub(super) fn rollback(&mut self) {
        if self.connection().and_then(PgConnection::rollback).is_err() {
            self.disconnect();
        }
    }

    pub(super) fn commit(&mut self, written: bool) -> Commit {
        self.mark += 1;
        let commit = if written {
            // The mark goes with the transaction: not durable before it, and not after it.
            let wait = if self.durable { "" } else { "SET LOCAL synchronous_commit = off; " };
            format!("{wait}UPDATE commit_marks SET mark = {} WHERE name = '{}'; COMMIT", self.mark, self.name)
        } else {
            "COMMIT".into()
        };
        match self.connection().and_then(|connection| connection.batch(&commit)) {
            Ok(()) => Commit::Done,
            // The server took the transaction back and said so.
            Err(fault @ (Fault::Conflict(_) | Fault::Statement(_))) => {
                self.rollback();
                Commit::NotDone(fault)
            }
            // What only read can be read again.
            Err(fault) if !written => {
                self.disconnect();
                Commit::NotDone(fault)
            }
            Err(_) => Commit::Unknown,
        }
    }

    pub(super) fn settle(&mut self, metrics: &StoreMetrics) -> Result<(), Fault> {
        self.disconnect();
        let started = Stopwatch::start();
        loop {
            match self.read_mark(metrics) {
                Ok(mark) if mark == self.mark => return Ok(()),
                // As a lost connection: the group is run again.
                Ok(_) => {
                    self.disconnect();
                    return Err(Fault::Unavailable("the transaction was cut off before its commit".into()));
                }
                Err(fault) => {
                    self.disconnect();
                    tracing::debug!(%fault, "cannot ask yet what became of a COMMIT");
                }
            }
            if started.elapsed() > SETTLE_TIMEOUT {
                return Err(Fault::OutcomeUnknown);
            }
            std::thread::park_timeout(SETTLE_INTERVAL);
        }
    }

    /// The mark of the last transaction that was committed; waits for the lost one to end.
    fn read_mark(&mut self, metrics: &StoreMetrics) -> Result<i64, Fault> {
        if self.is_cut_off() {
            self.reconnect(metrics)?;
        }
        let ask = format!("SELECT mark FROM commit_marks WHERE name = '{}' FOR UPDATE", self.name);
        self.connection()?.value(&ask)?.parse().map_err(|_| Fault::inconsistent("a mark that is no number"))
    }

    pub(super) fn close(mut self) {
        let done = format!("DELETE FROM commit_marks WHERE name = '{}'", self.name);
        if let Err(fault) = self.connection().and_then(|connection| connection.batch(&done)) {
            tracing::debug!(%fault, "the mark of this process was left behind");
        }
    }
}

/// The first slot that nobody holds, for as long as the connection lasts. When all are taken the first is shared: that
/// is slower, and as right.
fn take_slot(connection: &mut PgConnection) -> Result<i64, Fault> {
    for slot in 0..SLOTS {
        let taken = connection.value(&format!("SELECT pg_try_advisory_lock({SLOT_LOCKS}, {slot})"))?;
        if taken == "t" {
            return Ok(slot);
        }
    }
    Ok(0)
}
