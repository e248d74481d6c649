//! Real brokers, killed and brought back; the publisher and the consumer killed between any two of their steps.

use crate::publishing::{assert_in_order, ids, written};
use crate::support::{BINARY, as_user, open_drop, operator};
use guerdon_harness::api::drop_body;
use guerdon_harness::{
    BrokerKind, ConsumerProcess, Hook, Observer, OwnBroker, Server, ServerOptions, TestDatabase, TestEngine,
    until,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(3);
/// How much load is given at a time: what comes while a broker is away has to be worked off in the end.
const LOAD: usize = 400;

mod rabbitmq {
    use guerdon_harness::{BrokerKind::RabbitMq, TestEngine};

    #[test]
    fn a_broker_that_dies_under_load() {
        super::a_broker_that_dies_under_load(RabbitMq, TestEngine::Sqlite);
    }

    #[test]
    fn a_publisher_that_dies_before_it_notes() {
        super::a_publisher_that_dies_before_it_notes(RabbitMq, TestEngine::Sqlite);
    }

    #[test]
    fn a_consumer_that_dies_before_it_records() {
        super::a_consumer_that_dies_before_it_records(RabbitMq, TestEngine::Sqlite);
    }

    #[test]
    fn what_nobody_can_handle_is_put_aside() {
        super::what_nobody_can_handle_is_put_aside(RabbitMq);
    }

    #[test]
    fn a_consumer_that_is_stopped_half_way() {
        super::a_consumer_that_is_stopped_half_way(RabbitMq);
    }

    #[test]
    fn a_consumer_wants_a_database_of_its_own() {
        super::a_consumer_wants_a_database_of_its_own();
    }
}

mod kafka {
    use guerdon_harness::{BrokerKind::Kafka, TestEngine};

    mod on_postgres {
        use super::{Kafka, TestEngine};

        #[test]
        fn a_broker_that_dies_under_load() {
            super::super::a_broker_that_dies_under_load(Kafka, TestEngine::Postgres);
        }

        #[test]
        fn a_publisher_that_dies_before_it_notes() {
            super::super::a_publisher_that_dies_before_it_notes(Kafka, TestEngine::Postgres);
        }

        #[test]
        fn a_consumer_that_dies_before_it_records() {
            super::super::a_consumer_that_dies_before_it_records(Kafka, TestEngine::Postgres);
        }
    }

    #[test]
    fn what_nobody_can_handle_is_put_aside() {
        super::what_nobody_can_handle_is_put_aside(Kafka);
    }

    #[test]
    fn a_consumer_that_is_stopped_half_way() {
        super::a_consumer_that_is_stopped_half_way(Kafka);
    }
}

/// A server that publishes to a topic.
fn serve(database: &TestDatabase, kind: BrokerKind, url: &str, topic: &str) -> Server {
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_OUTBOX__SINK", kind.name())
        .with("GUERDON_OUTBOX__URL", url)
        .with("GUERDON_OUTBOX__TOPIC", topic)
        .with("GUERDON_OUTBOX__LEASE", "2s");
    Server::start(BINARY, &options)
}

/// Tells the load to stop, however its scope is left.
pub(crate) struct StopAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A topic that no other test has.
pub(crate) fn topic() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let process = std::process::id();
    format!("guerdon.test.{process}.{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

fn open_and_close(server: &Server, id: &str) {
    let api = operator(server);
    api.post("/v1/admin/events", &drop_body(id)).expect(201);
    for step in ["open", "close"] {
        api.post(&format!("/v1/admin/events/{id}/{step}"), &json!({})).expect(200);
    }
}

/// How often each event had an effect in the consumer's store.
fn effects(database: &TestDatabase) -> BTreeMap<String, usize> {
    let mut sql = database.sql();
    let table = sql.table("integration.notifications");
    let mut effects = BTreeMap::new();
    for id in sql.texts(&format!("SELECT event_id FROM {table}")) {
        *effects.entry(id).or_default() += 1;
    }
    effects
}

fn until_each_had_its_effect(outbox: &TestDatabase, consumer: &TestDatabase) {
    let (mut outbox_sql, mut consumer_sql) = (outbox.sql(), consumer.sql());
    let (messages, table) =
        (outbox_sql.table("integration.outbox_events"), consumer_sql.table("integration.notifications"));
    until("everything to have its effect", PATIENCE, || {
        let written = outbox_sql.number(&format!("SELECT COUNT(*) FROM {messages} WHERE channel = 'broker'"));
        let had = consumer_sql.number(&format!("SELECT COUNT(DISTINCT event_id) FROM {table}"));
        (had >= written).then_some(())
    });
    let effects = effects(consumer);
    assert_eq!(effects.keys().cloned().collect::<std::collections::BTreeSet<_>>(), written(outbox));
    let again: Vec<_> = effects.iter().filter(|(_, times)| **times != 1).collect();
    assert!(again.is_empty(), "more than once: {again:?}");
}

/// Waits until the broker has confirmed everything: then each of its queues has it, whoever has consumed it before.
fn until_all_confirmed(outbox: &TestDatabase) {
    let mut sql = outbox.sql();
    let messages = sql.table("integration.outbox_events");
    let unsent = format!("SELECT COUNT(*) FROM {messages} WHERE channel = 'broker' AND status <> 'SENT'");
    until("everything to be confirmed", PATIENCE, || (sql.number(&unsent) == 0).then_some(()));
}

/// A hook that keeps its callers waiting while it is shut.
fn shut(hook: &Hook) -> Arc<(Mutex<bool>, Condvar)> {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = Arc::clone(&gate);
    hook.answer(move |_| {
        drop(waits.1.wait_while(waits.0.lock().unwrap(), |open| !*open).unwrap());
        (204, Vec::new())
    });
    gate
}

fn open(gate: &(Mutex<bool>, Condvar)) {
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
}

fn a_broker_that_dies_under_load(kind: BrokerKind, engine: TestEngine) {
    let mut broker = OwnBroker::start(kind);
    let (url, topic) = (broker.url(), topic());
    let observer = Observer::of(kind, &url, &topic);
    let (database, store) = (TestDatabase::new(engine), TestDatabase::new(engine));
    let server = serve(&database, kind, &url, &topic);
    let hook = Hook::start();
    let hook_url = hook.url();
    let notify =
        [("GUERDON_CONSUME__HANDLER", "webhook"), ("GUERDON_CONSUME__WEBHOOK_URL", hook_url.as_str())];
    let consumer = ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &notify);
    open_drop(&operator(&server), "drop", 100);
    let stop = AtomicBool::new(false);
    let (sent, allowed) = (AtomicUsize::new(0), AtomicUsize::new(LOAD));
    std::thread::scope(|scope| {
        let (server, stop, sent, allowed) = (&server, &stop, &sent, &allowed);
        let load = scope.spawn(move || {
            let mut number = 0;
            let goes_on = |number: usize| {
                until("leave to go on, or to stop", PATIENCE * 2, || {
                    let stopped = stop.load(Ordering::Relaxed);
                    (stopped || number < allowed.load(Ordering::Relaxed)).then_some(!stopped)
                })
            };
            while goes_on(number) {
                // The API never fails for the broker's sake.
                as_user(server, number).post("/v1/events/drop/requests", &json!({})).expect(202);
                if number % 20 == 0 {
                    open_and_close(server, &format!("e_{number}"));
                }
                number += 1;
                sent.store(number, Ordering::Relaxed);
            }
        });
        let more = || {
            let now = sent.load(Ordering::Relaxed);
            allowed.store(now + LOAD, Ordering::Relaxed);
            now
        };
        let go_on = |count: usize| {
            let now = more();
            until("some load", PATIENCE, || (sent.load(Ordering::Relaxed) > now + count).then_some(()));
        };
        // The load ends also with a test that fails: what it was given is waited for.
        let _ends = StopAtEnd(stop);
        until("the first to be handled", PATIENCE, || (hook.count() > 0).then_some(()));
        for queue in [&topic, &format!("{topic}.dead"), &observer.queue()] {
            broker.until_kept(queue);
        }
        for _ in 0..2 {
            go_on(100);
            broker.kill();
            go_on(200);
            broker.restart();
            let before = hook.count();
            more();
            until("it to flow again", PATIENCE, || (hook.count() > before + 50).then_some(()));
        }
        stop.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    until_each_had_its_effect(&database, &store);
    // One that the broker died over may be in the consumer's queue, and not in the observer's yet.
    until_all_confirmed(&database);
    let seen = observer.all();
    assert_eq!(ids(&seen), written(&database), "as read from the broker");
    assert_in_order(&seen);
    let notified: Vec<_> = hook.calls().iter().map(|call| call.headers["webhook-id"].clone()).collect();
    assert!(notified.len() >= effects(&store).len());

    // Handled and recorded, but the acknowledgement is lost, and then the consumer with it.
    let gate = shut(&hook);
    let handled = effects(&store).len();
    open_and_close(&server, "last");
    until("the handler to be called", PATIENCE, || (hook.waiting() > 0).then_some(()));
    broker.kill();
    open(&gate);
    until("it to be recorded", PATIENCE, || (effects(&store).len() > handled).then_some(()));
    consumer.kill();
    broker.restart();
    hook.answer_all(204);
    let consumer = ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &notify);
    until_each_had_its_effect(&database, &store);
    let (code, log) = consumer.stop();
    assert_eq!(code, Some(0), "{log}");
    crate::invariants::check_lines(&database);
}

fn a_publisher_that_dies_before_it_notes(kind: BrokerKind, engine: TestEngine) {
    let (url, topic) = (kind.shared_url(), topic());
    let observer = Observer::of(kind, &url, &topic);
    let (database, store) = (TestDatabase::new(engine), TestDatabase::new(TestEngine::Sqlite));
    let server = serve(&database, kind, &url, &topic);
    for id in ["a", "b"] {
        open_and_close(&server, id);
    }
    until("these to be noted", PATIENCE, || {
        (server.api().metric("guerdon_outbox_published_total") > 3.5).then_some(())
    });
    // Published and confirmed; that it was cannot be written down.
    database.sql().refuse_changes("integration.outbox_events");
    for id in ["c", "d"] {
        open_and_close(&server, id);
    }
    until("some to be published", PATIENCE, || {
        (server.api().metric("guerdon_outbox_published_total") > 4.5).then_some(())
    });
    let published = observer.all().len();
    assert!(published >= 5, "{published}");
    // However often that fails, nothing is published again by the one who knows.
    until("it to be tried", PATIENCE, || {
        server.log_text().contains("messages are published later").then_some(())
    });
    let unnoted = observer.all();
    assert_eq!(unnoted.len(), ids(&unnoted).len(), "none twice");
    server.kill();
    database.sql().allow_rows("integration.outbox_events");
    let server = serve(&database, kind, &url, &topic);
    let consumer = ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &[]);
    until_each_had_its_effect(&database, &store);
    let seen = observer.all();
    assert_eq!(ids(&seen), written(&database));
    assert!(seen.len() > ids(&seen).len(), "what was not noted was published again");
    assert_in_order(&seen);
    let (code, log) = consumer.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("stopped handled=8"), "{log}");
    assert_eq!(server.stop(), Some(0));
    crate::invariants::check_lines(&database);
}

fn a_consumer_that_dies_before_it_records(kind: BrokerKind, engine: TestEngine) {
    let (url, topic) = (kind.shared_url(), topic());
    let (database, store) = (TestDatabase::new(TestEngine::Sqlite), TestDatabase::new(engine));
    let server = serve(&database, kind, &url, &topic);
    let hook = Hook::start();
    let hook_url = hook.url();
    let notify =
        [("GUERDON_CONSUME__HANDLER", "webhook"), ("GUERDON_CONSUME__WEBHOOK_URL", hook_url.as_str())];
    // Once, for its tables to be there.
    ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &notify).stop();
    store.sql().refuse_rows("integration.notifications");
    let consumer = ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &notify);
    open_and_close(&server, "a");
    until("one to be handled", PATIENCE, || (hook.count() > 0).then_some(()));
    until("recording to fail twice", PATIENCE, || {
        (consumer.log_text().matches("could not be recorded").count() >= 2).then_some(())
    });
    assert!(effects(&store).is_empty());
    let handled = ids(&hook.taken());
    assert_eq!(
        hook.calls().len(),
        handled.len(),
        "what was handled is not handled again by the one who knows"
    );
    consumer.kill();
    store.sql().allow_rows("integration.notifications");
    let consumer = ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &notify);
    until_each_had_its_effect(&database, &store);
    // Nobody outside can be told once in such a crash; but by the id they know.
    for id in written(&database) {
        let calls = hook.calls().iter().filter(|call| call.headers["webhook-id"] == id).count();
        assert_eq!(calls, if handled.contains(&id) { 2 } else { 1 }, "{id}");
    }
    assert_eq!(consumer.stop().0, Some(0));
}

fn what_nobody_can_handle_is_put_aside(kind: BrokerKind) {
    let (url, topic) = (kind.shared_url(), topic());
    let observer = Observer::of(kind, &url, &topic);
    let (database, store) = (TestDatabase::new(TestEngine::Sqlite), TestDatabase::new(TestEngine::Sqlite));
    let server = serve(&database, kind, &url, &topic);
    let hook = Hook::start();
    let bad = |event: &Value| event["subject"] == "bad" && event["type"] == "EVENT_CLOSED";
    hook.answer(move |call| (if bad(&call.json()) { 400 } else { 204 }, Vec::new()));
    let hook_url = hook.url();
    let notify = [
        ("GUERDON_CONSUME__HANDLER", "webhook"),
        ("GUERDON_CONSUME__WEBHOOK_URL", hook_url.as_str()),
        ("GUERDON_CONSUME__MAX_ATTEMPTS", "3"),
    ];
    let consumer = ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &notify);
    observer.inject(b"this is no envelope");
    open_and_close(&server, "bad");
    open_and_close(&server, "good");
    let dead =
        until("two to be put aside", PATIENCE, || Some(observer.dead()).filter(|dead| dead.len() == 2));
    assert!(dead.contains(&Value::String("this is no envelope".into())), "{dead:?}");
    assert!(dead.iter().any(bad), "{dead:?}");
    until("the rest to have its effect", PATIENCE, || (effects(&store).len() == 3).then_some(()));
    assert_eq!(hook.calls().iter().filter(|call| bad(&call.json())).count(), 3, "its limit");
    let (code, log) = consumer.stop();
    assert_eq!(code, Some(0));
    assert!(log.contains("stopped handled=3 again=0 dead=2"), "{log}");
}

/// What was not handled when it was asked to stop is not acknowledged, whatever came after it and was.
fn a_consumer_that_is_stopped_half_way(kind: BrokerKind) {
    let (url, topic) = (kind.shared_url(), topic());
    let (database, store) = (TestDatabase::new(TestEngine::Sqlite), TestDatabase::new(TestEngine::Sqlite));
    let server = serve(&database, kind, &url, &topic);
    let hook = Hook::start();
    let bad = |event: &Value| event["subject"].as_str().is_some_and(|subject| subject.ends_with("bad"));
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let waits = Arc::clone(&gate);
    hook.answer(move |call| {
        drop(waits.1.wait_while(waits.0.lock().unwrap(), |open| !*open).unwrap());
        (if bad(&call.json()) { 400 } else { 204 }, Vec::new())
    });
    let hook_url = hook.url();
    let notify = [
        ("GUERDON_CONSUME__HANDLER", "webhook"),
        ("GUERDON_CONSUME__WEBHOOK_URL", hook_url.as_str()),
        ("GUERDON_CONSUME__MAX_ATTEMPTS", "1000"),
    ];
    let consumer = ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &notify);
    // While it is at the first one, good and bad pile up, in whatever partition they are.
    open_and_close(&server, "first");
    until("it to be at the first", PATIENCE, || (hook.waiting() > 0).then_some(()));
    for number in 0..12 {
        open_and_close(&server, &format!("{number}_bad"));
        open_and_close(&server, &format!("{number}_good"));
    }
    until("all to be published", PATIENCE, || {
        (server.api().metric("guerdon_outbox_published_total") > 49.5).then_some(())
    });
    open(&gate);
    until("good and bad to be handled", PATIENCE, || {
        let calls = hook.calls();
        let tried = calls.iter().filter(|call| bad(&call.json())).count();
        (tried > 2 && calls.len() - tried > 2).then_some(())
    });
    let (code, log) = consumer.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("dead=0"), "{log}");
    hook.answer_all(204);
    let consumer = ConsumerProcess::start(BINARY, kind, &url, &topic, &store.url, &notify);
    until_each_had_its_effect(&database, &store);
    assert_eq!(consumer.stop().0, Some(0));
}

fn a_consumer_wants_a_database_of_its_own() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let _server = Server::start(BINARY, &ServerOptions::on(&database.url));
    let refused = std::process::Command::new(BINARY)
        .arg("consume")
        .env("GUERDON_CONSUME__URL", BrokerKind::RabbitMq.shared_url())
        .env("GUERDON_CONSUME__DATABASE", &database.url)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("being served") || said.contains("served by"), "{said}");
}
