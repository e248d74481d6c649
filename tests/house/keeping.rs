//! How requests are kept: found by their user wherever they are noted, and gone when they were kept long enough.

use crate::invariants;
use crate::support::{BINARY, as_user, at_once, open_drop, operator, seconds_now, sign};
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::time::Duration;

/// SQLite's user index is written later: people are found before, while and after it is, whatever is killed meanwhile.
#[test]
fn sqlite_finds_people_whether_they_are_in_the_index_or_not() {
    const PEOPLE: usize = 800;
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url);
    let mut server = Server::start(BINARY, &options);
    open_drop(&operator(&server), "drop_1", 100);
    open_drop(&operator(&server), "drop_2", 100);
    let apply = |server: &Server, event: &str, expected: u16| {
        at_once(8, |caller| {
            for number in (caller..PEOPLE).step_by(8) {
                let path = format!("/v1/events/{event}/requests");
                as_user(server, number).post(&path, &json!({})).expect(expected);
            }
        });
    };
    let indexed = |server: &Server| {
        until("everybody to be in the index", Duration::from_secs(30), || {
            let sql = "SELECT COUNT(*) FROM event_lines WHERE indexed_position < last_position";
            (database.sql().number(sql) == 0).then_some(())
        });
        apply(server, "drop_1", 200);
        let mine = as_user(server, 7).get("/v1/me/requests").expect(200).json();
        assert_eq!(mine["items"].as_array().unwrap().len(), 2, "{mine}");
    };
    apply(&server, "drop_1", 202);
    apply(&server, "drop_2", 202);
    apply(&server, "drop_1", 200);
    indexed(&server);
    let in_index = "SELECT COUNT(*) FROM request_users";
    let everybody = i64::try_from(2 * PEOPLE).unwrap();
    assert_eq!(database.sql().number(in_index), everybody);
    server.kill();
    // As a run leaves it that was cut off: some of it is there, and nothing says how much.
    database.sql().run("DELETE FROM request_users WHERE position % 3 = 0");
    database.sql().run("UPDATE event_lines SET indexed_position = 0");
    server = Server::start(BINARY, &options);
    apply(&server, "drop_2", 200);
    indexed(&server);
    assert_eq!(database.sql().number(in_index), everybody, "the rest was written, and nothing twice");
    invariants::check_lines(&database);
}

/// What was kept long enough goes, from the front of the line; the figures stay.
fn old_requests_are_swept(engine: TestEngine) {
    let database = TestDatabase::new(engine);
    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    for id in ["drop_1", "drop_2"] {
        let ends_at = if id == "drop_1" { seconds_now() * 1_000 + 3_600_000 } else { 4_000_000_000_000 };
        let body = json!({"eventId": id, "name": "D", "type": "FIRST_COME", "startsAt": 0, "endsAt": ends_at,
            "capacityTotal": 5});
        operator(&server).post("/v1/admin/events", &body).expect(201);
        operator(&server).post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
        for number in 0..20 {
            as_user(&server, number).post(&format!("/v1/events/{id}/requests"), &json!({})).expect(202);
        }
    }
    let first = as_user(&server, 3).get("/v1/me/requests").expect(200).json();
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    server.kill();

    // What was told of requests is kept longer here than they are.
    let later = ServerOptions::on(&database.url)
        .with("GUERDON_DEV__CLOCK_OFFSET", "200d")
        .with("GUERDON_OUTBOX__TTL", "400d");
    let server = Server::start(BINARY, &later);
    let caller = |name: &str, role: &str| {
        server.api().with_token(&sign(&json!({"sub": name, "roles": [role], "exp": 4_000_000_000_i64})))
    };
    let somebody = caller("u-3", "USER");
    until("the requests of the event that has ended to go", Duration::from_mins(1), || {
        (database.sql().number("SELECT COUNT(*) FROM requests") == 20).then_some(())
    });
    let left = somebody.get("/v1/me/requests").expect(200).json();
    assert_eq!(left["items"].as_array().unwrap().len(), 1);
    assert_eq!(left["items"][0]["eventId"], "drop_2", "the other event goes on");
    for item in first["items"].as_array().unwrap() {
        let kept = item["eventId"] == "drop_2";
        let path = format!("/v1/requests/{}", item["requestId"].as_str().unwrap());
        somebody.get(&path).expect(if kept { 200 } else { 404 });
    }
    let summary = caller("op", "OPERATOR").get("/v1/admin/events/drop_1/summary").expect(200).json();
    assert_eq!(summary["byResultCode"], json!({"SUCCESS": 5, "REJECTED_CAPACITY": 15}));
    somebody.post("/v1/events/drop_2/requests", &json!({})).expect(200);
    let told = caller("op", "OPERATOR").get("/v1/admin/outbox?limit=200").expect(200).json();
    for item in first["items"].as_array().unwrap() {
        let of_request = |message: &&Value| message["aggregateId"] == item["requestId"];
        let message = told["items"].as_array().unwrap().iter().find(of_request).expect("a message");
        let wanted = json!({"requestId": item["requestId"], "eventId": item["eventId"], "userId": "u-3",
            "status": item["status"], "resultCode": item["resultCode"], "position": item["position"],
            "requestedAt": item["requestedAt"], "finishedAt": item["finishedAt"]});
        assert_eq!(message["payload"], wanted, "whether or not the request is still there");
    }
    invariants::check_lines(&database);
}

#[test]
fn sqlite_sweeps_old_requests() {
    old_requests_are_swept(TestEngine::Sqlite);
}

#[test]
fn postgres_sweeps_old_requests() {
    old_requests_are_swept(TestEngine::Postgres);
}
