//! Requests: one for each user, in the order people lined up, exactly as many winners as there are places.

use crate::invariants;
use crate::support::{BINARY, Cluster, at_once, on_every_setup, operator, seconds_now, sign, token};
use guerdon_harness::api::drop_body;
use guerdon_harness::postgres_server::PostgresServer;
use guerdon_harness::{Api, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

on_every_setup! {
    a_requests_story
    a_thousand_tries_make_one_request
    more_people_than_places
    a_lottery_collects_and_a_cancel_ends_it
    closing_in_the_middle_of_a_surge
    listings_and_figures
}

fn open_drop(api: &Api, id: &str, capacity: i64) {
    let mut body = drop_body(id);
    body["capacityTotal"] = json!(capacity);
    body["rewards"][1]["totalStock"] = json!(capacity);
    api.post("/v1/admin/events", &body).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

fn user(cluster: &Cluster, server: usize, name: &str) -> Api {
    cluster.servers[server % cluster.servers.len()].api().with_token(&token(name, "USER"))
}

fn a_requests_story(cluster: &Cluster) {
    open_drop(&cluster.operator(0), "drop_1", 1);
    let first = user(cluster, 0, "u-1").post("/v1/events/drop_1/requests", &json!({})).expect(202);
    let request = first.json();
    assert_eq!(
        (request["status"].as_str(), request["uiResult"].as_str()),
        (Some("SUCCEEDED"), Some("SUCCESS"))
    );
    assert_eq!((request["position"].as_i64(), request["ahead"].as_i64()), (Some(1), Some(0)));
    assert_eq!(request["idempotencyKey"], "IDEMP#drop_1#u-1");
    assert_eq!(request["timeline"].as_array().unwrap().len(), 4);
    let place = first.header("location").unwrap().to_owned();
    assert_eq!(place, format!("/v1/requests/{}", request["requestId"].as_str().unwrap()));

    let again = user(cluster, 1, "u-1").post("/v1/events/drop_1/requests", &json!({})).expect(200).json();
    assert_eq!((again["duplicate"].as_bool(), &again["requestId"]), (Some(true), &request["requestId"]));
    let second =
        user(cluster, 1, "u-2").send("POST", "/v1/events/drop_1/requests", &[("prefer", "wait=5")], None);
    assert_eq!(second.status, 200, "decided: {}", second.text);
    assert_eq!(second.json()["resultCode"], "REJECTED_CAPACITY");

    let seen = user(cluster, 1, "u-1").get(&place).expect(200).json();
    assert_eq!(seen, request, "the same at every server");
    assert_eq!(
        user(cluster, 0, "u-2").get(&place).expect(404).code(),
        "REQUEST_NOT_FOUND",
        "somebody else's"
    );
    let admin = place.replace("/v1/", "/v1/admin/");
    cluster.operator(1).get(&admin).expect(200);
    let stream = user(cluster, 0, "u-1").get(&format!("{place}/stream")).expect(200);
    assert!(stream.header("content-type").unwrap().starts_with("text/event-stream"));
    assert!(stream.text.contains("event: request") && stream.text.contains("SUCCEEDED"), "{}", stream.text);
    let mine = user(cluster, 0, "u-1").get("/v1/me/requests").expect(200).json();
    assert_eq!(mine["items"].as_array().unwrap().len(), 1);
    let event = user(cluster, 0, "u-1").get("/v1/events/drop_1").expect(200).json();
    assert_eq!(event["capacityRemaining"], 0);
    assert_eq!(event["rewards"][1]["remainingStock"], 0);
    cluster.operator(0).post("/v1/admin/events/drop_1/close", &json!({})).expect(200);
    user(cluster, 0, "u-1").post("/v1/events/drop_1/requests", &json!({})).expect(200);
    let late = user(cluster, 0, "u-3").post("/v1/events/drop_1/requests", &json!({})).expect(409);
    assert_eq!(late.code(), "EVENT_NOT_OPEN");
    invariants::check_lines(&cluster.database);
}

fn a_thousand_tries_make_one_request(cluster: &Cluster) {
    open_drop(&cluster.operator(0), "drop_1", 10);
    let ids = at_once(100, |caller| {
        let api = user(cluster, caller, "u-1");
        let tries = (0..10).map(|_| api.post("/v1/events/drop_1/requests", &json!({})));
        tries
            .map(|answer| (answer.status, answer.json()["requestId"].as_str().unwrap().to_owned()))
            .collect::<Vec<_>>()
    });
    let answers: Vec<_> = ids.into_iter().flatten().collect();
    assert_eq!(answers.iter().filter(|(status, _)| *status == 202).count(), 1, "one was new");
    assert!(answers.iter().all(|(_, id)| *id == answers[0].1), "and all are the same");
    assert_eq!(cluster.database.sql().number("SELECT COUNT(*) FROM requests"), 1);
    invariants::check_lines(&cluster.database);
}

fn more_people_than_places(cluster: &Cluster) {
    const PEOPLE: usize = 20_000;
    const PLACES: i64 = 500;
    open_drop(&cluster.operator(0), "drop_1", PLACES);
    let next = AtomicUsize::new(0);
    at_once(16, |caller| {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            if number >= PEOPLE {
                return;
            }
            let name = format!("u-{}", (number * 7_919) % PEOPLE);
            let answer = user(cluster, caller, &name).post("/v1/events/drop_1/requests", &json!({}));
            assert_eq!(answer.status, 202, "{}", answer.text);
            // Some try twice.
            if number.is_multiple_of(10) {
                user(cluster, caller + 1, &name).post("/v1/events/drop_1/requests", &json!({})).expect(200);
            }
        }
    });
    let mut sql = cluster.database.sql();
    assert_eq!(sql.number("SELECT COUNT(*) FROM requests"), i64::try_from(PEOPLE).unwrap());
    assert_eq!(sql.number("SELECT COUNT(*) FROM requests WHERE result = 1"), PLACES);
    assert_eq!(
        sql.number("SELECT MAX(line) - MIN(line) FROM requests WHERE result = 1"),
        PLACES - 1,
        "the first ones"
    );
    invariants::check_lines(&cluster.database);
}

fn a_lottery_collects_and_a_cancel_ends_it(cluster: &Cluster) {
    let mut body = drop_body("draw_1");
    body["type"] = json!("LOTTERY");
    body["lotteryCutoffAt"] = json!(3_900_000_000_000_i64);
    cluster.operator(0).post("/v1/admin/events", &body).expect(201);
    cluster.operator(0).post("/v1/admin/events/draw_1/open", &json!({})).expect(200);
    let entries =
        at_once(30, |n| user(cluster, n, &format!("u-{n}")).post("/v1/events/draw_1/requests", &json!({})));
    for entry in &entries {
        assert_eq!((entry.status, entry.json()["status"].as_str()), (202, Some("QUEUED")));
        assert_eq!(entry.json()["ahead"].as_i64().unwrap(), entry.json()["position"].as_i64().unwrap() - 1);
    }
    let place = entries[0].header("location").unwrap().to_owned();
    let shown = user(cluster, 0, "u-0").get(&place).expect(200).json();
    assert_eq!(shown["uiPhase"], "COLLECTING");
    let summary = cluster.operator(1).get("/v1/admin/events/draw_1/summary").expect(200).json();
    assert_eq!(
        (summary["queueDepth"].as_i64(), summary["byStatus"]["QUEUED"].as_i64()),
        (Some(30), Some(30))
    );

    // Somebody waits for the result while the event is cancelled at another server.
    let waiting = std::thread::scope(|scope| {
        let stream = scope.spawn(|| user(cluster, 0, "u-0").get(&format!("{place}/stream")));
        let held = scope.spawn(|| {
            user(cluster, 0, "u-1").send("POST", "/v1/events/draw_1/requests", &[("prefer", "wait=30")], None)
        });
        cluster.operator(1).post("/v1/admin/events/draw_1/cancel", &json!({})).expect(200);
        (stream.join().unwrap(), held.join().unwrap())
    });
    assert!(waiting.0.text.contains("REJECTED_EVENT_CANCELLED"), "{}", waiting.0.text);
    assert_eq!(waiting.1.expect(200).json()["resultCode"], "REJECTED_EVENT_CANCELLED");
    until("everybody to be told", Duration::from_secs(10), || {
        let summary = cluster.operator(0).get("/v1/admin/events/draw_1/summary").expect(200).json();
        (summary["byResultCode"]["REJECTED_EVENT_CANCELLED"] == 30 && summary["queueDepth"] == 0)
            .then_some(())
    });
    invariants::check_lines(&cluster.database);
}

fn closing_in_the_middle_of_a_surge(cluster: &Cluster) {
    open_drop(&cluster.operator(0), "drop_1", 100_000);
    let accepted = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let surge = scope.spawn(|| {
            at_once(12, |caller| {
                for number in 0..200 {
                    let name = format!("u-{caller}-{number}");
                    let answer = user(cluster, caller, &name).post("/v1/events/drop_1/requests", &json!({}));
                    match answer.status {
                        202 => accepted.fetch_add(1, Ordering::SeqCst),
                        _ => {
                            assert_eq!(answer.expect(409).code(), "EVENT_NOT_OPEN");
                            return;
                        }
                    };
                }
            });
        });
        until("the surge to begin", Duration::from_secs(20), || {
            (accepted.load(Ordering::SeqCst) > 100).then_some(())
        });
        cluster.operator(1).post("/v1/admin/events/drop_1/close", &json!({})).expect(200);
        let at_close = cluster.database.sql().number("SELECT last_position FROM event_lines");
        surge.join().unwrap();
        let after = cluster.database.sql().number("SELECT last_position FROM event_lines");
        assert_eq!(at_close, after, "nobody got in after the close was answered");
    });
    let rows = cluster.database.sql().number("SELECT COUNT(*) FROM requests");
    assert_eq!(
        rows,
        i64::try_from(accepted.into_inner()).unwrap(),
        "everybody who was told is in, and nobody else"
    );
    invariants::check_lines(&cluster.database);
}

fn listings_and_figures(cluster: &Cluster) {
    open_drop(&cluster.operator(0), "drop_1", 3);
    open_drop(&cluster.operator(0), "drop_2", 3);
    for number in 0..8 {
        user(cluster, number, &format!("u-{number}"))
            .post("/v1/events/drop_1/requests", &json!({}))
            .expect(202);
    }
    user(cluster, 0, "u-3").post("/v1/events/drop_2/requests", &json!({})).expect(202);
    let all = |path: &str| {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = cluster.operator(1).get(&format!("{path}{cursor}")).expect(200).json();
            seen.extend(
                page["items"].as_array().unwrap().iter().map(|item| item["position"].as_i64().unwrap()),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return seen,
            }
        }
    };
    assert_eq!(all("/v1/admin/events/drop_1/requests?limit=3"), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(all("/v1/admin/events/drop_1/requests?limit=3&status=SUCCEEDED"), [1, 2, 3]);
    assert_eq!(all("/v1/admin/events/drop_1/requests?limit=2&resultCode=REJECTED_CAPACITY"), [4, 5, 6, 7, 8]);
    let summary: Value = cluster.operator(0).get("/v1/admin/events/drop_1/summary").expect(200).json();
    assert_eq!(summary["byResultCode"], json!({"SUCCESS": 3, "REJECTED_CAPACITY": 5}));
    assert_eq!(summary["byStatus"], json!({"SUCCEEDED": 3, "REJECTED": 5}));
    assert_eq!(
        (summary["capacityTotal"].as_i64(), summary["capacityRemaining"].as_i64()),
        (Some(3), Some(0))
    );
    assert!(summary["latencyMs"]["p99"].as_i64().is_some());
    assert_eq!(summary["deadLetterCandidates"], 0);
    let mine = user(cluster, 1, "u-3").get("/v1/me/requests?limit=1").expect(200).json();
    assert_eq!(mine["items"][0]["eventId"], "drop_2", "the newest first");
    let cursor = mine["nextCursor"].as_str().unwrap();
    let rest =
        user(cluster, 1, "u-3").get(&format!("/v1/me/requests?limit=1&cursor={cursor}")).expect(200).json();
    assert_eq!(rest["items"][0]["eventId"], "drop_1");
    assert!(rest["nextCursor"].is_null());
    assert_eq!(
        cluster.database.sql().number("SELECT COUNT(*) FROM event_reward_allocation"),
        8,
        "two for each winner"
    );
}

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

fn as_user(server: &Server, number: usize) -> Api {
    server.api().with_token(&token(&format!("u-{number}"), "USER"))
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

    let later = ServerOptions::on(&database.url).with("GUERDON_DEV__CLOCK_OFFSET", "200d");
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
}

#[test]
fn sqlite_sweeps_old_requests() {
    old_requests_are_swept(TestEngine::Sqlite);
}

#[test]
fn postgres_sweeps_old_requests() {
    old_requests_are_swept(TestEngine::Postgres);
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
