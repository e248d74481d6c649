//! Transactions that are held open on PostgreSQL: no acknowledged request is left out, no order is broken, and nobody
//! waits for a stranger.

use crate::invariants;
use crate::support::{BINARY, operator, token};
use guerdon_harness::proxy::Cut;
use guerdon_harness::{Answer, Proxy, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::json;
use std::time::Duration;

/// Two servers on one database; the first one's way there leads through a proxy.
struct Held {
    database: TestDatabase,
    proxy: Proxy,
    slow: Server,
    other: Server,
}

impl Held {
    fn start() -> Self {
        let database = TestDatabase::new(TestEngine::Postgres);
        let address = database.url.split('@').nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        let proxy = Proxy::start(address.parse().unwrap());
        let slow = Server::start(BINARY, &ServerOptions::on(&proxy.url(&database.url)));
        let other = Server::start(BINARY, &ServerOptions::on(&database.url));
        let body = json!({"eventId": "drop_1", "name": "D", "type": "FIRST_COME", "startsAt": 0,
            "endsAt": 4_000_000_000_000_i64, "capacityTotal": 2});
        operator(&other).post("/v1/admin/events", &body).expect(201);
        operator(&other).post("/v1/admin/events/drop_1/open", &json!({})).expect(200);
        Self { database, proxy, slow, other }
    }

    fn apply(server: &Server, user: &str) -> Answer {
        server.api().with_token(&token(user, "USER")).post("/v1/events/drop_1/requests", &json!({}))
    }

    fn until_held(&self) {
        until("the commit to be held", Duration::from_secs(5), || (self.proxy.cuts() == 1).then_some(()));
    }

    fn until_somebody_waits(&self) {
        until("somebody to wait for the line", Duration::from_secs(5), || {
            let waiting = "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
            (self.database.sql().number(waiting) > 0).then_some(())
        });
    }
}

#[test]
fn postgres_an_acceptance_stalls_before_its_commit_while_the_event_is_closed() {
    let held = Held::start();
    held.proxy.arm(Cut::Hold, "u-1");
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| Held::apply(&held.slow, "u-1"));
        held.until_held();
        let closing = scope.spawn(|| operator(&held.other).post("/v1/admin/events/drop_1/close", &json!({})));
        held.until_somebody_waits();
        assert!(!closing.is_finished(), "the close waits for whoever is on their way in");
        held.proxy.let_go();
        let accepted = stalled.join().unwrap().expect(202).json();
        assert_eq!((&accepted["position"], &accepted["resultCode"]), (&json!(1), &json!("SUCCESS")));
        closing.join().unwrap().expect(200);
    });
    assert_eq!(Held::apply(&held.slow, "u-2").expect(409).code(), "EVENT_NOT_OPEN");
    assert_eq!(held.database.sql().number("SELECT COUNT(*) FROM requests"), 1);
    invariants::check_lines(&held.database);
}

#[test]
fn postgres_an_acceptance_that_stalls_for_good_is_ended_and_the_event_closes() {
    let held = Held::start();
    held.proxy.arm(Cut::Hold, "u-1");
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| Held::apply(&held.slow, "u-1"));
        held.until_held();
        // The database ends a transaction that does nothing; the close comes through or can be tried again.
        until("the event to close", Duration::from_secs(20), || {
            let answer = operator(&held.other).post("/v1/admin/events/drop_1/close", &json!({}));
            assert!(matches!(answer.status, 200 | 503), "{}", answer.text);
            (answer.status == 200).then_some(())
        });
        held.proxy.let_go();
        let answer = stalled.join().unwrap();
        assert_ne!(answer.status, 202, "it is not in line, and is not told so: {}", answer.text);
    });
    assert_eq!(held.database.sql().number("SELECT COUNT(*) FROM requests"), 0);
    assert_eq!(Held::apply(&held.slow, "u-1").expect(409).code(), "EVENT_NOT_OPEN");
    invariants::check_lines(&held.database);
}

#[test]
fn postgres_an_acceptance_stalls_while_later_ones_want_to_be_decided() {
    let held = Held::start();
    held.proxy.arm(Cut::Hold, "u-1");
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| Held::apply(&held.slow, "u-1"));
        held.until_held();
        let later: Vec<_> = (2..6)
            .map(|number| {
                let server = &held.other;
                scope.spawn(move || Held::apply(server, &format!("u-{number}")))
            })
            .collect();
        held.until_somebody_waits();
        assert!(later.iter().all(|later| !later.is_finished()), "nobody overtakes");
        held.proxy.let_go();
        let first = stalled.join().unwrap().expect(202).json();
        assert_eq!((&first["position"], &first["resultCode"]), (&json!(1), &json!("SUCCESS")));
        for later in later {
            let request = later.join().unwrap().expect(202).json();
            let won = request["position"] == 2;
            assert_eq!(request["resultCode"], if won { "SUCCESS" } else { "REJECTED_CAPACITY" }, "{request}");
        }
    });
    assert_eq!(held.database.sql().number("SELECT COUNT(*) FROM requests"), 5);
    invariants::check_lines(&held.database);
}

#[test]
fn postgres_nobody_waits_for_a_long_transaction_elsewhere() {
    let held = Held::start();
    let elsewhere = TestDatabase::new(TestEngine::Postgres);
    // Strangers in the same cluster and in the same database, each with a transaction that has written.
    let mut strangers = [elsewhere.sql(), held.database.sql()];
    for stranger in &mut strangers {
        stranger.run("CREATE TABLE strange (id BIGINT); BEGIN; INSERT INTO strange VALUES (1)");
    }
    for (position, server) in [&held.slow, &held.other, &held.slow].into_iter().enumerate() {
        let request = Held::apply(server, &format!("u-{position}")).expect(202).json();
        assert_eq!(request["position"], position + 1);
        assert_ne!(request["uiResult"], "PENDING", "decided at once");
    }
    let summary = operator(&held.other).get("/v1/admin/events/drop_1/summary").expect(200).json();
    assert_eq!(summary["queueDepth"], 0);
    operator(&held.other).post("/v1/admin/events/drop_1/close", &json!({})).expect(200);
    for stranger in &mut strangers {
        stranger.release();
    }
    invariants::check_lines(&held.database);
}
