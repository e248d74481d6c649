//! What waits to be committed: a lane for each kind of command, bounded, with the intake first.
//!
//! A commit costs the same for one command as for a hundred, so the threads that bring commands say when they have
//! nothing more to bring, and only then does the committer take what waits. A lone command is followed by silence and is
//! taken at once; in a surge the silence comes when everything that had arrived was read.

use crate::fault::Fault;
use crate::stopwatch::Stopwatch;
use crate::tx::Tx;
use prometheus_client::metrics::gauge::Gauge;
use std::any::{Any, TypeId};
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// A write. Its ids, times and randomness are fixed before it is handed over, so that running it again after a lost
/// connection or a deadlock does the same.
pub trait Command: Send + Sync + Sized + 'static {
    type Output: Send + 'static;
    /// For metrics and logs.
    const NAME: &'static str;
    const PRIORITY: Priority;
    /// Whether it finishes what another command began, and is let in whatever waits.
    const FOLLOWS: bool = false;
    /// Whether its answer promises that it will not be lost. One that promises nothing is not waited for to be synced;
    /// what is committed after it, and synced, makes it durable too.
    const DURABLE: bool = true;

    /// Applies all of them in one transaction and answers in their order. A part whose rows several processes write
    /// does so in key order, whatever the order of the batch. An error undoes the whole batch; the committer then
    /// finds the culprit by running them one at a time.
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault>;

    /// Called after the commit and before anybody is answered, with the commands that succeeded: for what is kept in
    /// memory beside the database. It must not fail.
    fn committed(_done: &[(&Self, &Self::Output)]) {}
}

/// Applies each command of a batch by itself.
pub fn each<C, T>(batch: &[C], apply: impl FnMut(&C) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    batch.iter().map(apply).collect()
}

/// Who goes first when several kinds of command wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// People in line.
    Intake,
    /// People at a console.
    Operator,
    /// What has to keep up with the intake; one command to a transaction, of a bounded number of rows.
    Following,
    /// What moves by itself; as bounded.
    Background,
}

impl Priority {
    /// How long a lane is passed over at the most.
    const fn patience(self) -> Duration {
        match self {
            Self::Intake => Duration::ZERO,
            Self::Operator => Duration::from_millis(20),
            Self::Following => Duration::from_millis(40),
            Self::Background => Duration::from_millis(100),
        }
    }

    pub(crate) const fn rows_limit(self) -> Option<u64> {
        match self {
            Self::Following | Self::Background => Some(2_000),
            Self::Intake | Self::Operator => None,
        }
    }
}

/// The answer to a command, once it is durable.
pub type Pending<T> = oneshot::Receiver<Result<T, Fault>>;

/// Commands of one kind that are committed together.
pub(crate) trait Slice: Send {
    fn name(&self) -> &'static str;
    fn rows_limit(&self) -> Option<u64>;
    fn is_durable(&self) -> bool;
    fn len(&self) -> usize;
    /// Runs all of them and keeps their outputs.
    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Fault>;
    /// Runs one of them and keeps its output.
    fn run_one(&mut self, tx: &mut Tx<'_>, index: usize) -> Result<(), Fault>;
    fn fail_one(&mut self, index: usize, fault: Fault);
    /// Lets the commands know that they are committed.
    fn committed(&self);
    /// Tells everybody what became of their command.
    fn answer(self: Box<Self>);
    fn fail(self: Box<Self>, fault: Fault);
}

struct TypedSlice<C: Command> {
    commands: Vec<C>,
    answers: Vec<oneshot::Sender<Result<C::Output, Fault>>>,
    outcomes: Vec<Option<Result<C::Output, Fault>>>,
}

impl<C: Command> Slice for TypedSlice<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn rows_limit(&self) -> Option<u64> {
        C::PRIORITY.rows_limit()
    }

    fn is_durable(&self) -> bool {
        C::DURABLE
    }

    fn len(&self) -> usize {
        self.commands.len()
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Result<(), Fault> {
        let outputs = C::apply(tx, &self.commands)?;
        if outputs.len() != self.commands.len() {
            return Err(Fault::inconsistent(format!("{} answered the wrong number of commands", C::NAME)));
        }
        self.outcomes = outputs.into_iter().map(|output| Some(Ok(output))).collect();
        Ok(())
    }

    fn run_one(&mut self, tx: &mut Tx<'_>, index: usize) -> Result<(), Fault> {
        let mut outputs = C::apply(tx, std::slice::from_ref(&self.commands[index]))?;
        let output =
            outputs.pop().ok_or_else(|| Fault::inconsistent(format!("{} answered nothing", C::NAME)))?;
        self.outcomes[index] = Some(Ok(output));
        Ok(())
    }

    fn fail_one(&mut self, index: usize, fault: Fault) {
        self.outcomes[index] = Some(Err(fault));
    }

    fn committed(&self) {
        let done: Vec<_> = self
            .commands
            .iter()
            .zip(&self.outcomes)
            .filter_map(|(command, outcome)| Some((command, outcome.as_ref()?.as_ref().ok()?)))
            .collect();
        C::committed(&done);
    }

    fn answer(self: Box<Self>) {
        for (answer, outcome) in self.answers.into_iter().zip(self.outcomes) {
            // Whoever asked may have gone; the change stands all the same.
            let _ = answer.send(outcome.unwrap_or(Err(Fault::Panicked)));
        }
    }

    fn fail(self: Box<Self>, fault: Fault) {
        for answer in self.answers {
            let _ = answer.send(Err(fault.clone()));
        }
    }
}

trait Lane: Send {
    fn priority(&self) -> Priority;
    /// When it had its last turn.
    fn last_turn(&self) -> Stopwatch;
    /// Since when the first one waits.
    fn oldest(&self) -> Option<Stopwatch>;
    fn take(&mut self, most: usize) -> Box<dyn Slice>;
    fn as_any(&mut self) -> &mut dyn Any;
}

struct Waiting<C: Command> {
    command: C,
    answer: oneshot::Sender<Result<C::Output, Fault>>,
    since: Stopwatch,
}

struct TypedLane<C: Command> {
    waiting: VecDeque<Waiting<C>>,
    last_turn: Stopwatch,
}

impl<C: Command> Lane for TypedLane<C> {
    fn priority(&self) -> Priority {
        C::PRIORITY
    }

    fn last_turn(&self) -> Stopwatch {
        self.last_turn
    }

    fn oldest(&self) -> Option<Stopwatch> {
        self.waiting.front().map(|waiting| waiting.since)
    }

    fn take(&mut self, most: usize) -> Box<dyn Slice> {
        let most = if C::PRIORITY.rows_limit().is_some() { 1 } else { most };
        let count = most.min(self.waiting.len());
        self.last_turn = Stopwatch::start();
        let mut slice = TypedSlice::<C> {
            commands: Vec::with_capacity(count),
            answers: Vec::with_capacity(count),
            outcomes: Vec::new(),
        };
        for waiting in self.waiting.drain(..count) {
            slice.commands.push(waiting.command);
            slice.answers.push(waiting.answer);
        }
        slice.outcomes.resize_with(count, || None);
        Box::new(slice)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// What the committer has to do next.
pub(crate) enum Next {
    Commit(Box<dyn Slice>),
    /// Nothing arrived in time.
    Nothing,
    /// Nothing is left and nothing more will come.
    Closed,
}

/// No silence is waited for any longer than this.
const GATHERING_MAX: Duration = Duration::from_millis(1);
/// Nor when this many wait: more of them make a commit no cheaper.
const GATHERING_COMMANDS: usize = 16;

thread_local! {
    /// Whether this thread says when it has nothing more to bring.
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// For threads that bring commands and know when they are about to rest: see [`Silence::falls`].
#[derive(Clone)]
pub struct Silence(Arc<Lanes>);

impl Silence {
    pub(crate) fn new(lanes: Arc<Lanes>) -> Self {
        Self(lanes)
    }

    /// Says that this thread has nothing more to bring for now, and will say so again before it next rests.
    pub fn falls(&self) {
        TELLS.set(true);
        if self.0.gathering.swap(false, Ordering::AcqRel) {
            let mut state = self.0.state();
            state.silent = true;
            let wake = state.waiting_since.is_some() && std::mem::take(&mut state.sleeps);
            drop(state);
            if wake {
                self.0.arrived.notify_one();
            }
        }
    }
}

/// All lanes of a store.
pub(crate) struct Lanes {
    state: Mutex<State>,
    arrived: Condvar,
    /// Whether anything was brought since the last silence.
    gathering: AtomicBool,
    waiting_max: usize,
    group_max: usize,
    /// How many wait, for whoever looks at the metrics.
    gauge: Gauge,
    intake_groups: AtomicU64,
    intake_commands: AtomicU64,
}

/// How much of the intake was committed so far: how many groups, and how many commands in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Intake {
    pub groups: u64,
    pub commands: u64,
}

#[derive(Default)]
struct State {
    lanes: Vec<Box<dyn Lane>>,
    index: HashMap<TypeId, usize>,
    waiting_intake: usize,
    waiting_others: usize,
    closed: bool,
    /// Whether those who bring commands have nothing more for now.
    silent: bool,
    /// Since when something waits.
    waiting_since: Option<Stopwatch>,
    /// Whether the committer rests and nobody has woken it yet: to wake one that is awake is a call of the system for nothing.
    sleeps: bool,
}

impl State {
    /// Whether it is time to commit what waits.
    fn is_ripe(&self) -> bool {
        self.silent
            || self.closed
            || self.waiting_intake + self.waiting_others >= GATHERING_COMMANDS
            || self.waiting_since.is_some_and(|since| since.elapsed() >= GATHERING_MAX)
    }
}

impl Lanes {
    pub(crate) fn new(waiting_max: usize, group_max: usize, gauge: Gauge) -> Self {
        Self {
            state: Mutex::default(),
            arrived: Condvar::new(),
            gathering: AtomicBool::new(false),
            waiting_max,
            group_max,
            gauge,
            intake_groups: AtomicU64::new(0),
            intake_commands: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push<C: Command>(&self, command: C) -> Result<Pending<C::Output>, Fault> {
        let (answer, pending) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return Err(Fault::Stopping);
        }
        // Counted apart: a flood of other work cannot turn people away, nor a surge the operators who have to stop it.
        let (waiting, most) = match C::PRIORITY {
            Priority::Intake => (&mut state.waiting_intake, self.waiting_max),
            Priority::Operator | Priority::Following | Priority::Background => {
                (&mut state.waiting_others, self.waiting_max / 2)
            }
        };
        if *waiting >= most && !C::FOLLOWS {
            return Err(Fault::Busy);
        }
        *waiting += 1;
        let State { lanes, index, .. } = &mut *state;
        let position = *index.entry(TypeId::of::<C>()).or_insert_with(|| {
            lanes.push(Box::new(TypedLane::<C> { waiting: VecDeque::new(), last_turn: Stopwatch::start() }));
            lanes.len() - 1
        });
        let lane: &mut TypedLane<C> =
            lanes[position].as_any().downcast_mut().expect("a lane is found by the type of its commands");
        let since = Stopwatch::start();
        lane.waiting.push_back(Waiting { command, answer, since });
        self.gauge.inc();
        let first = state.waiting_since.is_none();
        state.waiting_since.get_or_insert(since);
        state.silent = !TELLS.get();
        let ripe = state.is_ripe();
        // The first one wakes the committer in any case: it waits for silence itself, and no longer than it may.
        let wake = (ripe || first) && std::mem::take(&mut state.sleeps);
        drop(state);
        if !ripe {
            self.gathering.store(true, Ordering::Release);
        }
        if wake {
            self.arrived.notify_one();
        }
        Ok(pending)
    }

    /// The next commands to commit together. Waits for one to arrive, or no longer than `patience`.
    pub(crate) fn next(&self, patience: Option<Duration>) -> Next {
        let waited = Stopwatch::start();
        let mut state = self.state();
        loop {
            let chosen = choose(&state.lanes);
            let gathered = chosen.is_none() || state.is_ripe();
            if let (Some(chosen), true) = (chosen, gathered) {
                let slice = state.lanes[chosen].take(self.group_max);
                if state.lanes[chosen].priority() == Priority::Intake {
                    state.waiting_intake -= slice.len();
                    self.intake_groups.fetch_add(1, Ordering::Relaxed);
                    let commands = u64::try_from(slice.len()).unwrap_or(0);
                    self.intake_commands.fetch_add(commands, Ordering::Relaxed);
                } else {
                    state.waiting_others -= slice.len();
                }
                self.gauge.dec_by(i64::try_from(slice.len()).unwrap_or(0));
                let left = state.waiting_intake + state.waiting_others > 0;
                state.waiting_since = left.then_some(state.waiting_since).flatten();
                return Next::Commit(slice);
            }
            if state.closed {
                return Next::Closed;
            }
            let patience = patience.map(|patience| patience.saturating_sub(waited.elapsed()));
            let patience =
                if gathered { patience } else { Some(patience.unwrap_or(GATHERING_MAX).min(GATHERING_MAX)) };
            state.sleeps = true;
            state = match patience {
                None => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Next::Nothing,
                Some(left) => {
                    self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleeps = false;
        }
    }

    pub(crate) fn intake(&self) -> Intake {
        Intake {
            groups: self.intake_groups.load(Ordering::Relaxed),
            commands: self.intake_commands.load(Ordering::Relaxed),
        }
    }

    /// Takes nothing more; what waits is still committed.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.arrived.notify_all();
    }

    pub(crate) fn oldest_wait(&self) -> Duration {
        let state = self.state();
        state
            .lanes
            .iter()
            .filter_map(|lane| lane.oldest())
            .map(|since| since.elapsed())
            .max()
            .unwrap_or_default()
    }
}

/// The lane whose patience has run out the longest ago, else the first by priority.
fn choose(lanes: &[Box<dyn Lane>]) -> Option<usize> {
    let waiting = || {
        lanes.iter().enumerate().filter_map(|(index, lane)| lane.oldest().map(|since| (index, lane, since)))
    };
    let starved = waiting()
        .filter(|(_, lane, since)| {
            // Since its last turn: a backlog gets a turn now and then, and the intake all the others.
            let patience = lane.priority().patience();
            lane.priority() != Priority::Intake
                && since.elapsed() > patience
                && lane.last_turn().elapsed() > patience
        })
        .max_by_key(|(_, _, since)| since.elapsed());
    let first =
        || waiting().min_by_key(|(_, lane, since)| (lane.priority(), std::cmp::Reverse(since.elapsed())));
    starved.or_else(first).map(|(index, ..)| index)
}

#[cfg(test)]
mod tests {
    use super::{Arc, Command, Fault, Gauge, Lanes, Next, Priority, Silence, Tx, each};

    struct Apply;
    struct Sweep;
    struct Patch;

    macro_rules! command {
        ($name:ident $priority:ident) => {
            impl Command for $name {
                type Output = ();
                const NAME: &'static str = stringify!($name);
                const PRIORITY: Priority = Priority::$priority;
                fn apply(_: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
                    each(batch, |_| Ok(()))
                }
            }
        };
    }
    command!(Apply Intake);
    command!(Patch Operator);
    command!(Sweep Background);

    #[test]
    fn the_intake_goes_first_and_together() {
        let lanes = Lanes::new(100, 2, Gauge::default());
        let _keep = (lanes.push(Sweep), lanes.push(Sweep), lanes.push(Patch));
        let _people: Vec<_> = (0..3).map(|_| lanes.push(Apply)).collect();
        lanes.close();
        let next = || match lanes.next(None) {
            Next::Commit(slice) => Some((slice.name(), slice.len())),
            Next::Nothing | Next::Closed => None,
        };
        let order: Vec<_> = std::iter::from_fn(next).collect();
        assert_eq!(order, [("Apply", 2), ("Apply", 1), ("Patch", 1), ("Sweep", 1), ("Sweep", 1)]);
    }

    #[test]
    fn silence_is_waited_for_but_not_for_ever() {
        let lanes = Arc::new(Lanes::new(100, 50, Gauge::default()));
        let silence = Silence::new(Arc::clone(&lanes));
        let (taken, groups) = std::sync::mpsc::channel();
        let committer = std::thread::spawn({
            let lanes = Arc::clone(&lanes);
            move || {
                while let Next::Commit(slice) = lanes.next(None) {
                    taken.send(slice.len()).unwrap();
                }
            }
        });
        silence.falls();
        // This thread never rests, and is served all the same.
        for _ in 0..50 {
            let _keep = lanes.push(Apply);
            assert_eq!(groups.recv_timeout(std::time::Duration::from_secs(5)), Ok(1));
        }
        lanes.close();
        committer.join().unwrap();
    }

    #[test]
    fn a_full_queue_refuses_and_keeps_room_for_the_intake() {
        let lanes = Lanes::new(4, 10, Gauge::default());
        let _keep: Vec<_> = (0..2).map(|_| lanes.push(Patch).unwrap()).collect();
        assert_eq!(lanes.push(Patch).unwrap_err(), Fault::Busy);
        let _people: Vec<_> = (0..4).map(|_| lanes.push(Apply).unwrap()).collect();
        assert_eq!(lanes.push(Apply).unwrap_err(), Fault::Busy);
        assert!(matches!(lanes.next(None), Next::Commit(slice) if slice.name() == "Apply"));
        lanes.push(Apply).unwrap();
        lanes.close();
        assert_eq!(lanes.push(Apply).unwrap_err(), Fault::Stopping);
    }
}
