//! Requests: one for each user, in the order people lined up, exactly as many winners as there are places.

use crate::invariants;
use crate::support::{Cluster, at_once, on_every_setup, open_drop, token};
use guerdon_harness::api::drop_body;
use guerdon_harness::{Api, until};
use serde_json::{Value, json};
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
