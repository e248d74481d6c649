//! SQLite's user index: its runs, which those who join carry along, and which are ended when nobody joins.

use super::Intake;
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_store::requests::user_index;
use guerdon_store::{Command, Engine as Database, Fault, Priority, Run, Tx, each};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows in one transaction of its own: a few milliseconds.
const SLICE: usize = 500;
impl Engine {
    pub(crate) async fn load_user_index(&self) -> Result<(), Failure> {
        if self.store().engine() == Database::Sqlite {
            self.commit(Load(Arc::clone(self.intake()))).await?;
        }
        Ok(())
    }

    /// Begins a run once enough people wait for it, or once nobody else comes; ends it when all of it is written.
    pub(crate) async fn merge_user_index(&self) {
        if self.store().engine() != Database::Sqlite {
            return;
        }
        if !self.intake().index.is_filter_whole()
            && let Err(failure) = self.fill_filter().await
        {
            tracing::debug!(%failure, "the filter of the user index is filled later");
        }
        if let Err(failure) = self.move_run_on().await {
            tracing::warn!(%failure, "a run of the user index was cut off and will be written again");
        }
        let index = &self.intake().index;
        self.metrics.user_index_pending.set(i64::try_from(index.pending()).unwrap_or(i64::MAX));
        self.metrics.user_index_filter.set(i64::from(index.is_filter_whole()));
    }

    /// Reads the index once after the start: until then everybody is looked up in it.
    async fn fill_filter(&self) -> Result<(), Failure> {
        let index = &self.intake().index;
        let recoveries = index.recoveries();
        let mut last: (Box<str>, i64) = ("".into(), 0);
        loop {
            let after = last.clone();
            let page = self.read(move |tx| user_index::page(tx, (&after.0, after.1))).await?;
            match page.last() {
                Some(newest) if index.filter_page(&page, recoveries) => last.clone_from(newest),
                Some(_) => return Ok(()),
                None => break,
            }
        }
        index.filter_page(&[], recoveries);
        tracing::debug!("the user index was read");
        Ok(())
    }

    async fn move_run_on(&self) -> Result<(), Failure> {
        let index = &self.intake().index;
        let (pending, left) = (index.pending(), index.run_left());
        let quiet = self.intake().looked.is_quiet(pending, left);
        match left {
            None if index.is_run_due() || (quiet && pending > 0) => self.begin_run().await,
            Some(0) => self.end_run().await,
            Some(_) if quiet => {
                while index.run_left().is_some_and(|left| left > 0) && index.pending() == pending {
                    self.commit(Merge(Arc::clone(self.intake()))).await?;
                }
                Ok(())
            }
            None | Some(_) => Ok(()),
        }
    }

    async fn begin_run(&self) -> Result<(), Failure> {
        let index = &self.intake().index;
        let ends = index.gather();
        let indexed = self.read(user_index::indexed_positions).await?;
        let mut run = Run::with_capacity(index.pending());
        for (event_key, end) in &ends {
            let (event_key, end) = (*event_key, *end);
            let mut after = indexed.get(&event_key).copied().unwrap_or(0);
            while after < end {
                let people = self.read(move |tx| user_index::tail(tx, event_key, after, end)).await?;
                let Some((newest, _)) = people.last() else { break };
                after = newest.position();
                for (key, user) in &people {
                    run.add(*key, user)?;
                }
            }
        }
        let sorted = tokio::task::spawn_blocking(move || {
            run.sort();
            run
        });
        let run = sorted.await.map_err(|_| Fault::Panicked)?;
        tracing::debug!(users = run.len(), "a run of the user index begins");
        index.begin(run);
        Ok(())
    }

    async fn end_run(&self) -> Result<(), Failure> {
        let index = &self.intake().index;
        self.commit(SetIndexed(index.ends())).await?;
        index.end();
        Ok(())
    }
}

struct Load(Arc<Intake>);

impl Command for Load {
    type Output = ();
    const NAME: &'static str = "load_user_index";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |load| load.0.index.load(tx))
    }
}

/// Writes a part of a run that nobody carries along.
struct Merge(Arc<Intake>);

impl Command for Merge {
    type Output = ();
    const NAME: &'static str = "merge_user_index";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |merge| merge.0.index.carry(tx, SLICE))
    }

    fn committed(done: &[(&Self, &())]) {
        for (merge, ()) in done {
            merge.0.index.committed();
        }
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
