//! A database with a table to try things on, and commands that write to it.

use guerdon_core::Timestamp;
use guerdon_harness::{TestDatabase, TestEngine};
use guerdon_store::{
    Command, Database, Fault, Pending, Priority, Statement, Store, StoreMetrics, StoreOptions, Tx, each,
};
use prometheus_client::registry::Registry;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

pub const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

pub struct Fixture {
    pub database: TestDatabase,
}

pub struct Opened {
    pub store: Store,
    registry: Registry,
}

impl Fixture {
    pub fn new(engine: TestEngine) -> Self {
        Self { database: TestDatabase::new(engine) }
    }

    pub fn address(&self) -> Database {
        Database::parse(&self.database.url).unwrap()
    }

    pub fn open(&self) -> Opened {
        self.open_with(&StoreOptions::default())
    }

    /// A second store on the same database stands for a second process; only PostgreSQL allows it.
    pub fn open_with(&self, options: &StoreOptions) -> Opened {
        let mut registry = Registry::default();
        let metrics = StoreMetrics::register(&mut registry);
        let store = Store::open(&self.address(), options, &metrics, || NOW).unwrap();
        self.database.sql().run(
            "CREATE TABLE IF NOT EXISTS probe (id BIGINT NOT NULL PRIMARY KEY, value BIGINT NOT NULL CHECK (value >= 0))",
        );
        Opened { store, registry }
    }

    pub fn count(&self) -> i64 {
        self.database.sql().number("SELECT COUNT(*) FROM probe")
    }
}

impl Opened {
    pub fn run<C: Command>(&self, command: C) -> Result<C::Output, Fault> {
        wait(self.store.submit(command).unwrap())
    }

    pub fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let prefix = format!("guerdon_store_{name}");
        let line = text.lines().find(|line| line.starts_with(&prefix) && !line.starts_with('#'));
        line.and_then(|line| line.rsplit_once(' ')).map_or(0, |(_, value)| value.parse().unwrap())
    }

    /// Keeps the committer busy, so that what is submitted meanwhile forms one group.
    pub fn hold(&self) -> Held {
        let (entered, is_in) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let hold = Hold { entered, released: Arc::new(Mutex::new(released)) };
        let pending = self.store.submit(hold).unwrap();
        is_in.recv().unwrap();
        Held { release, pending }
    }
}

pub fn wait<T>(pending: Pending<T>) -> Result<T, Fault> {
    pending.blocking_recv().expect("every command is answered")
}

pub struct Held {
    release: mpsc::Sender<()>,
    pending: Pending<()>,
}

impl Held {
    pub fn release(self) {
        self.release.send(()).unwrap();
        wait(self.pending).unwrap();
    }
}

struct Hold {
    entered: mpsc::Sender<()>,
    released: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Command for Hold {
    type Output = ();
    const NAME: &'static str = "hold";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(_: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |hold| {
            let _ = hold.entered.send(());
            let _ = hold.released.lock().unwrap().recv();
            Ok(())
        })
    }
}

static INSERT: Statement = Statement::portable("INSERT INTO probe (id, value) VALUES ($1, $2)");
static ADD: Statement = Statement::portable(
    "INSERT INTO probe (id, value) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET value = probe.value + excluded.value",
);
static TAKE: Statement =
    Statement::portable("UPDATE probe SET value = value - 1 WHERE id = $1 AND value >= 1");
pub static COUNT: Statement = Statement::portable("SELECT CAST(COUNT(*) AS BIGINT) FROM probe");

/// Inserts a row and, where `then` says so, fails after that.
pub struct Insert {
    pub id: i64,
    pub value: i64,
    pub then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Succeed,
    Fail,
    Panic,
}

impl Insert {
    pub fn row(id: i64) -> Self {
        Self { id, value: 1, then: Then::Succeed }
    }
}

impl Command for Insert {
    type Output = i64;
    const NAME: &'static str = "insert";
    const PRIORITY: Priority = Priority::Intake;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<i64>, Fault> {
        each(batch, |insert| {
            tx.execute(&INSERT, &[insert.id.into(), insert.value.into()])?;
            match insert.then {
                Then::Succeed => Ok(insert.id),
                Then::Fail => Err(Fault::Inconsistent("as the test wants it".into())),
                Then::Panic => panic!("as the test wants it"),
            }
        })
    }
}

/// Adds one to each of some rows, in the order given or sorted as every part of the product does it.
pub struct AddAll {
    pub ids: Vec<i64>,
    pub sorted: bool,
}

impl Command for AddAll {
    type Output = ();
    const NAME: &'static str = "add_all";
    const PRIORITY: Priority = Priority::Intake;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        let mut ids: Vec<_> = batch.iter().flat_map(|add| add.ids.iter().copied()).collect();
        if batch.iter().all(|add| add.sorted) {
            ids.sort_unstable();
        }
        for id in ids {
            tx.execute(&ADD, &[id.into(), 1.into()])?;
        }
        each(batch, |_| Ok(()))
    }
}

/// Takes one from a row's value; false when nothing is left.
pub struct Take(pub i64);

impl Command for Take {
    type Output = bool;
    const NAME: &'static str = "take";
    const PRIORITY: Priority = Priority::Intake;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<bool>, Fault> {
        each(batch, |take| Ok(tx.execute(&TAKE, &[take.0.into()])? == 1))
    }
}

/// Inserts many rows in one background transaction.
pub struct Bulk(pub i64);

impl Command for Bulk {
    type Output = ();
    const NAME: &'static str = "bulk";
    const PRIORITY: Priority = Priority::Background;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<()>, Fault> {
        each(batch, |bulk| {
            for id in 0..bulk.0 {
                tx.execute(&INSERT, &[id.into(), 1.into()])?;
            }
            Ok(())
        })
    }
}
