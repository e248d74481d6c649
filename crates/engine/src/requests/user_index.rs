//! SQLite's user index, written in sorted runs beside the intake.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_store::requests::user_index::{self, Entry};
use guerdon_store::{Command, Engine as Database, Fault, Priority, Tx, each};
use std::collections::BTreeMap;

/// A longer run is better sorted; this many are about 20 MB in memory.
const RUN_LEAST: usize = 100_000;
/// Rows in one transaction: a few milliseconds.
const SLICE: usize = 500;

impl Engine {
    pub(crate) async fn load_user_index(&self) -> Result<(), Failure> {
        if self.store().engine() == Database::Sqlite {
            let intake = std::sync::Arc::clone(self.intake());
            self.commit(Load(intake)).await?;
        }
        Ok(())
    }

    /// Writes a run once enough people wait for it.
    pub(crate) async fn merge_user_index(&self) {
        if self.store().engine() != Database::Sqlite || self.intake().index.pending() < RUN_LEAST {
            return;
        }
        if let Err(failure) = self.write_run().await {
            tracing::warn!(%failure, "a run of the user index was cut off and will be written again");
        }
    }

    async fn write_run(&self) -> Result<(), Failure> {
        let index = &self.intake().index;
        let run = index.run();
        index.merging(&run);
        for slice in run.chunks(SLICE) {
            self.commit(Merge(slice.to_vec())).await?;
        }
        let mut lines = BTreeMap::new();
        for entry in &run {
            let newest = lines.entry(entry.event_key).or_insert(entry.position);
            *newest = entry.position.max(*newest);
        }
        self.commit(SetIndexed(lines)).await?;
        index.merged(&run);
        Ok(())
    }
}

struct Load(std::sync::Arc<super::Intake>);

impl Command for Load {
    type Output = ();
    const NAME: &'static str = "load_user_index";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |load| load.0.index.load(tx))
    }
}

/// As urgent as the intake itself: it must keep up with it.
struct Merge(Vec<Entry>);

impl Command for Merge {
    type Output = ();
    const NAME: &'static str = "merge_user_index";
    const PRIORITY: Priority = Priority::Intake;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |merge| user_index::merge(tx, &merge.0))
    }
}

struct SetIndexed(BTreeMap<i64, i64>);

impl Command for SetIndexed {
    type Output = ();
    const NAME: &'static str = "set_indexed";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |set| user_index::set_indexed(tx, &set.0))
    }
}
