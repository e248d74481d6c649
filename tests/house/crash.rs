//! `kill -9` in the middle of ten thousand writes, and a PostgreSQL that goes away and comes back.

use crate::invariants;
use crate::support::{BINARY, operator, token};
use guerdon_harness::api::drop_body;
use guerdon_harness::postgres_server::PostgresServer;
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine, until};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const WRITES: usize = 10_000;
const CALLERS: usize = 32;

/// Creates the events that `left` hands out until none is left or the server is gone; those that were answered 201.
fn write_on(server: &Server, next: &AtomicUsize, answered: &Mutex<Vec<usize>>, kill_at: Option<usize>) {
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                let api = operator(server);
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= WRITES {
                        return;
                    }
                    let body = drop_body(&format!("e_{number}")).to_string();
                    match api.try_send("POST", "/v1/admin/events", &[], Some(&body)) {
                        Ok(answer) => {
                            answer.expect(201);
                            let mut answered = answered.lock().unwrap();
                            answered.push(number);
                            if kill_at == Some(answered.len()) {
                                server.signal("-KILL");
                            }
                        }
                        Err(_) => return,
                    }
                }
            });
        }
    });
}

fn killed_during_ten_thousand_writes(engine: TestEngine) {
    let database = TestDatabase::new(engine);
    let options = ServerOptions::on(&database.url);
    let next = AtomicUsize::new(0);
    let answered = Mutex::new(Vec::new());
    for kill_at in [1_500, 4_000, 7_500] {
        let server = Server::start(BINARY, &options);
        write_on(&server, &next, &answered, Some(kill_at));
        server.kill();
        check_all_there(&database, &answered.lock().unwrap());
    }
    let server = Server::start(BINARY, &options);
    write_on(&server, &next, &answered, None);
    let answered = answered.into_inner().unwrap();
    assert!(answered.len() >= WRITES - 3 * CALLERS, "only what was under way at a kill went unanswered");
    check_all_there(&database, &answered);
    assert_eq!(server.stop(), Some(0));
    check_all_there(&database, &answered);
}

fn check_all_there(database: &TestDatabase, answered: &[usize]) {
    let there: HashSet<_> = database.sql().texts("SELECT event_id FROM events").into_iter().collect();
    let lost: Vec<_> = answered.iter().filter(|number| !there.contains(&format!("e_{number}"))).collect();
    assert!(lost.is_empty(), "answered and not there: {lost:?}");
    invariants::check(database);
}

#[test]
fn sqlite_killed_during_ten_thousand_writes() {
    killed_during_ten_thousand_writes(TestEngine::Sqlite);
}

#[test]
fn postgres_server_killed_during_ten_thousand_writes() {
    killed_during_ten_thousand_writes(TestEngine::Postgres);
}

/// Stops and kills PostgreSQL under load: 503 while it is down, and work again without a restart of ours.
#[test]
fn postgres_restarts_in_the_middle_of_load() {
    let mut postgres = PostgresServer::start();
    let database = TestDatabase::on_postgres(&postgres.url());
    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    let api = operator(&server);
    let user = server.api().with_token(&token("u-1", "USER"));
    let (done, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (next, answered) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let load = || {
        while !done.load(Ordering::SeqCst) {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let answer = operator(&server).post("/v1/admin/events", &drop_body(&format!("e_{number}")));
            match answer.status {
                201 => answered.lock().unwrap().push(number),
                503 => {
                    refused.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(answer.header("retry-after"), Some("1"));
                    assert!(
                        ["STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "STORE_BUSY"]
                            .contains(&answer.code().as_str())
                    );
                }
                _ => panic!("{answer:?}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(load);
        }
        let progress = |least: usize| {
            until("writes to be answered", Duration::from_secs(30), || {
                (answered.lock().unwrap().len() >= least).then_some(())
            });
        };
        progress(50);
        for kill in [false, true] {
            if kill {
                postgres.kill();
            } else {
                postgres.stop();
            }
            let before = refused.load(Ordering::SeqCst);
            until("503 while it is down", Duration::from_secs(30), || {
                (refused.load(Ordering::SeqCst) >= before + 10).then_some(())
            });
            assert_eq!(server.api().get("/readyz").status, 503);
            assert_eq!(server.api().get("/healthz").status, 200);
            assert_eq!(user.get("/v1/events").status, 503);
            postgres.start_again();
            let least = answered.lock().unwrap().len() + 50;
            progress(least);
            until("the server to be ready", Duration::from_secs(10), || {
                (server.api().get("/readyz").status == 200).then_some(())
            });
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(api.get("/v1/events").status, 200);
    check_all_there(&database, &answered.into_inner().unwrap());
}
