//! The wallet's transactions as the committer runs them, one group at a time, on each engine.

use super::Desk;
use super::begin::Begin;
use super::post::{Post, Posting};
use crate::idempotency::{Begun, EndOverdue, KeyOptions, Keys, Work};
use crate::metrics::EngineMetrics;
use guerdon_core::audit::Actor;
use guerdon_core::idempotency::{KeyName, Scope, StoredAnswer};
use guerdon_core::wallet::{AccountId, Asking, Movement, Order, TransferId, Wish, timed_out};
use guerdon_core::{Currency, IdempotencyKey, Timestamp, UserId};
use guerdon_harness::{TestDatabase, TestEngine};
use guerdon_store::outbox::Publishing;
use guerdon_store::wallet::accounts::{self, Opened};
use guerdon_store::{
    Command, Database, Fault, Priority, Store, StoreMetrics, StoreOptions, Tx, each, idempotency,
};
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const LEASE_MS: i64 = 1_000;

struct Bank {
    store: Store,
    /// The time, which the test sets.
    clock: Arc<AtomicI64>,
    desk: Arc<Desk>,
    ann: AccountId,
    bob: AccountId,
    database: TestDatabase,
}

/// Runs in the committer whatever a test wants to run there.
struct Run<F>(F);

impl<T: Send + 'static, F: Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + Sync + 'static> Command for Run<F> {
    type Output = T;
    const NAME: &'static str = "run";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<T>, Fault> {
        each(batch, |run| run.0(tx))
    }
}

fn key(text: &str) -> KeyName {
    KeyName {
        key: IdempotencyKey::parse(text).unwrap(),
        client: UserId::parse("ann").unwrap(),
        scope: Scope::Transfer,
    }
}

impl Bank {
    /// Ann with 100, Bob with nothing, and some keys for Ann.
    fn open(engine: TestEngine) -> Self {
        let database = TestDatabase::new(engine);
        let mut registry = Registry::default();
        let (store_metrics, metrics) =
            (StoreMetrics::register(&mut registry), EngineMetrics::register(&mut registry));
        let clock = Arc::new(AtomicI64::new(1_000_000));
        let now = Arc::clone(&clock);
        let store = Store::open(
            &Database::parse(&database.url).unwrap(),
            &StoreOptions::default(),
            &store_metrics,
            move || Timestamp::from_millis(now.load(Ordering::SeqCst)),
        );
        let options = KeyOptions {
            ttl: Duration::from_mins(20),
            lease: Duration::from_secs(1),
            watchdog_interval: Duration::from_mins(1),
            render: |rejection, _| StoredAnswer { status: 422, body: rejection.code.as_str().into() },
        };
        let desk = Arc::new(Desk::new(Arc::new(Keys::new(options, metrics, timed_out)), Publishing::Nobody));
        let mut bank = Self {
            store: store.unwrap(),
            clock,
            desk,
            ann: AccountId::new(0),
            bob: AccountId::new(0),
            database,
        };
        let open = |owner: &'static str| {
            bank.run(Run(move |tx: &mut Tx<'_>| {
                let (owner, currency) = (UserId::parse(owner).unwrap(), Currency::parse("KRW").unwrap());
                match accounts::open(tx, &owner, &currency, None)? {
                    Opened::New(account) => Ok(account.id),
                    _ => Err(Fault::Inconsistent("it is new".into())),
                }
            }))
        };
        (bank.ann, bank.bob) = (open("ann"), open("bob"));
        let account = bank.table("core.account");
        bank.database.sql().run(&format!("UPDATE {account} SET balance = 100 WHERE owner_id = 'ann'"));
        bank.run(Run(|tx: &mut Tx<'_>| {
            let names = ["k1", "k2", "k3"].map(key);
            idempotency::issue(tx, &names.iter().collect::<Vec<_>>(), Timestamp::from_millis(9_000_000))
        }));
        bank
    }

    fn table(&self, name: &str) -> String {
        self.database.sql().table(name)
    }

    fn run<C: Command>(&self, command: C) -> C::Output {
        self.store.submit(command).unwrap().blocking_recv().unwrap().unwrap()
    }

    /// Runs commands of one kind as one group.
    fn group<C: Command>(&self, commands: Vec<C>) -> Vec<C::Output> {
        let commands = Arc::new(commands);
        self.run(Run(move |tx: &mut Tx<'_>| C::apply(tx, &commands)))
    }

    fn begin(&self, name: &KeyName, amount: &str, resource: u8) -> Begin {
        Begin {
            name: name.clone(),
            wish: Wish::Transfer(Order { from: self.ann, to: self.bob, amount: amount.parse().unwrap() }),
            asking: Asking { user: name.client.clone(), operates: false },
            resource: [resource; 16],
            lease_ms: LEASE_MS,
        }
    }

    fn post(&self, name: &KeyName, work: &Work<Movement>) -> Post {
        Post {
            name: name.clone(),
            epoch: work.epoch,
            started_at: work.started_at,
            id: TransferId::from_bytes(work.resource),
            kind: guerdon_core::wallet::TransferKind::Transfer,
            movement: work.plan,
            operates: false,
            actor: Actor::itself(),
            desk: Arc::clone(&self.desk),
            trace: None,
        }
    }

    fn balance(&self, id: AccountId) -> i64 {
        let account = self.table("core.account");
        self.database
            .sql()
            .number(&format!("SELECT balance FROM {account} WHERE account_id = {}", id.number()))
    }
}

fn work(begun: &Begun<Movement>) -> Work<Movement> {
    match begun {
        Begun::Work(work) => work.clone(),
        other => panic!("{other:?}"),
    }
}

fn answer(posting: &Posting) -> Option<String> {
    match posting {
        Posting::Done(done) => Some(done.answer.body.to_string()),
        Posting::LeftOut => None,
    }
}

macro_rules! on_every_engine {
    ($($name:ident)+) => {
        mod sqlite { $(#[test] fn $name() { super::$name(&super::Bank::open(super::TestEngine::Sqlite)); })+ }
        mod postgres { $(#[test] fn $name() { super::$name(&super::Bank::open(super::TestEngine::Postgres)); })+ }
    };
}

on_every_engine! {
    a_tick_of_the_watchdog_in_the_middle_of_a_group
    the_watchdog_never_wins_against_a_transfer
    a_slow_worker_cannot_finish_what_was_taken_over
    the_same_key_several_times_in_one_group
    a_crowd_with_one_key_that_makes_no_sense
    two_epochs_in_one_group
    one_failure_in_a_group
}

/// Three are claimed, the second has run out of time when the watchdog comes by, and then the group is posted.
fn a_tick_of_the_watchdog_in_the_middle_of_a_group(bank: &Bank) {
    let names = ["k1", "k2", "k3"].map(key);
    let mut works = vec![work(&bank.run(bank.begin(&names[1], "20", 2)))];
    bank.clock.fetch_add(LEASE_MS - 1, Ordering::SeqCst);
    works.insert(0, work(&bank.run(bank.begin(&names[0], "10", 1))));
    works.push(work(&bank.run(bank.begin(&names[2], "30", 3))));
    bank.clock.fetch_add(1, Ordering::SeqCst);
    let ended = bank.run(EndOverdue(Arc::clone(&bank.desk.keys)));
    assert_eq!(ended.iter().map(|(overdue, _)| overdue.name.key.as_str()).collect::<Vec<_>>(), ["k2"]);

    let posts = names.iter().zip(&works).map(|(name, work)| bank.post(name, work)).collect();
    let outcomes: Vec<_> = bank.group(posts).iter().map(answer).collect();
    assert!(outcomes[0].is_some() && outcomes[1].is_none() && outcomes[2].is_some(), "{outcomes:?}");
    assert_eq!((bank.balance(bank.ann), bank.balance(bank.bob)), (60, 40), "20 was left out whole");
    match bank.run(bank.begin(&names[1], "20", 9)) {
        Begun::Replay(answer) => assert_eq!(&*answer.body, "TIMEOUT"),
        other => panic!("{other:?}"),
    }
}

fn the_watchdog_never_wins_against_a_transfer(bank: &Bank) {
    let name = key("k1");
    let began = work(&bank.run(bank.begin(&name, "10", 1)));
    bank.clock.fetch_add(LEASE_MS * 10, Ordering::SeqCst);
    // Late, and before the watchdog: it counts.
    let done = answer(&bank.run(bank.post(&name, &began))).unwrap();
    assert!(bank.run(EndOverdue(Arc::clone(&bank.desk.keys))).is_empty());
    match bank.run(bank.begin(&name, "10", 9)) {
        Begun::Replay(answer) => assert_eq!(*answer.body, *done),
        other => panic!("{other:?}"),
    }
    assert_eq!(bank.balance(bank.ann), 90);
    assert!(answer(&bank.run(bank.post(&name, &began))).is_none(), "nor is it made twice");
    assert_eq!(bank.balance(bank.ann), 90);
}

fn a_slow_worker_cannot_finish_what_was_taken_over(bank: &Bank) {
    // A client's own key: whoever brings it once its lease is over goes on.
    let name = KeyName { scope: Scope::Deposit, ..key("order-1") };
    let slow = work(&bank.run(bank.begin(&name, "10", 1)));
    assert!(matches!(bank.run(bank.begin(&name, "10", 2)), Begun::Wait));
    bank.clock.fetch_add(LEASE_MS, Ordering::SeqCst);
    assert!(bank.run(EndOverdue(Arc::clone(&bank.desk.keys))).is_empty(), "the watchdog leaves it alone");
    let quick = work(&bank.run(bank.begin(&name, "10", 3)));
    assert_eq!((slow.epoch, quick.epoch), (1, 2));
    assert_eq!(slow.resource, quick.resource, "what they make is the same thing");
    assert!(answer(&bank.run(bank.post(&name, &slow))).is_none());
    assert_eq!(bank.balance(bank.bob), 0);
    assert!(answer(&bank.run(bank.post(&name, &quick))).is_some());
    assert!(answer(&bank.run(bank.post(&name, &slow))).is_none());
    assert_eq!(bank.balance(bank.bob), 10);
}

fn the_same_key_several_times_in_one_group(bank: &Bank) {
    let (one, new) = (key("k1"), KeyName { scope: Scope::Deposit, ..key("order-1") });
    let calls =
        [(&one, "10"), (&new, "5"), (&one, "10"), (&one, "11"), (&new, "5"), (&new, "6"), (&key("k9"), "1")]
            .iter()
            .map(|(name, amount)| bank.begin(name, amount, 1))
            .collect();
    let outcomes: Vec<_> = bank
        .group(calls)
        .into_iter()
        .map(|begun| match begun {
            Begun::Work(_) => "work",
            Begun::Wait => "wait",
            Begun::Replay(_) => "replay",
            Begun::Refused(rejection) => rejection.code.as_str(),
        })
        .collect();
    let mismatch = "IDEMPOTENCY_HASH_MISMATCH";
    let unknown = "IDEMPOTENCY_KEY_NOT_FOUND";
    assert_eq!(outcomes, ["work", "work", "wait", mismatch, "wait", mismatch, unknown]);
}

/// Everybody is told why at once, and nobody else in the group is held up by it.
fn a_crowd_with_one_key_that_makes_no_sense(bank: &Bank) {
    let (odd, sound) = (KeyName { scope: Scope::Deposit, ..key("odd") }, key("k1"));
    let mut calls: Vec<_> = (0..40).map(|_| bank.begin(&odd, "0.5", 1)).collect();
    calls.insert(20, bank.begin(&sound, "10", 2));
    let outcomes = bank.group(calls);
    let refused = outcomes.iter().filter(
        |begun| matches!(begun, Begun::Refused(rejection) if rejection.code.as_str() == "INVALID_FIELDS"),
    );
    assert_eq!(refused.count(), 40);
    assert!(matches!(outcomes[20], Begun::Work(_)));
}

/// A worker that comes back in the very group of the one that took over: it is told apart by its epoch.
fn two_epochs_in_one_group(bank: &Bank) {
    let name = KeyName { scope: Scope::Deposit, ..key("order-1") };
    let slow = work(&bank.run(bank.begin(&name, "60", 1)));
    bank.clock.fetch_add(LEASE_MS, Ordering::SeqCst);
    let quick = work(&bank.run(bank.begin(&name, "60", 2)));
    let outcomes = bank.group(vec![bank.post(&name, &slow), bank.post(&name, &quick)]);
    assert!(answer(&outcomes[0]).is_none());
    assert!(answer(&outcomes[1]).unwrap().contains("SUCCEEDED"));
    assert_eq!((bank.balance(bank.ann), bank.balance(bank.bob)), (40, 60));
}

/// Whoever comes after one that failed is not held up by it, and each account is written as all of them left it.
fn one_failure_in_a_group(bank: &Bank) {
    let names = ["k1", "k2", "k3"].map(key);
    let works: Vec<_> = names
        .iter()
        .zip([("60", 1), ("50", 2), ("40", 3)])
        .map(|(name, (amount, resource))| work(&bank.run(bank.begin(name, amount, resource))))
        .collect();
    let posts = names.iter().zip(&works).map(|(name, work)| bank.post(name, work)).collect();
    let outcomes: Vec<_> = bank.group(posts).iter().map(|posting| answer(posting).unwrap()).collect();
    assert!(outcomes[0].contains("SUCCEEDED") && outcomes[2].contains("SUCCEEDED"));
    assert_eq!(outcomes[1], "INSUFFICIENT_BALANCE");
    assert_eq!((bank.balance(bank.ann), bank.balance(bank.bob)), (0, 100));
    match bank.run(bank.begin(&names[1], "50", 9)) {
        Begun::Replay(answer) => assert_eq!(&*answer.body, "INSUFFICIENT_BALANCE"),
        other => panic!("{other:?}"),
    }
}
