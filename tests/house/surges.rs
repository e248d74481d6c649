//! Surges in which something is killed or stops: what was acknowledged is there, in its place, and nothing happens twice.

use crate::invariants;
use crate::support::{BINARY, as_user, at_once, open_drop, operator};
use guerdon_harness::postgres_server::PostgresServer;
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Kills the server again and again during a surge: every acknowledged request is there, decided, in its place.
fn killed_during_a_surge(engine: TestEngine, servers: usize) {
    const PEOPLE: usize = 3_000;
    let database = TestDatabase::new(engine);
    let options = ServerOptions::on(&database.url);
    let start = || Server::start(BINARY, &options);
    let mut running: Vec<_> = (0..servers).map(|_| start()).collect();
    open_drop(&operator(&running[0]), "drop_1", 200);
    let acknowledged = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    for kill_at in (1..=10).map(|round| round * 250) {
        std::thread::scope(|scope| {
            for caller in 0..12 {
                let (running, acknowledged, next) = (&running, &acknowledged, &next);
                let victim = &running[0];
                scope.spawn(move || {
                    apply_until_killed(
                        &running[caller % servers],
                        victim,
                        acknowledged,
                        next,
                        (PEOPLE, kill_at),
                    );
                });
            }
        });
        running.remove(0).kill();
        running.push(start());
    }
    // Whoever was not answered tries again.
    for number in 0..PEOPLE {
        let answer =
            as_user(&running[number % servers], number).post("/v1/events/drop_1/requests", &json!({}));
        assert!(answer.status == 202 || answer.status == 200, "{}", answer.text);
    }
    let mut sql = database.sql();
    assert_eq!(sql.number("SELECT COUNT(*) FROM requests"), i64::try_from(PEOPLE).unwrap());
    assert_eq!(sql.number("SELECT COUNT(*) FROM requests WHERE result = 1"), 200);
    for (number, id, position) in acknowledged.into_inner().unwrap() {
        let path = format!("/v1/requests/{id}");
        let request = as_user(&running[0], number).get(&path).expect(200).json();
        assert_eq!(request["position"], position, "a place once given stays");
        assert_ne!(request["uiResult"], "PENDING");
    }
    invariants::check_lines(&database);
}

/// Applies until the victim has been killed, which whoever sees enough answers does.
fn apply_until_killed(
    server: &Server,
    victim: &Server,
    acknowledged: &Mutex<Vec<(usize, String, i64)>>,
    next: &AtomicUsize,
    (people, kill_at): (usize, usize),
) {
    loop {
        let number = next.fetch_add(1, Ordering::SeqCst);
        if number >= people {
            return;
        }
        let sent = as_user(server, number).try_send("POST", "/v1/events/drop_1/requests", &[], None);
        let Ok(answer) = sent else { return };
        let request = answer.expect(202).json();
        let mut acknowledged = acknowledged.lock().unwrap();
        let place = request["position"].as_i64().unwrap();
        acknowledged.push((number, request["requestId"].as_str().unwrap().into(), place));
        if acknowledged.len() >= kill_at {
            drop(acknowledged);
            let _ =
                std::process::Command::new("kill").args(["-KILL", &victim.process_id().to_string()]).status();
            return;
        }
    }
}

#[test]
fn sqlite_killed_ten_times_during_a_surge() {
    killed_during_a_surge(TestEngine::Sqlite, 1);
}

#[test]
fn postgres_server_killed_ten_times_during_a_surge() {
    killed_during_a_surge(TestEngine::Postgres, 1);
}

#[test]
fn postgres_one_of_two_servers_killed_ten_times_during_a_surge() {
    killed_during_a_surge(TestEngine::Postgres, 2);
}

/// A PostgreSQL that is killed in the middle of a surge takes nothing with it that was acknowledged.
#[test]
fn postgres_killed_during_a_surge() {
    const PEOPLE: usize = 2_000;
    let mut postgres = PostgresServer::start();
    let database = TestDatabase::on_postgres(&postgres.url());
    let options = ServerOptions::on(&database.url);
    let servers = [Server::start(BINARY, &options), Server::start(BINARY, &options)];
    open_drop(&operator(&servers[0]), "drop_1", 300);
    let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let acknowledged = std::thread::scope(|scope| {
        let surge = scope.spawn(|| {
            at_once(12, |caller| {
                let mut acknowledged = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= PEOPLE {
                        return acknowledged;
                    }
                    // Whoever is not answered tries again until they are.
                    let request = until("an answer", Duration::from_mins(1), || {
                        let api = as_user(&servers[caller % 2], number);
                        let answer = api.post("/v1/events/drop_1/requests", &json!({}));
                        assert!(matches!(answer.status, 200 | 202 | 503), "{}", answer.text);
                        (answer.status != 503).then(|| answer.json())
                    });
                    answered.fetch_add(1, Ordering::SeqCst);
                    acknowledged.push((number, request));
                }
            })
        });
        for killed_at in [300, 900] {
            until("the surge to go on", Duration::from_mins(1), || {
                (answered.load(Ordering::SeqCst) >= killed_at).then_some(())
            });
            postgres.kill();
            postgres.start_again();
        }
        surge.join().unwrap()
    });
    for (number, first) in acknowledged.into_iter().flatten() {
        let path = format!("/v1/requests/{}", first["requestId"].as_str().unwrap());
        let request = as_user(&servers[0], number).get(&path).expect(200).json();
        assert_eq!(request["position"], first["position"], "a place once given stays");
        assert_eq!(request["resultCode"], first["resultCode"]);
    }
    let mut sql = database.sql();
    assert_eq!(sql.number("SELECT COUNT(*) FROM requests"), i64::try_from(PEOPLE).unwrap());
    assert_eq!(sql.number("SELECT COUNT(*) FROM requests WHERE result = 1"), 300);
    invariants::check_lines(&database);
}

/// A process that stops in the middle of whatever it does holds nobody up for long, and does nothing twice.
#[test]
fn postgres_one_of_two_servers_paused() {
    let database = TestDatabase::new(TestEngine::Postgres);
    let options = ServerOptions::on(&database.url);
    let servers = [Server::start(BINARY, &options), Server::start(BINARY, &options)];
    open_drop(&operator(&servers[0]), "drop_1", 100_000);
    let stop = AtomicUsize::new(0);
    let (answered, next) = ([AtomicUsize::new(0), AtomicUsize::new(0)], AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let (servers, stop, answered, next) = (&servers, &stop, &answered, &next);
            scope.spawn(move || {
                while stop.load(Ordering::SeqCst) == 0 {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let api = as_user(&servers[caller % 2], number);
                    let answer = api.post("/v1/events/drop_1/requests", &json!({}));
                    assert!(matches!(answer.status, 200 | 202 | 503), "{}", answer.text);
                    answered[caller % 2].fetch_add(usize::from(answer.status != 503), Ordering::SeqCst);
                }
            });
        }
        let more = |server: usize, least: usize| {
            let before = answered[server].load(Ordering::SeqCst);
            until("a server to go on", Duration::from_secs(30), || {
                (answered[server].load(Ordering::SeqCst) >= before + least).then_some(())
            });
        };
        more(0, 100);
        servers[0].signal("-STOP");
        more(1, 300);
        servers[0].signal("-CONT");
        more(0, 100);
        stop.store(1, Ordering::SeqCst);
    });
    invariants::check_lines(&database);
}
