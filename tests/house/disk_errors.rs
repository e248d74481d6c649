//! A disk that fails: strace makes the kernel refuse to sync. Nothing is acknowledged that is not durable.

use crate::invariants;
use crate::support::{BINARY, operator};
use guerdon_harness::api::drop_body;
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine, until};
use std::time::Duration;

/// A server whose syncs fail, counted for each of its threads, as `when` says.
fn with_failing_syncs(database: &TestDatabase, when: &str) -> Server {
    let inject = format!("inject=fsync,fdatasync:error=EIO:when={when}");
    let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e", &inject];
    Server::start(BINARY, &ServerOptions::on(&database.url).under(&strace))
}

/// Writes one event after the other until one is not answered 201; how many were.
fn write_until_refused(server: &Server) -> (usize, String) {
    for number in 0..10_000 {
        let answer = operator(server).post("/v1/admin/events", &drop_body(&format!("e_{number}")));
        if answer.status != 201 {
            assert_eq!(answer.status, 503, "{answer:?}");
            return (number, answer.code());
        }
    }
    panic!("no sync failed");
}

fn ready(server: &Server) -> bool {
    server.api().get("/readyz").status == 200
}

#[test]
fn sqlite_syncs_that_keep_failing_stop_the_writer() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let server = with_failing_syncs(&database, "25+");
    let (answered, code) = write_until_refused(&server);
    assert_eq!(code, "OUTCOME_UNKNOWN", "the commit that met the error");
    assert!(answered > 0);
    until("readiness to turn false", Duration::from_secs(10), || (!ready(&server)).then_some(()));
    let readiness = server.api().get("/readyz").json();
    assert!(readiness["checks"]["committer"].as_str().unwrap().contains("I/O error"), "{readiness}");
    for number in 0..20 {
        let refused =
            operator(&server).post("/v1/admin/events", &drop_body(&format!("late_{number}"))).expect(503);
        assert_eq!(refused.code(), "STORE_UNAVAILABLE");
    }
    assert!(!ready(&server), "it stays so while the disk fails");
    assert_eq!(
        operator(&server).get("/v1/admin/events/e_0").status,
        200,
        "what is durable can still be read"
    );
    server.kill();

    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    for number in 0..answered {
        operator(&server).get(&format!("/v1/admin/events/e_{number}")).expect(200);
    }
    assert_eq!(database.sql().number("SELECT COUNT(*) FROM events WHERE event_id >= 'late'"), 0);
    invariants::check(&database);
}

#[test]
fn sqlite_goes_on_once_the_file_was_reopened_and_is_sound() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let server = with_failing_syncs(&database, "25");
    let (answered, code) = write_until_refused(&server);
    assert_eq!(code, "OUTCOME_UNKNOWN");
    until("the writer to go on", Duration::from_secs(20), || ready(&server).then_some(()));
    let unknown = format!("/v1/admin/events/e_{answered}");
    let became = operator(&server).get(&unknown).status;
    operator(&server).post("/v1/admin/events", &drop_body("after")).expect(201);
    server.kill();
    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    for number in 0..answered {
        operator(&server).get(&format!("/v1/admin/events/e_{number}")).expect(200);
    }
    operator(&server).get("/v1/admin/events/after").expect(200);
    assert_eq!(operator(&server).get(&unknown).status, became, "what was found then is what is");
    invariants::check(&database);
}
