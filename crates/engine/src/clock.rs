//! The one place that asks what time it is. Everything else takes a `Timestamp`.

use guerdon_core::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The server's clock. On PostgreSQL it follows the database's, so that several processes agree.
#[derive(Debug, Default)]
pub struct Clock {
    /// Moved on purpose, for demonstrations and tests.
    chosen_offset_ms: i64,
    /// What this machine's clock lacks of the database's.
    database_offset_ms: AtomicI64,
}

impl Clock {
    pub fn new(chosen_offset_ms: i64) -> Self {
        Self { chosen_offset_ms, database_offset_ms: AtomicI64::new(0) }
    }

    pub fn now(&self) -> Timestamp {
        let offset = self.chosen_offset_ms.saturating_add(self.database_offset_ms.load(Ordering::Relaxed));
        Timestamp::from_millis(machine_millis()).plus_millis(offset)
    }

    /// How far this machine's clock is behind the database's; negative when it is ahead.
    pub fn database_offset_ms(&self) -> i64 {
        self.database_offset_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn follow_database(&self, database_millis: i64, machine_millis: i64) {
        self.database_offset_ms.store(database_millis.saturating_sub(machine_millis), Ordering::Relaxed);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is told to ask")]
pub(crate) fn machine_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    millis(since)
}

/// For what is only ever told, never decided by.
#[expect(clippy::disallowed_methods, reason = "this is the clock that everything else is told to ask")]
pub(crate) fn machine_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A time as the store counts it.
pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
