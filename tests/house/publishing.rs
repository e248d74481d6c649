//! Events on their way to others: once committed they arrive, in order, whatever the other side does.

use crate::support::{BINARY, Cluster, at_once, for_every_setup, open_drop, operator, seconds_now, token};
use guerdon_harness::api::drop_body;
use guerdon_harness::{Api, Hook, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";
const NEXT_SECRET: &str = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4";
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

for_every_setup! {
    what_is_committed_arrives_signed_and_in_order
    a_refused_event_holds_up_its_own_aggregate_alone
    a_dead_event_can_be_passed_over_or_held_and_replayed
    a_sink_that_is_away_costs_nothing
}

/// Servers that publish to a hook.
pub(crate) fn start(engine: TestEngine, servers: usize, hook: &Hook, settings: &[(&str, &str)]) -> Cluster {
    let url = hook.url();
    let mut all = vec![("GUERDON_OUTBOX__SINK", "webhook"), ("GUERDON_OUTBOX__URL", &url)];
    all.extend([("GUERDON_OUTBOX__SECRET", SECRET), ("GUERDON_OUTBOX__LEASE", "3s")]);
    all.extend(settings);
    Cluster::start_with(engine, servers, &all)
}

/// Opens an event and closes it again.
pub(crate) fn open_and_close(api: &Api, id: &str) {
    api.post("/v1/admin/events", &drop_body(id)).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
    api.post(&format!("/v1/admin/events/{id}/close"), &json!({})).expect(200);
}

/// The ids of all messages that are to be published, as they travel.
pub(crate) fn written(database: &TestDatabase) -> BTreeSet<String> {
    let mut sql = database.sql();
    let table = sql.table("integration.outbox_events");
    let hex = match database.engine {
        TestEngine::Sqlite => "lower(hex(event_id))",
        TestEngine::Postgres => "encode(event_id, 'hex')",
    };
    sql.texts(&format!("SELECT {hex} FROM {table} WHERE channel = 'broker'"))
        .into_iter()
        .map(|id| format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]))
        .collect()
}

pub(crate) fn ids(events: &[Value]) -> BTreeSet<String> {
    events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

/// The first time that each event was seen, its subject's earlier ones had been seen before.
pub(crate) fn assert_in_order(events: &[Value]) {
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for event in events {
        if !seen.insert(event["id"].as_str().unwrap()) {
            continue;
        }
        let sequence: i64 = event["sequence"].as_str().unwrap().parse().unwrap();
        let subject = event["subject"].as_str().unwrap();
        let before = last.insert(subject, sequence).unwrap_or(0);
        assert!(before < sequence, "{subject}: {sequence} after {before}");
    }
}

pub(crate) fn until_all_arrived(cluster: &Cluster, hook: &Hook) {
    until("everything to arrive", PATIENCE, || {
        (ids(&hook.taken()) == written(&cluster.database)).then_some(())
    });
}

fn what_is_committed_arrives_signed_and_in_order(engine: TestEngine, servers: usize) {
    let hook = Hook::start();
    let secrets = format!("{NEXT_SECRET} {SECRET}");
    let cluster = start(engine, servers, &hook, &[("GUERDON_OUTBOX__SECRET", &secrets)]);
    open_drop(&cluster.operator(0), "drop", 5);
    let answers = at_once(24, |number| {
        let api = &cluster.servers[number % servers];
        if number < 4 {
            open_and_close(&cluster.operator(number), &format!("e_{number}"));
        }
        crate::support::as_user(api, number).post("/v1/events/drop/requests", &json!({}))
    });
    assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
    // Each of the five winners is paid their points: a transfer and a delivery.
    let all = 1 + 24 + 8 + 5 * 2;
    until("everything to be written", PATIENCE, || (written(&cluster.database).len() == all).then_some(()));
    until_all_arrived(&cluster, &hook);
    let calls = hook.calls();
    assert_eq!(calls.len(), all, "each once");
    assert_in_order(&hook.taken());
    for call in &calls {
        let event = call.json();
        assert_eq!(event["specversion"], "1.0");
        assert_eq!(call.headers["webhook-id"], event["id"].as_str().unwrap());
        assert_eq!(call.headers["content-type"], "application/cloudevents+json");
        // Somebody else's implementation, with the old secret as with the new one.
        let mut headers = http::HeaderMap::new();
        for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
            headers.insert(name, call.headers[name].parse().unwrap());
        }
        for secret in [SECRET, NEXT_SECRET] {
            let verifier = standardwebhooks::Webhook::new(secret).unwrap();
            verifier.verify(call.body.as_bytes(), &headers).unwrap();
            assert!(verifier.verify(format!("{} ", call.body).as_bytes(), &headers).is_err());
        }
        let stranger = standardwebhooks::Webhook::new("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA").unwrap();
        assert!(stranger.verify(call.body.as_bytes(), &headers).is_err());
    }
    let listed = cluster.operator(0).get("/v1/admin/outbox?status=SENT&limit=200").expect(200).json();
    until("all to be noted as sent", PATIENCE, || {
        let listed = cluster.operator(0).get("/v1/admin/outbox?status=SENT&limit=200").expect(200).json();
        (listed["items"].as_array().unwrap().len() == calls.len()).then_some(())
    });
    let first = &listed["items"][0];
    for field in
        ["eventId", "aggregateType", "aggregateId", "eventType", "payload", "status", "attempts", "createdAt"]
    {
        assert!(first.get(field).is_some(), "{field} in {first}");
    }
    until("the backlog to be seen to be gone", PATIENCE, || {
        (cluster.metric("guerdon_outbox_backlog") < 0.5).then_some(())
    });
    assert!((cluster.metric("guerdon_outbox_published_total") - 43.0).abs() < 0.5);
    crate::invariants::check_lines(&cluster.database);
}

fn a_refused_event_holds_up_its_own_aggregate_alone(engine: TestEngine, servers: usize) {
    let hook = Hook::start();
    let bad = |event: &Value| event["subject"] == "bad" && event["type"] == "EVENT_OPENED";
    hook.answer(move |call| (if bad(&call.json()) { 500 } else { 204 }, Vec::new()));
    let cluster = start(engine, servers, &hook, &[]);
    open_and_close(&cluster.operator(0), "bad");
    open_and_close(&cluster.operator(1), "good");
    until("the good ones to arrive and the bad one to be tried again", PATIENCE, || {
        let calls = hook.calls();
        let tried = calls.iter().filter(|call| bad(&call.json())).count();
        (hook.taken().len() == 2 && tried >= 3).then_some(())
    });
    assert!(
        hook.taken().iter().all(|event| event["subject"] == "good"),
        "nothing passes the one that was refused"
    );
    let waiting = cluster.operator(0).get("/v1/admin/outbox?status=NEW").expect(200).json();
    let opened = waiting["items"].as_array().unwrap().iter().find(|item| item["eventType"] == "EVENT_OPENED");
    assert!(opened.unwrap()["attempts"].as_i64().unwrap() >= 2, "{waiting}");
    assert_eq!(opened.unwrap()["lastError"], "it answered 500 Internal Server Error");
    // Each wait is longer than the one before, whatever the chance in it.
    let tries: Vec<_> = hook.calls().iter().filter(|call| bad(&call.json())).map(|call| call.at).collect();
    assert!(tries[1] - tries[0] >= Duration::from_millis(240), "{:?}", tries[1] - tries[0]);
    assert!(tries[2] - tries[1] >= Duration::from_millis(490), "{:?}", tries[2] - tries[1]);
    hook.answer_all(204);
    until_all_arrived(&cluster, &hook);
    assert_in_order(&hook.taken());
}

fn a_dead_event_can_be_passed_over_or_held_and_replayed(engine: TestEngine, servers: usize) {
    for (after_dead, passes) in [("continue", true), ("hold", false)] {
        let hook = Hook::start();
        hook.answer(|call| (if call.json()["type"] == "EVENT_OPENED" { 422 } else { 204 }, Vec::new()));
        let settings = [("GUERDON_OUTBOX__MAX_ATTEMPTS", "2"), ("GUERDON_OUTBOX__AFTER_DEAD", after_dead)];
        let cluster = start(engine, servers, &hook, &settings);
        let api = cluster.operator(0);
        for id in ["a", "b", "c"] {
            open_and_close(&api, id);
        }
        let dead = until("three to be dead", PATIENCE, || {
            let dead = api.get("/v1/admin/outbox?status=DEAD").expect(200).json();
            (dead["items"].as_array().unwrap().len() == 3).then_some(dead)
        });
        assert!(dead["items"].as_array().unwrap().iter().all(|item| item["attempts"] == 2), "{dead}");
        if passes {
            until("the others to arrive", PATIENCE, || (hook.taken().len() == 3).then_some(()));
        }
        hook.answer_all(204);
        // A message that is written now and arrives: whatever else could, has.
        open_and_close(&api, "later");
        until("a later one to arrive", PATIENCE, || {
            hook.taken().iter().any(|event| event["subject"] == "later").then_some(())
        });
        let taken = |hook: &Hook| hook.taken().iter().filter(|event| event["subject"] != "later").count();
        assert_eq!(taken(&hook), if passes { 3 } else { 0 }, "{after_dead}");
        until("the dead to be counted", PATIENCE, || {
            ((cluster.servers[0].api().metric("guerdon_outbox_dead") - 3.0).abs() < 0.5).then_some(())
        });
        // One by its id, the rest by their range.
        let one = dead["items"][0]["eventId"].as_str().unwrap();
        let replayed = api.post(&format!("/v1/admin/outbox/{one}/replay"), &json!({})).expect(200).json();
        assert_eq!((&replayed["status"], &replayed["attempts"]), (&json!("NEW"), &json!(0)));
        let rest = api.post("/v1/admin/outbox/replay", &json!({"status": "DEAD"})).expect(200).json();
        assert_eq!((&rest["replayed"], &rest["next"]), (&json!(2), &Value::Null));
        until_all_arrived(&cluster, &hook);
        let log = api.get("/v1/admin/audit-log?limit=200").expect(200).json();
        let lines =
            log["items"].as_array().unwrap().iter().filter(|line| line["action"] == "MESSAGES_REPLAYED");
        assert_eq!(lines.count(), 2);
        if !passes {
            assert_in_order(&hook.taken());
        }
        // What was sent can be sent again.
        let before = hook.calls().len();
        api.post(&format!("/v1/admin/outbox/{one}/replay"), &json!({})).expect(200);
        until("it to arrive again", PATIENCE, || (hook.calls().len() == before + 1).then_some(()));
        crate::invariants::check_lines(&cluster.database);
    }
}

fn a_sink_that_is_away_costs_nothing(engine: TestEngine, servers: usize) {
    // Nobody listens there yet.
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], guerdon_harness::free_port()));
    let url = format!("http://{address}/hook");
    let settings = [
        ("GUERDON_OUTBOX__SINK", "webhook"),
        ("GUERDON_OUTBOX__URL", url.as_str()),
        ("GUERDON_OUTBOX__MAX_ATTEMPTS", "1"),
    ];
    let cluster = Cluster::start_with(engine, servers, &settings);
    open_drop(&cluster.operator(0), "drop", 5);
    let answers = at_once(20, |number| {
        let api = crate::support::as_user(&cluster.servers[number % servers], number);
        api.post("/v1/events/drop/requests", &json!({}))
    });
    assert!(answers.iter().all(|answer| answer.status == 202), "{answers:?}");
    until("the trouble to be said", PATIENCE, || {
        cluster.servers.iter().any(|server| server.log_text().contains("the sink is away")).then_some(())
    });
    until("the backlog to be seen", PATIENCE, || {
        (cluster.servers[0].api().metric("guerdon_outbox_backlog") > 20.5).then_some(())
    });
    cluster.servers[0].api().get("/readyz").expect(200);
    let hook = Hook::start_at(address);
    until_all_arrived(&cluster, &hook);
    let mut sql = cluster.database.sql();
    let table = sql.table("integration.outbox_events");
    let harmed = sql.number(&format!("SELECT COUNT(*) FROM {table} WHERE attempts > 0 OR status = 'DEAD'"));
    assert_eq!(harmed, 0, "an outage uses up no attempt, even where one is all there is");
}

/// However many wait for an earlier one of theirs, others get through.
#[test]
fn many_that_are_held_up_do_not_hold_up_their_shard() {
    for engine in [TestEngine::Sqlite, TestEngine::Postgres] {
        let hook = Hook::start();
        hook.answer(|call| {
            (if call.json()["sequence"] == "00000000000000000001" { 500 } else { 204 }, Vec::new())
        });
        let database = TestDatabase::new(engine);
        let url = hook.url();
        let options = ServerOptions::on(&database.url)
            .with("GUERDON_OUTBOX__SINK", "webhook")
            .with("GUERDON_OUTBOX__URL", &url);
        Server::start(BINARY, &options).stop();
        let mut sql = database.sql();
        let table = sql.table("integration.outbox_events");
        let blob = |hex: &str| match engine {
            TestEngine::Sqlite => format!("X'{hex}'"),
            TestEngine::Postgres => format!("decode('{hex}', 'hex')"),
        };
        // Old ones, in one shard: a first and a second about each of many things, and behind them one about another.
        let mut row = |number: usize, sequence: i64, kind: &str, about: &str| {
            let id = blob(&format!("018bcfe568007001800000000000{number:04x}"));
            sql.run(&format!(
                "INSERT INTO {table} (event_id, channel, sequence, aggregate_type, aggregate_id, event_type, payload,
                    status, created_at, attempts, shard)
                 VALUES ({id}, 'broker', {sequence}, '{kind}', '{about}', 'T', '{{}}', 'NEW', 1700000000000, 0, 3)"
            ));
        };
        for number in 0..700 {
            row(number, 1, "EVENT", &format!("e-{number}"));
            row(1_000 + number, 2, "EVENT", &format!("e-{number}"));
        }
        row(9_000, 2, "REQUEST", "r");
        let _server = Server::start(BINARY, &options);
        until("the last one to arrive", PATIENCE, || {
            hook.taken().iter().any(|event| event["subject"] == "r").then_some(())
        });
        assert_eq!(hook.taken().len(), 1, "nothing passes what was refused");
    }
}

/// On PostgreSQL ids are not in the order of their commits.
#[test]
fn postgres_a_late_commit_with_an_early_id_is_published() {
    let hook = Hook::start();
    let cluster = start(TestEngine::Postgres, 2, &hook, &[]);
    let mut late = cluster.database.sql();
    // An id from long before any other.
    late.run(
        "BEGIN; INSERT INTO integration.outbox_events (event_id, channel, sequence, aggregate_type, aggregate_id,
            event_type, payload, status, created_at, attempts, shard)
         SELECT decode('018bcfe568007001800000000000000' || n, 'hex'), 'broker', 1, 'REQUEST', 'late-' || n,
            'REQUEST_DECIDED', '{}', 'NEW', 1700000000000, 0, n
         FROM generate_series(0, 9) n",
    );
    for id in ["a", "b"] {
        open_and_close(&cluster.operator(0), id);
    }
    until("the others to arrive", PATIENCE, || (hook.taken().len() == 4).then_some(()));
    late.run("COMMIT");
    until_all_arrived(&cluster, &hook);
    assert_eq!(hook.calls().len(), 14, "each once");
}

/// A server that stops for longer than its lease is taken over from; what it had in hand arrives twice at the most.
#[test]
fn postgres_one_of_two_publishers_is_paused_beyond_its_lease() {
    let hook = Hook::start();
    // What is called while it is paused is answered afterwards: the worst moment to be woken.
    let cluster = start(TestEngine::Postgres, 2, &hook, &[("GUERDON_OUTBOX__LEASE", "1s")]);
    until("both to have a part", PATIENCE, || {
        let holders = cluster.database.sql().number(
            "SELECT COUNT(DISTINCT worker_id) FROM integration.outbox_shards WHERE worker_id IS NOT NULL",
        );
        (holders == 2).then_some(())
    });
    open_drop(&cluster.operator(0), "drop", 5);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (cluster, stop) = (&cluster, &stop);
        let load = scope.spawn(move || {
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) {
                let api = crate::support::as_user(&cluster.servers[1], number);
                api.post("/v1/events/drop/requests", &json!({})).expect(202);
                if number % 10 == 0 {
                    open_and_close(&cluster.operator(1), &format!("e_{number}"));
                }
                number += 1;
            }
        });
        let _ends = crate::brokers::StopAtEnd(stop);
        for _ in 0..3 {
            cluster.servers[0].signal("-STOP");
            until("the other to have all", PATIENCE, || {
                let shares = cluster.database.sql().number(
                    "SELECT COUNT(DISTINCT worker_id) FROM integration.outbox_shards
                     WHERE deadline > (SELECT MAX(deadline) FROM integration.outbox_shards) - 500",
                );
                let all = cluster.database.sql().number(
                    "SELECT MAX(n) FROM (SELECT COUNT(*) n FROM integration.outbox_shards GROUP BY worker_id) held",
                );
                (shares == 1 && all == 16).then_some(())
            });
            cluster.servers[0].signal("-CONT");
            until("both to have a part again", PATIENCE, || {
                let holders = cluster.database.sql().number(
                    "SELECT COUNT(DISTINCT worker_id) FROM integration.outbox_shards WHERE worker_id IS NOT NULL",
                );
                (holders == 2).then_some(())
            });
        }
        stop.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    until_all_arrived(&cluster, &hook);
    assert_in_order(&hook.taken());
    // Every duplicate was in the hands of the one that was paused, and it said so.
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for event in hook.taken() {
        *times.entry(event["id"].as_str().unwrap().into()).or_default() += 1;
    }
    let log: String = cluster.servers.iter().map(Server::log_text).collect();
    let says = ["the lease had ended when these were published", "published by another process as well"];
    let told: String = log.lines().filter(|line| says.iter().any(|said| line.contains(said))).collect();
    for (id, _) in times.iter().filter(|(_, times)| **times > 1) {
        assert!(told.contains(id.as_str()), "{id} arrived twice and nobody says why");
    }
    crate::invariants::check_lines(&cluster.database);
}

#[test]
fn what_was_sent_is_removed_in_time_and_the_audit_knows() {
    for engine in [TestEngine::Sqlite, TestEngine::Postgres] {
        let hook = Hook::start();
        let database = TestDatabase::new(engine);
        let url = hook.url();
        let options = ServerOptions::on(&database.url)
            .with("GUERDON_OUTBOX__SINK", "webhook")
            .with("GUERDON_OUTBOX__URL", &url)
            .with("GUERDON_OUTBOX__TTL", "1s");
        let server = Server::start(BINARY, &options);
        open_drop(&operator(&server), "drop", 2);
        for number in 0..5 {
            crate::support::as_user(&server, number).post("/v1/events/drop/requests", &json!({})).expect(202);
        }
        let account = crate::wallet::open_account(&operator(&server), "ann", "KRW", 0);
        crate::wallet::deposit(&operator(&server), account, "5", "k").expect(200);
        until("all to arrive", PATIENCE, || (hook.taken().len() == 7 + 2 * 2).then_some(()));
        until("all to be gone", PATIENCE, || written(&database).is_empty().then_some(()));
        assert_eq!(hook.taken().len(), 11);
        crate::invariants::check_lines(&database);
        let gone = ids(&hook.taken()).into_iter().next().unwrap();
        let answer = operator(&server).post(&format!("/v1/admin/outbox/{gone}/replay"), &json!({}));
        answer.expect(404);
    }
}

/// What is written is what the catalogue says of it.
/// One claim that is granted, one that is refused, and one that can neither be granted nor undone.
fn claim_in_every_way(cluster: &Cluster, partners: &guerdon_harness::Partners) {
    let item = |id: &str| json!({"rewardId": id, "kind": "ITEM", "provider": "partner"});
    let body = json!({
        "eventId": "gift", "name": "A gift", "type": "CLAIM", "startsAt": 1_700_000_000_000_i64,
        "endsAt": 4_000_000_000_000_i64, "rewards": [item("sword"), item("shield")],
    });
    let api = cluster.operator(0);
    api.post("/v1/admin/events", &body).expect(201);
    api.post("/v1/admin/events/gift/open", &json!({})).expect(200);
    let claim = |user: usize, key: &str| {
        let user = crate::support::as_user(&cluster.servers[0], user);
        user.send("POST", "/v1/event-claims/gift/claim", &[("idempotency-key", key)], None)
    };
    claim(1, "claim-key-1").expect(200);
    claim(1, "claim-key-2").expect(409);
    partners.faults(&json!({"byReward": {"shield": [{"status": 422}]}, "revokeStatus": 500}));
    let stuck = claim(2, "claim-key-3").expect(502);
    assert_eq!(stuck.code(), "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED");
}

/// Two people for one coupon, while Redis is away; the next server decides about them by itself.
fn ask_for_coupons_that_nobody_counts(cluster: &mut Cluster, hook: &Hook, settings: &[(&str, &str)]) {
    let url = hook.url();
    let options = ServerOptions::on(&cluster.database.url)
        .with("GUERDON_OUTBOX__SINK", "webhook")
        .with("GUERDON_OUTBOX__URL", &url)
        .with("GUERDON_OUTBOX__SECRET", SECRET)
        .with("GUERDON_OUTBOX__LEASE", "3s")
        .with("GUERDON_COUPONS__LEASE", "1s");
    let options = settings.iter().fold(options, |options, (name, value)| options.with(name, value));
    let away = options
        .clone()
        .with("GUERDON_COUPONS__ISSUER", "redis-outbox")
        .with("GUERDON_REDIS__URL", "redis://127.0.0.1:1/");
    cluster.servers.pop().unwrap().stop();
    let server = Server::start(BINARY, &away);
    let coupon = json!({"couponId": "ten", "name": "Ten off", "totalQuantity": 1});
    operator(&server).post("/v1/admin/coupons", &coupon).expect(201);
    for user in [1, 2] {
        crate::coupons::issue(&crate::support::as_user(&server, user), "ten", "k", &[]).expect(202);
    }
    server.stop();
    cluster.servers.push(Server::start(BINARY, &options));
}

/// Whoever got it uses it, gives it back, and has it taken away.
fn use_coupons(cluster: &Cluster) {
    let api = cluster.operator(0);
    let of_status = |status: &str| {
        let path = format!("/v1/admin/coupons/ten/user-coupons?status={status}");
        api.get(&path).expect(200).json()["items"].get(0).cloned()
    };
    until("one to be refused", PATIENCE, || of_status("REJECTED"));
    let confirmed = until("the other to be confirmed", PATIENCE, || of_status("CONFIRMED"));
    let user: usize = confirmed["userId"].as_str().unwrap().trim_start_matches("u-").parse().unwrap();
    let owner = crate::support::as_user(&cluster.servers[0], user);
    let id = confirmed["userCouponId"].as_str().unwrap();
    for what in ["use", "cancel-use"] {
        owner.post(&format!("/v1/user-coupons/{id}/{what}"), &json!({"orderId": "o-1"})).expect(200);
    }
    api.post(&format!("/v1/admin/user-coupons/{id}/revoke"), &json!({"note": "n"})).expect(200);
}

#[test]
fn every_event_is_as_the_catalogue_has_it() {
    let hook = Hook::start();
    let partners = guerdon_harness::Partners::start(BINARY, &[]);
    let settings =
        [("GUERDON_PROVIDERS__PARTNER__URL", partners.url.as_str()), ("GUERDON_CLAIMS__RETRIES", "0")];
    let mut cluster = start(TestEngine::Sqlite, 1, &hook, &settings);
    ask_for_coupons_that_nobody_counts(&mut cluster, &hook, &settings);
    use_coupons(&cluster);
    let api = cluster.operator(0);
    open_and_close(&api, "a");
    open_drop(&api, "b", 1);
    claim_in_every_way(&cluster, &partners);
    crate::support::as_user(&cluster.servers[0], 1).post("/v1/events/b/requests", &json!({})).expect(202);
    until("the points to be paid out", PATIENCE, || {
        hook.taken().iter().any(|event| event["type"] == "ALLOCATION_SUCCEEDED").then_some(())
    });
    api.post("/v1/admin/events/b/cancel", &json!({})).expect(200);
    let lottery = json!({
        "eventId": "l", "name": "A lottery", "type": "LOTTERY", "startsAt": 1_700_000_000_000_i64,
        "endsAt": 4_000_000_000_000_i64, "capacityTotal": 1, "lotteryCutoffAt": (seconds_now() + 2) * 1_000,
        "rewards": [{"rewardId": "points", "kind": "POINT", "amount": 1000, "currency": "POINT"}],
    });
    api.post("/v1/admin/events", &lottery).expect(201);
    api.post("/v1/admin/events/l/open", &json!({})).expect(200);
    let (from, to) = crate::wallet::two_people(&cluster);
    let payer = crate::wallet::person(&cluster, 0, "ann");
    let paid =
        crate::wallet::transfer(&payer, &crate::wallet::new_key(&payer), from, to, "1").expect(200).json();
    crate::wallet::refund(&api, paid["transferId"].as_str().unwrap(), "r-1", "{}").expect(200);
    let somebody = crate::support::as_user(&cluster.servers[0], 1);
    for (id, kind) in [("daily", "ATTENDANCE"), ("wheel", "RANDOM")] {
        // Less than the smallest unit of its currency: it can never be paid out.
        let body = json!({
            "eventId": id, "name": "An event", "type": kind, "startsAt": 1_700_000_000_000_i64,
            "endsAt": 4_000_000_000_000_i64,
            "rewards": [{"rewardId": "half", "kind": "POINT", "amount": 0.125, "currency": "KRW"}],
            "attendance": if kind == "RANDOM" { Value::Null } else { json!({"daily": "half"}) },
            "random": if kind == "RANDOM" {
                json!({"prizes": [{"rewardId": "half", "weight": 1}]})
            } else {
                Value::Null
            },
        });
        api.post("/v1/admin/events", &body).expect(201);
        api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
    }
    somebody.post("/v1/events/daily/attendance", &json!({})).expect(201);
    somebody.send("POST", "/v1/events/wheel/plays", &[("idempotency-key", "k")], None).expect(201);
    let awaited = [
        "EVENT_ANNOUNCED",
        "ALLOCATION_SUCCEEDED",
        "ALLOCATION_FAILED",
        "ALLOCATION_CANCELLED",
        "COUPON_REJECTED",
    ];
    until("the lottery to be announced, and rewards to be given or not", PATIENCE, || {
        let taken = hook.taken();
        awaited.iter().all(|name| taken.iter().any(|event| event["type"] == *name)).then_some(())
    });
    until_all_arrived(&cluster, &hook);
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md")).unwrap();
    let mut listed = BTreeSet::new();
    for section in page.split("\n## ").skip(1) {
        let name = section.lines().next().unwrap();
        listed.insert(name.to_owned());
        let schema = schema_of(&page, section);
        let of_type: Vec<_> = hook.taken().into_iter().filter(|event| event["type"] == name).collect();
        assert!(!of_type.is_empty(), "{name} did not happen");
        for event in of_type {
            let data = event["data"].as_object().unwrap();
            let known = schema["properties"].as_object().unwrap();
            let unknown: Vec<_> = data.keys().filter(|field| !known.contains_key(*field)).collect();
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
            for required in schema["required"].as_array().unwrap() {
                assert!(data.contains_key(required.as_str().unwrap()), "{name}: {required}");
            }
        }
    }
    let happened: BTreeSet<_> =
        hook.taken().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(happened, listed);
}

/// The schema that a section of the catalogue has, or says where it is.
fn schema_of(page: &str, section: &str) -> Value {
    let block = |text: &str| {
        let (_, rest) = text.split_once("Schema of `data`:\n\n```json\n")?;
        serde_json::from_str(rest.split_once("\n```")?.0).ok()
    };
    block(section).unwrap_or_else(|| {
        let (_, rest) = section.split_once("The schema is that of [").unwrap();
        let name = rest.split_once(']').unwrap().0;
        block(page.split(&format!("\n## {name}\n")).nth(1).unwrap()).unwrap()
    })
}

#[test]
fn who_may_see_and_do_what() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    let id = "018bcfe5-6800-7001-8000-000000000001";
    let server = &cluster.servers[0];
    let as_role = |role: &str| server.api().with_token(&token("somebody", role));
    for (role, reads, acts) in [("USER", 403, 403), ("AUDITOR", 200, 403), ("OPERATOR", 200, 409)] {
        as_role(role).get("/v1/admin/outbox").expect(reads);
        as_role(role).get("/v1/admin/outbox/sink").expect(reads);
        // Nothing is published here, so nothing can be sent again.
        as_role(role).post(&format!("/v1/admin/outbox/{id}/replay"), &json!({})).expect(acts);
        as_role(role).post("/v1/admin/outbox/replay", &json!({})).expect(acts);
        as_role(role).post("/v1/admin/outbox/sink/enable", &json!({})).expect(acts);
    }
    open_and_close(&cluster.operator(0), "a");
    let listed = cluster.operator(0).get("/v1/admin/outbox?limit=1").expect(200).json();
    assert_eq!(listed["items"][0]["status"], "SENT", "with nowhere to go it counts as sent");
    let next = listed["nextCursor"].as_str().unwrap();
    let second =
        cluster.operator(0).get(&format!("/v1/admin/outbox?limit=1&cursor={next}")).expect(200).json();
    assert_eq!(
        (&second["items"][0]["eventType"], &second["nextCursor"]),
        (&json!("EVENT_OPENED"), &Value::Null)
    );
}
