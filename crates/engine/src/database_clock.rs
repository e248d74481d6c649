//! On PostgreSQL every process works with the database's time: each measures how far its own clock is off.

use crate::clock::machine_millis;
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_store::clock;

impl Engine {
    pub(crate) async fn follow_database_clock(&self) -> Result<(), Failure> {
        let (before, database, after) = self
            .read(|tx| {
                let before = machine_millis();
                let database = clock::now(tx)?;
                Ok((before, database, machine_millis()))
            })
            .await?;
        // The answer was true somewhere between the question and its arrival; half-way is the best guess.
        let middle = before + (after - before) / 2;
        self.clock().follow_database(database.as_millis(), middle);
        #[expect(clippy::cast_precision_loss, reason = "a metric")]
        self.metrics.clock_skew_seconds.set(self.clock().database_offset_ms() as f64 / 1_000.0);
        Ok(())
    }
}
