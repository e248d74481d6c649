//! SQLite's index of who has which coupons: its runs, which those who are given coupons carry along, and which are ended
//! when nobody is.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::coupons::UserCouponId;
use guerdon_store::coupons::holders;
use guerdon_store::{Command, Engine as Database, Fault, Priority, Run, Tx, each};

/// Rows in one transaction of its own: a few milliseconds.
const SLICE: usize = 500;

impl Engine {
    pub(crate) async fn load_coupon_holders(&self) -> Result<(), Failure> {
        if self.store().engine() == Database::Sqlite {
            // However long the tail is.
            self.commit_patiently(Load).await?;
        }
        Ok(())
    }

    /// Begins a run once enough coupons wait for it, or once nobody is given any; ends it when all of it is written.
    pub(crate) async fn merge_coupon_holders(&self) {
        if self.store().engine() != Database::Sqlite {
            return;
        }
        let index = self.store().holders();
        if !index.is_filter_whole()
            && let Err(failure) = self.fill_holders_filter().await
        {
            tracing::debug!(%failure, "the filter of coupons' holders is filled later");
        }
        if let Err(failure) = self.move_holders_on().await {
            tracing::warn!(%failure, "a run of coupons' holders was held up and goes on later");
        }
        self.metrics.coupon_holders_pending.set(i64::try_from(index.pending()).unwrap_or(i64::MAX));
    }

    /// Reads the index once after the start: until then everybody is looked up in it.
    async fn fill_holders_filter(&self) -> Result<(), Failure> {
        let index = self.store().holders();
        let mut last: (Box<str>, [u8; 16]) = ("".into(), [0; 16]);
        loop {
            let after = last.clone();
            let page = self.read(move |tx| holders::page(tx, (&after.0, &after.1))).await?;
            index.filter_page(&page);
            let Some((user, id)) = page.last() else { return Ok(()) };
            last = (user.clone(), *id.as_bytes());
        }
    }

    async fn move_holders_on(&self) -> Result<(), Failure> {
        let index = self.store().holders();
        let left = match index.run_length() {
            Some(length) => Some(self.read(move |tx| holders::run_left(tx, length)).await?),
            None => None,
        };
        let pending = index.pending();
        let quiet = self.coupons.looked.is_quiet(pending, left);
        match left {
            None if index.is_run_due() || (quiet && pending > 0) => self.begin_holders_run().await,
            Some(0) => {
                while !self.commit(Cut).await? {}
                index.end();
                Ok(())
            }
            Some(_) if quiet => {
                while index.pending() == pending && self.commit(Merge).await? > 0 {}
                Ok(())
            }
            None | Some(_) => Ok(()),
        }
    }

    async fn begin_holders_run(&self) -> Result<(), Failure> {
        let index = self.store().holders();
        let end = self.commit(Gather).await?;
        let mut run = Run::<UserCouponId>::with_capacity(index.pending());
        let mut after = 0;
        loop {
            let page = self.read(move |tx| holders::tail(tx, after, end)).await?;
            let Some((last, ..)) = page.last() else { break };
            after = *last;
            for (_, user, id) in &page {
                run.add(*id, user)?;
            }
        }
        let sorted = tokio::task::spawn_blocking(move || {
            run.sort();
            run
        });
        let run = sorted.await.map_err(|_| Fault::Panicked)?;
        tracing::debug!(coupons = run.len(), "a run of coupons' holders begins");
        index.begin(run);
        Ok(())
    }
}

struct Load;

impl Command for Load {
    type Output = ();
    const NAME: &'static str = "load_coupon_holders";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |_| tx.holders().load(tx))
    }
}

/// Begins a run, where nobody else writes.
struct Gather;

impl Command for Gather {
    type Output = i64;
    const NAME: &'static str = "gather_coupon_holders";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<i64>, Fault> {
        each(batch, |_| tx.holders().gather(tx))
    }
}

/// Writes a part of a run that nobody carries along: how much of it is left.
struct Merge;

impl Command for Merge {
    type Output = usize;
    const NAME: &'static str = "merge_coupon_holders";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<usize>, Fault> {
        each(batch, |_| tx.holders().carry(tx, SLICE))
    }
}

/// Takes a part of a run that is in the index out of the tail: whether that was all.
struct Cut;

impl Command for Cut {
    type Output = bool;
    const NAME: &'static str = "cut_coupon_holders";
    const PRIORITY: Priority = Priority::Following;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<bool>, Fault> {
        each(batch, |_| tx.holders().cut(tx))
    }
}
