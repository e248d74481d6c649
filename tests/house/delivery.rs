//! Rewards on their way: each delivered once under its own key, whatever the provider does and whoever is killed.

use crate::support::{
    BINARY, Cluster, as_user, at_once, for_every_setup, operator, seconds_now, sign, token,
};
use guerdon_harness::{Api, Partners, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

for_every_setup! {
    five_thousand_rewards_through_the_worst
    every_row_of_the_outcome_table
    a_cancel_during_a_call_ends_truthfully
    many_are_retried_in_the_background
    a_slow_provider_holds_up_nobody_else
}

const PATIENCE: Duration = Duration::from_mins(1);
/// As `hurried` has it.
const LEASE: Duration = Duration::from_secs(2);
const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";

/// Settings that hurry.
fn hurried(partners: &Partners) -> Vec<(String, String)> {
    hurried_at(&partners.url)
}

fn hurried_at(url: &str) -> Vec<(String, String)> {
    [
        ("GUERDON_PROVIDERS__DEFAULT__URL", url),
        ("GUERDON_PROVIDERS__DEFAULT__SECRET", SECRET),
        ("GUERDON_PROVIDERS__DEFAULT__TIMEOUT", "400ms"),
        ("GUERDON_ALLOCATIONS__RETRY_DELAY", "100ms"),
        ("GUERDON_ALLOCATIONS__RETRY_INTERVAL", "100ms"),
        ("GUERDON_ALLOCATIONS__MAX_ATTEMPTS", "1000"),
        ("GUERDON_ALLOCATIONS__LEASE", "2s"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn options(database: &TestDatabase, settings: &[(String, String)]) -> ServerOptions {
    settings.iter().fold(ServerOptions::on(&database.url), |options, (name, value)| options.with(name, value))
}

fn start(engine: TestEngine, servers: usize, settings: &[(String, String)]) -> Cluster {
    let database = TestDatabase::new(engine);
    let options = options(&database, settings);
    let servers = (0..servers).map(|_| Server::start(BINARY, &options)).collect();
    Cluster { database, servers }
}

/// A drop whose winners get one thing each.
fn open_item_drop(api: &Api, id: &str, capacity: usize, rewards: &Value) {
    let body = json!({
        "eventId": id, "name": "A drop", "type": "FIRST_COME", "startsAt": 1_700_000_000_000_i64,
        "endsAt": 4_000_000_000_000_i64, "capacityTotal": capacity, "rewards": rewards,
    });
    api.post("/v1/admin/events", &body).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

fn item(id: &str) -> Value {
    json!({"rewardId": id, "kind": "ITEM"})
}

fn allocations(api: &Api, query: &str) -> Vec<Value> {
    let listed = api.get(&format!("/v1/admin/allocations?limit=200&{query}")).expect(200).json();
    listed["items"].as_array().unwrap().clone()
}

fn the_one(api: &Api, reward: &str) -> Value {
    let rows = allocations(api, "");
    let of_reward: Vec<_> = rows.into_iter().filter(|row| row["rewardId"] == reward).collect();
    assert_eq!(of_reward.len(), 1, "{of_reward:?}");
    of_reward.into_iter().next().unwrap()
}

fn five_thousand_rewards_through_the_worst(engine: TestEngine, count: usize) {
    const REWARDS: usize = 5_000;
    const KILLS: usize = 8;
    let partners = Partners::start(BINARY, &["--secret", SECRET]);
    partners.faults(&json!({
        "seed": 11, "delayMs": 3, "lateMs": 600,
        "rates": {
            "fails": 0.05, "failsAfter": 0.05, "late": 0.01, "hangs": 0.005, "loses": 0.05, "busy": 0.001,
            "conflicts": 0.03,
        },
    }));
    let settings = hurried(&partners);
    // Nobody delivers while people crowd in.
    let Cluster { database, mut servers } = start(engine, count, &[]);
    open_item_drop(&operator(&servers[0]), "drop", REWARDS, &json!([item("sword")]));
    at_once(16, |caller| {
        for number in (caller..REWARDS).step_by(16) {
            let server = &servers[number % servers.len()];
            as_user(server, number).post("/v1/events/drop/requests", &json!({})).expect(202);
        }
    });
    for server in std::mem::take(&mut servers) {
        server.kill();
        servers.push(Server::start(BINARY, &options(&database, &settings)));
    }
    // What was to be delivered at once is due when its lease ends.
    let mut sql = database.sql();
    sql.run("UPDATE event_reward_allocation SET next_retry_at = 0 WHERE next_retry_at IS NOT NULL");
    let mut delivered =
        || sql.number("SELECT COUNT(*) FROM event_reward_allocation WHERE reward_status = 'SUCCESS'");
    let step = i64::try_from(REWARDS / (KILLS + 2)).unwrap();
    for kill in 1..=i64::try_from(KILLS).unwrap() {
        until("some more to be delivered", PATIENCE, || (delivered() >= step * kill).then_some(()));
        if servers.len() == 2 && kill == 4 {
            // Paused beyond its lease while another goes on, and woken again.
            let (went_on, since) = (delivered() + step, Instant::now());
            servers[1].signal("-STOP");
            until("the other to go on, and the lease to end", PATIENCE, || {
                (delivered() >= went_on && since.elapsed() > LEASE).then_some(())
            });
            servers[1].signal("-CONT");
        }
        servers.remove(0).kill();
        servers.push(Server::start(BINARY, &options(&database, &settings)));
    }
    let all = i64::try_from(REWARDS).unwrap();
    until("all to be delivered", Duration::from_mins(3), || (delivered() == all).then_some(()));
    // By the simulator's own list: each key once, and no other.
    let applied: BTreeMap<String, Value> = partners
        .applied()
        .into_iter()
        .map(|one| (one["idempotencyKey"].as_str().unwrap().to_owned(), one))
        .collect();
    assert_eq!(applied.len(), REWARDS);
    for number in 0..REWARDS {
        let one = &applied[&format!("req-drop-u-{number}-sword")];
        assert_eq!((&one["userId"], &one["revoked"]), (&json!(format!("u-{number}")), &json!(false)));
    }
    let told = database
        .sql()
        .texts("SELECT idempotency_key || ' ' || external_transaction_id FROM event_reward_allocation");
    for line in told {
        let (key, transaction) = line.split_once(' ').unwrap();
        assert_eq!(applied[key]["transactionId"], transaction, "{key}");
    }
    crate::invariants::check_lines(&database);
}

/// What is answered to a first grant, and where it leaves the row; then the provider works again, and where that ends.
fn every_row_of_the_outcome_table(engine: TestEngine, servers: usize) {
    struct Row {
        reward: &'static str,
        script: Value,
        /// The code of the trouble after the first try, where it is seen.
        code: Option<&'static str>,
        ends: &'static str,
        /// What the provider applied in the end.
        effects: usize,
    }
    let row = |reward, script, code, ends, effects| Row { reward, script, code, ends, effects };
    let plain = |status: u16| json!([{"status": status, "tells": false}]);
    let rows = [
        row("ok_200", json!([{"status": 200}]), None, "SUCCESS", 1),
        row("ok_201", json!([{"status": 201}]), None, "SUCCESS", 1),
        row("conflict_told", json!([{"status": 409, "applies": true}]), None, "SUCCESS", 1),
        row("conflict", plain(409), Some("OUTCOME_UNKNOWN"), "SUCCESS", 1),
        row("s_500", plain(500), Some("OUTCOME_UNKNOWN"), "SUCCESS", 1),
        row(
            "s_500_applied",
            json!([{"status": 500, "applies": true}]),
            Some("OUTCOME_UNKNOWN"),
            "SUCCESS",
            1,
        ),
        row("s_503", plain(503), Some("OUTCOME_UNKNOWN"), "SUCCESS", 1),
        row("timeout", json!([{"delayMs": 900, "applies": false}]), Some("OUTCOME_UNKNOWN"), "SUCCESS", 1),
        row("late", json!([{"delayMs": 900, "late": true}]), Some("OUTCOME_UNKNOWN"), "SUCCESS", 1),
        row("lost", json!([{"loses": true}]), Some("OUTCOME_UNKNOWN"), "SUCCESS", 1),
        row("s_429", json!([{"status": 429, "retryAfter": 1}]), Some("NOT_APPLIED"), "SUCCESS", 1),
        row("s_408", plain(408), Some("NOT_APPLIED"), "SUCCESS", 1),
        row("s_425", plain(425), Some("NOT_APPLIED"), "SUCCESS", 1),
        row("s_401", plain(401), Some("PROVIDER_MISCONFIGURED"), "SUCCESS", 1),
        row("s_403", plain(403), Some("PROVIDER_MISCONFIGURED"), "SUCCESS", 1),
        row("s_404", plain(404), Some("PROVIDER_MISCONFIGURED"), "SUCCESS", 1),
        row("s_405", plain(405), Some("PROVIDER_MISCONFIGURED"), "SUCCESS", 1),
        row("s_400", plain(400), Some("REFUSED"), "FAILED", 0),
        row("s_410", plain(410), Some("REFUSED"), "FAILED", 0),
        row("s_422", plain(422), Some("REFUSED"), "FAILED", 0),
        // Not final after a try whose outcome is unknown: it is asked again, and the next answer counts.
        row(
            "unknown_422",
            json!([{"status": 500, "tells": false}, {"status": 422}]),
            Some("REFUSED"),
            "FAILED",
            0,
        ),
    ];
    let partners = Partners::start(BINARY, &["--secret", SECRET]);
    let mut settings = hurried(&partners);
    // One delivery at a time, so that what is scripted for one meets no other.
    settings.push(("GUERDON_PROVIDERS__DEFAULT__CONCURRENCY".into(), "1".into()));
    let cluster = start(engine, servers, &settings);
    let api = cluster.operator(0);
    for (number, Row { reward, script, code, ends, effects }) in rows.into_iter().enumerate() {
        partners.faults(&json!({"byReward": {reward: script}}));
        let event = format!("e_{number}");
        open_item_drop(&api, &event, 1, &json!([item(reward)]));
        as_user(&cluster.servers[number % servers], 1)
            .post(&format!("/v1/events/{event}/requests"), &json!({}))
            .expect(202);
        let mut codes = Vec::new();
        let ended = until(reward, PATIENCE, || {
            let row = the_one(&api, reward);
            let seen = row["errorCode"].as_str().map(str::to_owned);
            codes.extend(seen.filter(|seen| codes.last() != Some(seen)));
            let at_its_end = row["rewardStatus"] == ends && row["nextRetryAt"].is_null();
            at_its_end.then_some(row)
        });
        assert_eq!(ended["idempotencyKey"], format!("req-{event}-u-1-{reward}"));
        if ends == "FAILED" {
            assert_eq!(ended["errorCode"], code.unwrap(), "{ended}");
        } else {
            assert!(ended["errorCode"].is_null() && ended["externalTransactionId"].is_string(), "{ended}");
            // Between the tries it was seen where the table has it, unless it was too quick.
            assert!(codes.is_empty() || codes == [code.unwrap_or("")], "{reward}: {codes:?}");
        }
        let applied = partners.applied().into_iter().filter(|one| one["rewardId"] == reward).count();
        assert_eq!(applied, effects, "{reward}");
    }
    // An operator has one tried again that had failed for good; it works now.
    partners.faults(&json!({}));
    let failed = the_one(&api, "s_422");
    let id = failed["allocationId"].as_str().unwrap();
    api.post(&format!("/v1/admin/allocations/{id}/retry"), &json!({})).expect(200);
    until("the retry to succeed", PATIENCE, || {
        (the_one(&api, "s_422")["rewardStatus"] == "SUCCESS").then_some(())
    });
    let refused = api.post(&format!("/v1/admin/allocations/{id}/cancel"), &json!({})).expect(409);
    assert_eq!(refused.code(), "ALLOCATION_REFUSED");
    crate::audit::assert_clean(&cluster.database);
}

fn a_cancel_during_a_call_ends_truthfully(engine: TestEngine, servers: usize) {
    let partners = Partners::start(BINARY, &["--secret", SECRET]);
    let cluster = start(engine, servers, &hurried(&partners));
    let api = cluster.operator(0);
    let stocked = |id: &str| json!([{"rewardId": id, "kind": "ITEM", "totalStock": 5}]);
    let remaining = |event: &str| {
        let event = api.get(&format!("/v1/admin/events/{event}")).expect(200).json();
        event["rewards"][0]["remainingStock"].as_i64().unwrap()
    };
    // What happens to the call under way; whether the provider can be asked; how the row and the provider's list end.
    let table = [
        ("applied", json!([{"delayMs": 300}]), false, "SUCCESS", Some("CANCEL_TOO_LATE"), true),
        (
            "refused",
            json!([{"status": 503, "delayMs": 300}, {"status": 503}]),
            false,
            "CANCELLED",
            None,
            false,
        ),
        ("busy", json!([{"status": 429, "delayMs": 300}]), false, "CANCELLED", None, false),
        // Applied, and told when nobody waited any more: the provider knows, and it stays delivered.
        ("told_late", json!([{"delayMs": 900}]), false, "SUCCESS", Some("CANCEL_TOO_LATE"), true),
        // Still on its way when it is cancelled: it cannot be applied after that.
        ("late", json!([{"delayMs": 2_000, "late": true}]), false, "CANCELLED", None, false),
        // Nobody can be asked: it is taken back, and can never be applied.
        (
            "unasked",
            json!([{"status": 500, "applies": true, "delayMs": 300}]),
            true,
            "CANCELLED",
            None,
            false,
        ),
    ];
    for (reward, script, no_lookup, ends, code, stands) in table {
        partners.faults(&json!({"byReward": {reward: script}, "noLookup": no_lookup}));
        let calls = partners.calls();
        open_item_drop(&api, reward, 5, &stocked(reward));
        as_user(&cluster.servers[0], 1)
            .post(&format!("/v1/events/{reward}/requests"), &json!({}))
            .expect(202);
        until("the call to be under way", PATIENCE, || (partners.calls() > calls).then_some(()));
        let id = the_one(&api, reward)["allocationId"].as_str().unwrap().to_owned();
        let asked = api.post(&format!("/v1/admin/allocations/{id}/cancel"), &json!({}));
        assert!([200, 202].contains(&asked.status), "{}", asked.text);
        let ended = until("its end", PATIENCE, || {
            let row = the_one(&api, reward);
            (row["rewardStatus"] == ends).then_some(row)
        });
        if code.is_some() {
            assert_eq!(ended["errorCode"].as_str(), code, "{ended}");
            assert!(ended["cancelRequestedAt"].is_i64(), "{ended}");
        }
        let listed = partners.applied();
        let standing = listed.iter().any(|one| one["rewardId"] == reward && one["revoked"] == json!(false));
        assert_eq!(standing, stands, "{reward}: {listed:?}");
        assert_eq!(remaining(reward), if stands { 4 } else { 5 }, "{reward}: the stock");
    }
    // One that nobody has begun is cancelled at once.
    partners.faults(&json!({"status": 401}));
    open_item_drop(&api, "waiting", 5, &stocked("waiting"));
    as_user(&cluster.servers[0], 1).post("/v1/events/waiting/requests", &json!({})).expect(202);
    let id = the_one(&api, "waiting")["allocationId"].as_str().unwrap().to_owned();
    api.post(&format!("/v1/admin/allocations/{id}/cancel"), &json!({}));
    until("it to be cancelled", PATIENCE, || {
        (the_one(&api, "waiting")["rewardStatus"] == "CANCELLED").then_some(())
    });
    assert_eq!(remaining("waiting"), 5);
    let log = api.get("/v1/admin/audit-log?limit=200").expect(200).json();
    assert!(log["items"].as_array().unwrap().iter().any(|line| line["action"] == "ALLOCATION_CANCELLED"));
    crate::audit::assert_clean(&cluster.database);
}

fn many_are_retried_in_the_background(engine: TestEngine, servers: usize) {
    const MANY: usize = 900;
    let partners = Partners::start(BINARY, &["--secret", SECRET]);
    partners.faults(&json!({"status": 422}));
    let cluster = start(engine, servers, &hurried(&partners));
    let api = cluster.operator(0);
    for event in ["a", "b"] {
        open_item_drop(&api, event, MANY, &json!([item("sword")]));
    }
    at_once(8, |caller| {
        for number in (caller..MANY).step_by(8) {
            let user = as_user(&cluster.servers[number % servers], number);
            let event = if number < 50 { "b" } else { "a" };
            user.post(&format!("/v1/events/{event}/requests"), &json!({})).expect(202);
        }
    });
    let mut sql = cluster.database.sql();
    let mut count = |which: &str| {
        let count = sql.number(&format!("SELECT COUNT(*) FROM event_reward_allocation WHERE {which}"));
        usize::try_from(count).unwrap()
    };
    let failed = "reward_status = 'FAILED' AND next_retry_at IS NULL";
    until("all to have failed", PATIENCE, || (count(failed) == MANY).then_some(()));
    partners.faults(&json!({}));
    let begun = api.post("/v1/admin/allocations/retry", &json!({"eventId": "a"})).expect(202);
    let place = begun.header("location").unwrap().to_owned();
    let done = until("the retry to be done", PATIENCE, || {
        let view = api.get(&place).expect(200).json();
        (view["status"] == "DONE").then_some(view)
    });
    assert_eq!((&done["lookedAt"], &done["retried"]), (&json!(MANY - 50), &json!(MANY - 50)), "{done}");
    until("those of the event to be delivered", PATIENCE, || {
        (count("reward_status = 'SUCCESS'") == MANY - 50).then_some(())
    });
    assert_eq!(count(failed), 50, "the others were not meant");
    let stopped = api.post(&format!("{place}/stop"), &json!({})).expect(200).json();
    assert_eq!(stopped["status"], "DONE", "what is done cannot be stopped");
    let auditor = cluster.servers[0].api().with_token(&token("auditor", "AUDITOR"));
    auditor.get(&place).expect(200);
    auditor.post("/v1/admin/allocations/retry", &json!({})).expect(403);
    let mine = as_user(&cluster.servers[0], 60).get("/v1/me/allocations").expect(200).json();
    assert_eq!(mine["items"].as_array().unwrap().len(), 1);
    assert!(mine["items"][0].get("provider").is_none(), "not for participants: {mine}");
    crate::audit::assert_clean(&cluster.database);
}

fn a_slow_provider_holds_up_nobody_else(engine: TestEngine, servers: usize) {
    let (slow, quick) = (Partners::start(BINARY, &[]), Partners::start(BINARY, &[]));
    slow.faults(&json!({"rates": {"hangs": 1.0}, "lateMs": 300}));
    let mut settings = hurried(&quick);
    settings.extend(
        [
            ("GUERDON_PROVIDERS__SLOW__URL", slow.url.as_str()),
            ("GUERDON_PROVIDERS__SLOW__TIMEOUT", "400ms"),
            ("GUERDON_PROVIDERS__SLOW__CONCURRENCY", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let cluster = start(engine, servers, &settings);
    let api = cluster.operator(0);
    let rewards = json!([{"rewardId": "crawl", "kind": "ITEM", "provider": "slow"}, item("sprint")]);
    open_item_drop(&api, "drop", 200, &rewards);
    at_once(8, |caller| {
        for number in (caller..200).step_by(8) {
            as_user(&cluster.servers[number % servers], number)
                .post("/v1/events/drop/requests", &json!({}))
                .expect(202);
        }
    });
    let mut sql = cluster.database.sql();
    let mut delivered = |reward: &str| {
        sql.number(&format!(
            "SELECT COUNT(*) FROM event_reward_allocation WHERE reward_id = '{reward}' AND reward_status = 'SUCCESS'"
        ))
    };
    until("the quick ones", PATIENCE, || (delivered("sprint") == 200).then_some(()));
    assert_eq!(delivered("crawl"), 0, "nothing came from the slow one");
    until("the breaker to open", PATIENCE, || (cluster.metric("guerdon_breaker_open") > 0.5).then_some(()));
    slow.faults(&json!({}));
    until("the slow ones, once it is well", PATIENCE, || (delivered("crawl") == 200).then_some(()));
    until("the breaker to be closed", PATIENCE, || {
        (cluster.metric("guerdon_breaker_open") < 0.5).then_some(())
    });
    crate::audit::assert_clean(&cluster.database);
}

/// An operator whose token is still good when the server's clock is ahead.
fn lasting_operator(server: &Server) -> Api {
    let claims = json!({"sub": "op", "roles": ["OPERATOR"], "exp": seconds_now() + 20_000});
    server.api().with_token(&sign(&claims))
}

/// The provider's secret was exchanged and ours was not: nothing fails for good, and no try is used up.
#[test]
fn a_secret_that_was_rotated_fails_nothing() {
    let partners = Partners::start(BINARY, &["--secret", "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4"]);
    let mut settings = hurried(&partners);
    settings.push(("GUERDON_ALLOCATIONS__MAX_ATTEMPTS".into(), "1".into()));
    let Cluster { database, mut servers } = start(TestEngine::Sqlite, 1, &settings);
    open_item_drop(&operator(&servers[0]), "drop", 20, &json!([item("sword")]));
    for number in 0..20 {
        as_user(&servers[0], number).post("/v1/events/drop/requests", &json!({})).expect(202);
    }
    let api = operator(&servers[0]);
    until("several tries", PATIENCE, || (partners.calls() >= 3).then_some(()));
    assert!(partners.applied().is_empty());
    assert!((servers[0].api().metric("guerdon_breaker_open") - 1.0).abs() < 0.1);
    let rows = allocations(&api, "");
    assert!(rows.iter().all(|row| row["retryCount"] == 0 && !row["nextRetryAt"].is_null()), "{rows:?}");
    assert!(rows.iter().any(|row| row["errorCode"] == "PROVIDER_MISCONFIGURED"));
    servers.remove(0).stop();
    // Half an hour and an hour later, by the server's clock, it is still so.
    for offset in ["30m", "60m"] {
        let later = options(&database, &settings).with("GUERDON_DEV__CLOCK_OFFSET", offset);
        let (server, calls) = (Server::start(BINARY, &later), partners.calls());
        until("more tries", PATIENCE, || (partners.calls() >= calls + 2).then_some(()));
        let rows = allocations(&lasting_operator(&server), "");
        assert!(rows.iter().all(|row| row["retryCount"] == 0 && !row["nextRetryAt"].is_null()), "{rows:?}");
        server.stop();
    }
    let secret = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4".to_owned();
    settings.push(("GUERDON_PROVIDERS__DEFAULT__SECRET".into(), secret));
    settings.push(("GUERDON_DEV__CLOCK_OFFSET".into(), "61m".into()));
    let server = Server::start(BINARY, &options(&database, &settings));
    until("all to be delivered", PATIENCE, || {
        (allocations(&lasting_operator(&server), "status=SUCCESS").len() == 20).then_some(())
    });
    assert_eq!(partners.applied().len(), 20);
    crate::audit::assert_clean(&database);
}

/// Nobody is there: known not to be applied, tried again, and delivered once somebody is.
#[test]
fn a_provider_that_refuses_connections_costs_only_time() {
    let address = format!("127.0.0.1:{}", guerdon_harness::free_port());
    let cluster = start(TestEngine::Sqlite, 1, &hurried_at(&format!("http://{address}")));
    let api = cluster.operator(0);
    open_item_drop(&api, "drop", 1, &json!([item("sword")]));
    as_user(&cluster.servers[0], 1).post("/v1/events/drop/requests", &json!({})).expect(202);
    let row = until("a try", PATIENCE, || {
        let row = the_one(&api, "sword");
        (row["retryCount"].as_i64() > Some(0)).then_some(row)
    });
    assert_eq!((&row["errorCode"], &row["outcomeUnknown"]), (&json!("NOT_APPLIED"), &json!(false)), "{row}");
    let partners = Partners::start_at(BINARY, &address, &[]);
    until("it to be delivered", PATIENCE, || {
        (the_one(&api, "sword")["rewardStatus"] == "SUCCESS").then_some(())
    });
    assert_eq!(partners.applied().len(), 1);
}

/// A reward whose provider nobody configured waits, and says what for.
#[test]
fn a_provider_that_is_not_configured_is_told_of() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    let api = cluster.operator(0);
    open_item_drop(&api, "drop", 1, &json!([{"rewardId": "sword", "kind": "ITEM", "provider": "nobody"}]));
    as_user(&cluster.servers[0], 1).post("/v1/events/drop/requests", &json!({})).expect(202);
    // It is found when it is due; an operator has it tried now.
    let id = the_one(&api, "sword")["allocationId"].as_str().unwrap().to_owned();
    api.post(&format!("/v1/admin/allocations/{id}/retry"), &json!({})).expect(200);
    let row = until("the row to say so", PATIENCE, || {
        let row = the_one(&api, "sword");
        (row["errorCode"] == "PROVIDER_MISCONFIGURED").then_some(row)
    });
    assert_eq!(row["errorMessage"], "no provider of this name is configured");
    assert_eq!((&row["retryCount"], row["nextRetryAt"].is_i64()), (&json!(0), true));
    assert!(cluster.servers[0].log_text().contains("rewards wait for a provider that is not configured"));
}

/// What is due is found through its index, however much is done: by the plans of both engines.
fn the_retry_batch_reads_only_what_is_due(engine: TestEngine) {
    let partners = Partners::start(BINARY, &["--secret", SECRET]);
    partners.faults(&json!({"status": 401}));
    let cluster = start(engine, 1, &hurried(&partners));
    let api = cluster.operator(0);
    open_item_drop(&api, "drop", 10, &json!([item("sword")]));
    for number in 0..10 {
        as_user(&cluster.servers[0], number).post("/v1/events/drop/requests", &json!({})).expect(202);
    }
    let mut sql = cluster.database.sql();
    let columns =
        "event_id, member_id, request_id, reward_id, reward_status, retry_count, epoch, outcome_unknown,
        created_at, provider, processed_at";
    let values =
        "event_id, member_id, request_id, reward_id, 'SUCCESS', 0, 1, 0, created_at, provider, created_at";
    let many = match engine {
        TestEngine::Sqlite => format!(
            "INSERT INTO event_reward_allocation (allocation_id, idempotency_key, {columns})
             SELECT randomblob(16), 'done-' || n, {values} FROM (SELECT * FROM event_reward_allocation LIMIT 1),
             (WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 50000) SELECT n FROM t);
             ANALYZE"
        ),
        TestEngine::Postgres => format!(
            "INSERT INTO event_reward_allocation (allocation_id, idempotency_key, {columns})
             SELECT decode(md5('' || n), 'hex'), 'done-' || n, {values}
             FROM (SELECT * FROM event_reward_allocation LIMIT 1) one, generate_series(1, 50000) n;
             ANALYZE event_reward_allocation"
        ),
    };
    sql.run(&many);
    let due = "SELECT allocation_id FROM event_reward_allocation WHERE provider = 'default' AND next_retry_at <= 4000000000000
        AND reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED' AND next_retry_at IS NOT NULL
        ORDER BY next_retry_at LIMIT 100";
    let plan = match &mut sql {
        guerdon_harness::database::Sql::Sqlite(connection) => {
            let mut prepared = connection.prepare(&format!("EXPLAIN QUERY PLAN {due}")).unwrap();
            let rows = prepared.query_map([], |row| row.get::<_, String>(3)).unwrap();
            rows.map(Result::unwrap).collect::<Vec<_>>()
        }
        guerdon_harness::database::Sql::Postgres(_) => sql.texts(&format!("EXPLAIN {due}")),
    };
    let text = plan.join("\n");
    assert!(text.contains("event_reward_allocation_due"), "{text}");
    assert!(!text.contains("Seq Scan") && !text.contains("Sort") && !text.contains("TEMP B-TREE"), "{text}");
    partners.faults(&json!({}));
    until("what is due to be delivered", PATIENCE, || (partners.applied().len() == 10).then_some(()));
}

#[test]
fn sqlite_the_retry_batch_reads_only_what_is_due() {
    the_retry_batch_reads_only_what_is_due(TestEngine::Sqlite);
}

#[test]
fn postgres_the_retry_batch_reads_only_what_is_due() {
    the_retry_batch_reads_only_what_is_due(TestEngine::Postgres);
}

/// An event that is cancelled takes back what it had yet to give, and leaves what was given.
#[test]
fn a_cancelled_event_gives_nothing_more() {
    let partners = Partners::start(BINARY, &["--secret", SECRET]);
    let cluster = start(TestEngine::Sqlite, 1, &hurried(&partners));
    let api = cluster.operator(0);
    let body = json!({
        "eventId": "daily", "name": "Daily", "type": "ATTENDANCE", "startsAt": 1_700_000_000_000_i64,
        "endsAt": 4_000_000_000_000_i64, "rewards": [{"rewardId": "gift", "kind": "ITEM", "totalStock": 50}],
        "attendance": {"daily": "gift"},
    });
    api.post("/v1/admin/events", &body).expect(201);
    api.post("/v1/admin/events/daily/open", &json!({})).expect(200);
    let check_in = |number: usize| {
        as_user(&cluster.servers[0], number).post("/v1/events/daily/attendance", &json!({})).expect(201);
    };
    (0..5).for_each(check_in);
    until("the first to be delivered", PATIENCE, || (partners.applied().len() == 5).then_some(()));
    partners.faults(&json!({"status": 401}));
    (5..15).for_each(check_in);
    api.post("/v1/admin/events/daily/cancel", &json!({})).expect(200);
    until("the rest to be cancelled", PATIENCE, || {
        (allocations(&api, "status=CANCELLED").len() == 10).then_some(())
    });
    until("the first to be noted", PATIENCE, || {
        (allocations(&api, "status=SUCCESS").len() == 5).then_some(())
    });
    let event = api.get("/v1/admin/events/daily").expect(200).json();
    assert_eq!(event["rewards"][0]["remainingStock"], 45);
    crate::audit::assert_clean(&cluster.database);
}
