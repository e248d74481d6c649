//! The committer: one thread that owns the process's only write connection and runs what waits in groups.

mod checkpoint;
mod session;

pub(crate) use checkpoint::Checkpointer;
pub(crate) use session::{Now, Session};

use crate::bell::Bell;
use crate::fault::Fault;
use crate::lanes::{Lanes, Next, Slice};
use crate::metrics::{CommandLabels, StoreMetrics};
use crate::statement::Statement;
use crate::stopwatch::Stopwatch;
use crate::store::StoreOptions;
use session::Commit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// How often a group is run again after it lost against others, or lost its connection.
const ATTEMPTS_MAX: u32 = 6;
const BACKOFF_FIRST: Duration = Duration::from_millis(5);
/// How many commands of one group may wait in vain for a lock before the rest is not tried any more.
const TIMEOUTS_MAX: u32 = 3;
/// How often a file that met an I/O error is looked at again.
const RECOVERY_INTERVAL: Duration = Duration::from_secs(1);

static PROBE: Statement = Statement::portable("UPDATE counters SET value = value WHERE name = 'audit_log'");

/// What the committer tells the rest of the process about itself.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// When the group under way began.
    busy_since: Mutex<Option<Stopwatch>>,
    /// Why the last transaction could not be written, until one can.
    trouble: Mutex<Option<String>>,
    halted: AtomicBool,
}

impl Pulse {
    fn set_busy(&self, since: Option<Stopwatch>) {
        *self.busy_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    pub(crate) fn busy_for(&self) -> Duration {
        let since = *self.busy_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.halted.load(Ordering::Acquire)
    }
}

pub(crate) struct Committer {
    session: Session,
    lanes: Arc<Lanes>,
    pulse: Arc<Pulse>,
    metrics: StoreMetrics,
    jitter: Jitter,
    recovery_tried: Option<Stopwatch>,
    bell: Bell,
    /// Where those who wait are told.
    answers_on: Option<Handle>,
}

impl Committer {
    pub(crate) fn new(
        session: Session,
        lanes: Arc<Lanes>,
        pulse: Arc<Pulse>,
        metrics: StoreMetrics,
        bell: Bell,
        options: &StoreOptions,
    ) -> Self {
        Self {
            session,
            lanes,
            pulse,
            metrics,
            jitter: Jitter(options.seed | 1),
            recovery_tried: None,
            bell,
            answers_on: options.answers_on.clone(),
        }
    }

    /// Runs until the lanes are closed and empty.
    pub(crate) fn run(mut self) {
        let lanes = Arc::clone(&self.lanes);
        loop {
            let ill = self.session.is_halted() || self.pulse.trouble().is_some();
            let patience = ill.then_some(RECOVERY_INTERVAL);
            match lanes.next(patience) {
                Next::Commit(slice) => {
                    let started = Stopwatch::start();
                    self.pulse.set_busy(Some(started));
                    self.metrics.running.set(i64::try_from(slice.len()).unwrap_or(i64::MAX));
                    self.commit(slice, started);
                    self.metrics.running.set(0);
                    self.pulse.set_busy(None);
                }
                Next::Nothing => self.probe(),
                Next::Closed => break,
            }
            if self.session.is_halted() {
                self.recover();
            }
        }
        self.session.close();
    }

    /// Writes nothing of consequence, to find out whether writing works again: nobody is sent here to try until it does.
    fn probe(&mut self) {
        if self.session.is_halted() {
            return;
        }
        let tried = self.session.begin(&self.metrics, true).and_then(|()| {
            match self.session.run(None, |tx| tx.execute(&PROBE, &[])) {
                Ok(_) => self.finish(),
                Err(fault) => {
                    self.give_up(&fault);
                    Err(fault)
                }
            }
        });
        match tried {
            Ok(()) => {
                self.pulse.set_trouble(None);
                tracing::info!("transactions can be written again");
            }
            Err(fault) => self.pulse.set_trouble(Some(fault.to_string())),
        }
    }

    /// Tries now and then to reopen the file after an I/O error.
    fn recover(&mut self) {
        self.pulse.halted.store(true, Ordering::Release);
        self.metrics.halted.set(1);
        if self.recovery_tried.is_some_and(|tried| tried.elapsed() < RECOVERY_INTERVAL) {
            return;
        }
        self.recovery_tried = Some(Stopwatch::start());
        match self.session.recover() {
            Ok(()) => {
                self.recovery_tried = None;
                self.pulse.halted.store(false, Ordering::Release);
                self.metrics.halted.set(0);
                tracing::info!("the database file was reopened and is sound; the writer goes on");
            }
            Err(fault) => tracing::error!(%fault, "the database file cannot be written; trying again"),
        }
    }

    fn commit(&mut self, mut slice: Box<dyn Slice>, started: Stopwatch) {
        let labels = CommandLabels { command: slice.name() };
        let count = u64::try_from(slice.len()).unwrap_or(u64::MAX);
        match self.commit_with_retries(&mut *slice) {
            Ok(()) => {
                self.metrics.group_seconds.get_or_create(&labels).observe(started.elapsed().as_secs_f64());
                #[expect(clippy::cast_precision_loss, reason = "a group has far fewer than 2^52 commands")]
                self.metrics.group_commands.observe(count as f64);
                self.metrics.commands.get_or_create(&labels).inc_by(count);
                self.pulse.set_trouble(None);
                self.answer(slice);
            }
            Err(fault) => {
                tracing::error!(command = labels.command, commands = count, %fault, "a group was not committed");
                if matches!(fault, Fault::Unavailable(_)) {
                    self.pulse.set_trouble(Some(fault.to_string()));
                }
                self.metrics.failed_commands.get_or_create(&labels).inc_by(count);
                slice.fail(fault);
            }
        }
    }

    /// Tells everybody who waits for a group. To wake a task from outside of its runtime costs a lock, and often a call of
    /// the system; from inside nearly nothing: so one task is woken, which wakes the others.
    fn answer(&self, slice: Box<dyn Slice>) {
        slice.committed();
        match &self.answers_on {
            Some(runtime) if slice.len() > 1 => drop(runtime.spawn(async move { slice.answer() })),
            _ => slice.answer(),
        }
    }

    fn commit_with_retries(&mut self, slice: &mut dyn Slice) -> Result<(), Fault> {
        let mut attempt = 1;
        loop {
            let fault = match self.try_commit(slice) {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            let again = match fault {
                Fault::Conflict(_) => attempt < ATTEMPTS_MAX,
                // A connection that turns out to be dead is made anew once; a server that is down answers for itself.
                Fault::Unavailable(_) => attempt == 1 && self.session.is_cut_off(),
                _ => false,
            };
            if !again {
                return Err(fault);
            }
            tracing::debug!(command = slice.name(), attempt, %fault, "a group is run again");
            self.metrics.retried_groups.inc();
            if matches!(fault, Fault::Conflict(_)) {
                std::thread::park_timeout(self.jitter.backoff(attempt));
            }
            attempt += 1;
        }
    }

    fn try_commit(&mut self, slice: &mut dyn Slice) -> Result<(), Fault> {
        self.session.begin(&self.metrics, slice.is_durable())?;
        let limit = slice.rows_limit();
        match self.session.run(limit, |tx| guarded(|| slice.run(tx))) {
            Ok(()) => self.finish(),
            Err(fault) => {
                self.give_up(&fault);
                // A lock that somebody else holds is waited for by one command of the group, not by all.
                let own = fault.is_the_commands_own() || matches!(fault, Fault::TimedOut(_));
                match own && slice.len() > 1 {
                    true if self.session.has_savepoints() => self.isolate_with_savepoints(slice),
                    true => {
                        self.isolate_one_by_one(slice);
                        Ok(())
                    }
                    false => Err(fault),
                }
            }
        }
    }

    /// Ends a transaction that failed; a connection that may be dead is not asked anything more.
    fn give_up(&mut self, fault: &Fault) {
        if matches!(fault, Fault::Unavailable(_)) {
            self.session.disconnect();
        }
        self.session.rollback();
    }

    /// Runs the group again in one transaction, each command under a savepoint, so that only the culprit fails.
    fn isolate_with_savepoints(&mut self, slice: &mut dyn Slice) -> Result<(), Fault> {
        self.metrics.isolated_groups.inc();
        self.session.begin(&self.metrics, slice.is_durable())?;
        let limit = slice.rows_limit();
        for index in 0..slice.len() {
            let outcome = self
                .session
                .savepoint()
                .and_then(|()| self.session.run(limit, |tx| guarded(|| slice.run_one(tx, index))));
            let kept = match outcome {
                Ok(()) => self.session.release_savepoint(),
                Err(fault) if fault.is_the_commands_own() => {
                    self.fail_one(slice, index, fault);
                    self.session.rollback_to_savepoint()
                }
                Err(fault) => Err(fault),
            };
            if let Err(fault) = kept {
                self.give_up(&fault);
                return Err(fault);
            }
        }
        self.finish()
    }

    /// Runs the commands again in a transaction each, so that only the culprit fails.
    fn isolate_one_by_one(&mut self, slice: &mut dyn Slice) {
        self.metrics.isolated_groups.inc();
        let mut patience = TIMEOUTS_MAX;
        for index in 0..slice.len() {
            let outcome = if patience == 0 {
                Err(Fault::TimedOut("others of its group were held up by locks".into()))
            } else {
                self.commit_one(slice, index)
            };
            match outcome {
                Ok(()) => {}
                Err(fault @ (Fault::Unavailable(_) | Fault::Halted | Fault::Stopping)) => {
                    for left in index..slice.len() {
                        self.fail_one(slice, left, fault.clone());
                    }
                    break;
                }
                Err(fault) => {
                    patience = patience.saturating_sub(u32::from(matches!(fault, Fault::TimedOut(_))));
                    self.fail_one(slice, index, fault);
                }
            }
        }
    }

    fn commit_one(&mut self, slice: &mut dyn Slice, index: usize) -> Result<(), Fault> {
        let mut attempt = 1;
        loop {
            self.session.begin(&self.metrics, slice.is_durable())?;
            let limit = slice.rows_limit();
            let run = self
                .session
                .be_impatient()
                .and_then(|()| self.session.run(limit, |tx| guarded(|| slice.run_one(tx, index))));
            let outcome = match run {
                Ok(()) => self.finish(),
                Err(fault) => {
                    self.give_up(&fault);
                    Err(fault)
                }
            };
            match outcome {
                Err(Fault::Conflict(_)) if attempt < ATTEMPTS_MAX => {}
                Err(Fault::Unavailable(_)) if attempt == 1 && self.session.is_cut_off() => {}
                outcome => return outcome,
            }
            self.metrics.retried_groups.inc();
            std::thread::park_timeout(self.jitter.backoff(attempt));
            attempt += 1;
        }
    }

    fn fail_one(&self, slice: &mut dyn Slice, index: usize, fault: Fault) {
        tracing::error!(command = slice.name(), %fault, "a command failed; its group goes on without it");
        self.metrics.failed_commands.get_or_create(&CommandLabels { command: slice.name() }).inc();
        slice.fail_one(index, fault);
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let told = self.session.has_told();
        match self.session.commit() {
            Commit::Done => {}
            Commit::NotDone(fault) => return Err(fault),
            Commit::Unknown => {
                self.metrics.unknown_commits.inc();
                tracing::warn!("the answer to a COMMIT was lost; asking what became of it");
                self.session.settle(&self.metrics)?;
            }
        }
        if told {
            self.bell.ring();
        }
        Ok(())
    }
}

/// A command that panics must not take the writer with it.
fn guarded<T>(run: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(Fault::Panicked))
}

/// Spreads the retries of several processes apart. Seeded by the caller.
struct Jitter(u64);

impl Jitter {
    fn backoff(&mut self, attempt: u32) -> Duration {
        // xorshift64: enough to keep two processes from stepping on each other in step.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let ceiling = BACKOFF_FIRST * 2_u32.saturating_pow(attempt.min(6));
        let share = u32::try_from(self.0 % 1_000).unwrap_or(0);
        ceiling / 2 + ceiling * share / 2_000
    }
}
