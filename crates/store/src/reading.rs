//! Reads on a connection of one's own, beside whoever serves the database: for an audit that takes its time.

use crate::coupons::holders::HolderIndex;
use crate::database::Database;
use crate::fault::Fault;
use crate::metrics::StoreMetrics;
use crate::migrate::schema_version;
use crate::readers::Reader;
use crate::statement::Statement;
use crate::tx::Tx;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::time::Duration;

/// How low the thread is put in the scheduler's eyes: it runs when nobody else wants to.
const NICENESS: i32 = 19;
/// How long is rested after each read, in multiples of its time. A low priority alone is not enough: whoever is woken
/// waits a moment for the processor that we are on, and PostgreSQL's processes are not ours to put lower.
const REST: u32 = 9;

/// A read is short, but a thread that everybody else goes before may be long about it.
const TIMEOUT: Duration = Duration::from_secs(20);

static SCHEMA: Statement = Statement::portable("SELECT MAX(version) FROM schema_migrations");

pub struct Reading {
    reader: Reader,
}

impl Reading {
    /// A database that was never served has nothing to read, and is not made here.
    pub fn open(database: &Database) -> Result<Self, Fault> {
        if let Some(path) = database.sqlite_path()
            && !path.exists()
        {
            return Err(Fault::Unavailable(format!("{} does not exist", path.display())));
        }
        let mut reading = Self::on(database, "guerdon-reading".into());
        let (version, newest) = (
            reading.read(|tx| tx.query_one(&SCHEMA, &[], |row| row.optional_int(0)))?.flatten(),
            schema_version(),
        );
        match version {
            Some(version) if version == newest => Ok(reading),
            _ => Err(Fault::Unavailable(format!(
                "the database is at schema version {}, and this binary reads {newest}: run guerdon migrate",
                version.unwrap_or(0)
            ))),
        }
    }

    pub(crate) fn on(database: &Database, name: String) -> Self {
        // Nobody looks at these.
        let metrics = StoreMetrics::register(&mut Registry::default());
        let holders = Arc::new(HolderIndex::on(database.engine()));
        Self { reader: Reader::new(database.clone(), name, metrics, holders).with_timeout(TIMEOUT) }
    }

    /// One short read; on SQLite all of it sees one moment.
    pub fn read<T>(&mut self, read: impl FnMut(&mut Tx<'_>) -> Result<T, Fault>) -> Result<T, Fault> {
        self.reader.run_once(read)
    }

    /// Puts the calling thread behind all others of the machine.
    pub fn be_humble(&self) {
        if let Err(error) = rustix::process::nice(NICENESS) {
            tracing::debug!(%error, "this thread keeps its priority");
        }
    }

    /// Rests after a read that took this long.
    pub fn give_way(&self, worked: Duration) {
        std::thread::park_timeout(worked * REST);
    }
}
