//! On PostgreSQL every process works with the database's time: each measures how far its own clock is off.

use crate::clock::machine_millis;
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_store::clock;

/// A slower answer tells too little about when it was true.
const ROUND_TRIP_MAX_MS: i64 = 500;

impl Engine {
    pub(crate) async fn follow_database_clock(&self) -> Result<(), Failure> {
        let (before, database, after) = self
            .read_first(|tx| {
                let before = machine_millis();
                let database = clock::now(tx)?;
                Ok((before, database, machine_millis()))
            })
            .await?;
        if after - before > ROUND_TRIP_MAX_MS {
            return Ok(());
        }
        // The answer was true somewhere between the question and its arrival; half-way is the best guess.
        let middle = before + (after - before) / 2;
        self.clock().follow_database(database.as_millis(), middle);
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        self.metrics.clock_skew_seconds.set(self.clock().database_offset_ms() as f64 / 1_000.0);
        Ok(())
    }
}
