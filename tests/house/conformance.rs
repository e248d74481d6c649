//! The same behaviour on SQLite, on PostgreSQL, and with two server processes on one PostgreSQL.

use crate::invariants;
use crate::support::{Cluster, at_once, on_every_setup, token};
use guerdon_harness::api::drop_body;
use guerdon_harness::{Answer, until};
use serde_json::json;
use std::time::Duration;

on_every_setup! {
    an_events_life
    lists_come_in_pages
    the_culprit_of_a_group_fails_alone
    one_of_many_creates_wins
    one_of_many_opens_wins
    patches_from_everywhere_all_count
    a_ban_reaches_every_server
}

fn an_events_life(cluster: &Cluster) {
    let (here, there) = (cluster.operator(0), cluster.operator(1));
    let user = cluster.servers[0].api().with_token(&token("u-1", "USER"));
    let created = here.post("/v1/admin/events", &drop_body("drop_1")).expect(201);
    assert_eq!(created.header("location"), Some("/v1/admin/events/drop_1"));
    assert_eq!(created.json()["status"], "DRAFT");
    assert_eq!(created.json()["rewards"][1]["remainingStock"], 100);
    assert_eq!(there.get("/v1/admin/events/drop_1").expect(200).json(), created.json());
    assert_eq!(user.get("/v1/events/drop_1").expect(404).code(), "EVENT_NOT_FOUND", "a draft does not exist");

    let patched =
        there.send("PATCH", "/v1/admin/events/drop_1", &[], Some(r#"{"name": "이름"}"#)).expect(200);
    assert_eq!(
        (patched.json()["name"].as_str(), patched.json()["version"].as_i64()),
        (Some("이름"), Some(2))
    );
    here.post("/v1/admin/events/drop_1/close", &json!({})).expect(409);
    assert_eq!(here.post("/v1/admin/events/drop_1/open", &json!({})).expect(200).json()["status"], "OPEN");
    let seen = user.get("/v1/events/drop_1").expect(200).json();
    assert_eq!((seen["capacityTotal"].as_i64(), seen["capacityRemaining"].as_i64()), (Some(100), Some(100)));
    assert_eq!(user.get("/v1/events").expect(200).json()["items"][0]["eventId"], "drop_1");
    let frozen =
        there.send("PATCH", "/v1/admin/events/drop_1", &[], Some(r#"{"capacityTotal": 5}"#)).expect(409);
    assert_eq!(frozen.code(), "EVENT_FIELD_FROZEN");
    assert_eq!(
        there.post("/v1/admin/events/drop_1/close", &json!({})).expect(200).json()["status"],
        "CLOSED"
    );
    assert_eq!(
        here.post("/v1/admin/events/drop_1/cancel", &json!({})).expect(200).json()["status"],
        "CANCELLED"
    );
    assert_eq!(
        here.post("/v1/admin/events/drop_1/open", &json!({})).expect(409).code(),
        "EVENT_TRANSITION_REFUSED"
    );
    assert!(user.get("/v1/events").expect(200).json()["items"].as_array().unwrap().is_empty());

    let log = there.get("/v1/admin/audit-log?eventId=drop_1").expect(200).json();
    let lines = log["items"].as_array().unwrap();
    let actions: Vec<_> = lines.iter().map(|line| line["action"].as_str().unwrap()).collect();
    assert_eq!(
        actions,
        ["EVENT_CANCELLED", "EVENT_CLOSED", "EVENT_OPENED", "EVENT_PATCHED", "EVENT_CREATED"],
        "newest first, and nothing of what was refused"
    );
    assert_eq!(lines[3]["before"]["name"], "A drop");
    assert_eq!(lines[3]["after"]["name"], "이름");
    assert!(lines.iter().all(|line| line["actor"] == "op"));
    invariants::check(&cluster.database);
}

fn lists_come_in_pages(cluster: &Cluster) {
    let operator = cluster.operator(0);
    for number in 0..7 {
        let mut body = drop_body(&format!("e_{number}"));
        body["startsAt"] = json!(1_000 + number / 3);
        operator.post("/v1/admin/events", &body).expect(201);
        operator.post(&format!("/v1/admin/events/e_{number}/open"), &json!({})).expect(200);
    }
    for (list, expected) in [
        ("/v1/events", "e_0 e_1 e_2 e_3 e_4 e_5 e_6"),
        ("/v1/admin/events?status=OPEN", "e_0 e_1 e_2 e_3 e_4 e_5 e_6"),
        ("/v1/admin/events", "e_6 e_5 e_4 e_3 e_2 e_1 e_0"),
    ] {
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let separator = if list.contains('?') { '&' } else { '?' };
            let page = operator.get(&format!("{list}{separator}limit=3{cursor}")).expect(200).json();
            seen.extend(
                page["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| item["eventId"].as_str().unwrap().to_owned()),
            );
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(seen.join(" "), expected, "{list}");
    }
}

fn the_culprit_of_a_group_fails_alone(cluster: &Cluster) {
    let mut sql = cluster.database.sql();
    sql.poison_event("poison");
    // The writers are held up, so that everything below waits and is then committed in one group for each server.
    sql.hold_writers();
    let create =
        |id: String, server: usize| cluster.operator(server).post("/v1/admin/events", &drop_body(&id));
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        cluster.plug(scope);
        let first: Vec<_> = (0..10).map(|n| scope.spawn(move || create(format!("before_{n}"), n))).collect();
        cluster.until_waiting(10);
        let poison = scope.spawn(|| create("poison".into(), 0));
        cluster.until_waiting(11);
        let second: Vec<_> = (0..10).map(|n| scope.spawn(move || create(format!("after_{n}"), n))).collect();
        cluster.until_waiting(21);
        sql.release();
        let poison = poison.join().unwrap().expect(500);
        assert_eq!(poison.code(), "INTERNAL_ERROR");
        assert!(!poison.text.contains("poison"), "the cause is for the log alone: {}", poison.text);
        first.into_iter().chain(second).map(|call| call.join().unwrap()).collect()
    });
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    let isolated = cluster.metric("guerdon_store_isolated_groups_total");
    assert!((isolated - 1.0).abs() < 0.1, "it was in the middle of one group: {isolated}");
    assert_eq!(sql.number("SELECT COUNT(*) FROM events WHERE event_id < 'plug'"), 20);
    invariants::check(&cluster.database);
}

fn statuses(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

fn one_of_many_creates_wins(cluster: &Cluster) {
    for round in 0..5 {
        let id = format!("raced_{round}");
        let answers =
            at_once(16, |number| cluster.operator(number).post("/v1/admin/events", &drop_body(&id)));
        assert_eq!(statuses(&answers, 201), 1, "{answers:?}");
        assert!(answers.iter().all(|answer| answer.status == 201 || answer.code() == "EVENT_EXISTS"));
    }
    invariants::check(&cluster.database);
}

fn one_of_many_opens_wins(cluster: &Cluster) {
    for round in 0..5 {
        let id = format!("raced_{round}");
        cluster.operator(0).post("/v1/admin/events", &drop_body(&id)).expect(201);
        let path = format!("/v1/admin/events/{id}/open");
        let answers = at_once(16, |number| cluster.operator(number).post(&path, &json!({})));
        assert_eq!(statuses(&answers, 200), 1, "{answers:?}");
        assert_eq!(statuses(&answers, 409), 15);
    }
    invariants::check(&cluster.database);
}

/// Each server gets the events in another order, and they come in groups: rows are locked in key order all the same.
fn patches_from_everywhere_all_count(cluster: &Cluster) {
    const EVENTS: usize = 6;
    const CALLERS: usize = 24;
    for event in 0..EVENTS {
        cluster.operator(0).post("/v1/admin/events", &drop_body(&format!("e_{event}"))).expect(201);
    }
    at_once(CALLERS, |caller| {
        let operator = cluster.operator(caller);
        for step in 0..EVENTS {
            let event = if caller % 2 == 0 { step } else { EVENTS - 1 - step };
            let body = json!({"name": format!("by {caller}")}).to_string();
            operator.send("PATCH", &format!("/v1/admin/events/e_{event}"), &[], Some(&body)).expect(200);
        }
    });
    for event in 0..EVENTS {
        let event = cluster.operator(0).get(&format!("/v1/admin/events/e_{event}")).expect(200).json();
        assert_eq!(event["version"], 1 + CALLERS, "every patch counts once");
    }
    assert!(cluster.metric("guerdon_store_retried_groups_total") < 0.5, "no deadlock");
    invariants::check(&cluster.database);
}

fn a_ban_reaches_every_server(cluster: &Cluster) {
    let set = |server: usize, status: &str| {
        let body = json!({"status": status}).to_string();
        cluster.operator(server).send("PUT", "/v1/admin/users/u-9", &[], Some(&body)).expect(200);
    };
    let user =
        |server: usize| cluster.servers[server].api().with_token(&token("u-9", "USER")).get("/v1/events");
    assert_eq!(user(0).status, 200, "unknown users are active");
    cluster.operator(0).get("/v1/users/u-9/status").expect(404);
    for (status, expected) in
        [("BANNED", 403), ("ACTIVE", 200), ("WITHDRAWN", 403), ("INACTIVE", 403), ("ACTIVE", 200)]
    {
        set(0, status);
        assert_eq!(user(0).status, expected, "at once where it was set");
        for server in 0..cluster.servers.len() {
            until("the status to reach every server", Duration::from_secs(2), || {
                (user(server).status == expected).then_some(())
            });
        }
        let seen = cluster.operator(1).get("/v1/users/u-9/status").expect(200).json();
        assert_eq!(seen, json!({"userId": "u-9", "status": status}));
    }
    let log = cluster.operator(1).get("/v1/admin/audit-log?userId=u-9&limit=2").expect(200).json();
    assert_eq!(log["items"][0]["before"], json!({"status": "INACTIVE"}));
    assert_eq!(log["items"][0]["after"], json!({"status": "ACTIVE"}));
}
