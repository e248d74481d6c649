//! Attendance and random games: days of the calendar, milestones, odds, stock and limits, also raced from two servers.

use crate::support::{
    BINARY, Cluster, as_user, at_once, for_every_setup, on_every_setup, operator, seconds_now, token,
};
use guerdon_harness::{Api, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

on_every_setup! {
    many_check_ins_at_once_are_one
    a_limit_that_is_raced_holds
    a_play_is_never_drawn_again
    odds_change_at_their_time_and_not_before
}
for_every_setup! { a_streak_goes_on_over_a_change_of_clocks a_day_ends_at_midnight }

const PATIENCE: Duration = Duration::from_secs(30);

fn event(id: &str, kind: &str, rewards: Value) -> Value {
    json!({
        "eventId": id, "name": "An event", "type": kind, "startsAt": 1_600_000_000_000_i64,
        "endsAt": 4_000_000_000_000_i64, "rewards": rewards,
    })
}

fn open(api: &Api, body: &Value) {
    api.post("/v1/admin/events", body).expect(201);
    let id = body["eventId"].as_str().unwrap();
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

fn points() -> Value {
    json!({"rewardId": "points", "kind": "POINT", "amount": 10, "currency": "POINT"})
}

fn play(user: &Api, event: &str, key: &str) -> guerdon_harness::Answer {
    user.send("POST", &format!("/v1/events/{event}/plays"), &[("idempotency-key", key)], None)
}

/// What a user has in POINT, once everything was paid out.
fn balance(cluster: &Cluster, number: usize) -> f64 {
    until("the rewards to be paid out", PATIENCE, || {
        let open = "SELECT COUNT(*) FROM event_reward_allocation WHERE reward_status <> 'SUCCESS'";
        (cluster.database.sql().number(open) == 0).then_some(())
    });
    let accounts = as_user(&cluster.servers[0], number).get("/v1/me/accounts").expect(200).json();
    accounts["items"][0]["balance"].as_f64().unwrap_or(0.0)
}

fn many_check_ins_at_once_are_one(cluster: &Cluster) {
    let mut body = event("daily", "ATTENDANCE", json!([points()]));
    body["attendance"] = json!({"daily": "points"});
    open(&cluster.operator(0), &body);
    let answers = at_once(100, |number| {
        let server = &cluster.servers[number % cluster.servers.len()];
        as_user(server, 1).post("/v1/events/daily/attendance", &json!({}))
    });
    let new = answers.iter().filter(|answer| answer.status == 201).count();
    let again = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!((new, again), (1, 99), "{:?}", answers.iter().find(|answer| answer.status > 201));
    let entries: BTreeSet<_> = answers.iter().map(|answer| answer.json()["entryId"].to_string()).collect();
    assert_eq!(entries.len(), 1);
    assert!((balance(cluster, 1) - 10.0).abs() < 0.01, "paid once");
    let calendar = as_user(&cluster.servers[0], 1).get("/v1/events/daily/attendance").expect(200).json();
    assert_eq!((&calendar["totalDays"], &calendar["streak"]), (&json!(1), &json!(1)));
    assert_eq!(calendar["days"].as_array().unwrap().len(), 1);
    let nobody = as_user(&cluster.servers[0], 2).get("/v1/events/daily/attendance").expect(200).json();
    assert_eq!((&nobody["totalDays"], &nobody["checkedInToday"]), (&json!(0), &json!(false)));
    crate::audit::assert_clean(&cluster.database);
}

/// Milliseconds from now until a moment, as a setting of the server's clock.
fn offset_to(moment_ms: i64) -> String {
    format!("{}ms", moment_ms - seconds_now() * 1_000)
}

/// Servers whose clocks stand at a moment.
fn servers_at(database: &TestDatabase, count: usize, moment_ms: i64) -> Vec<Server> {
    let offset = offset_to(moment_ms);
    let options = ServerOptions::on(&database.url).with("GUERDON_DEV__CLOCK_OFFSET", &offset);
    (0..count).map(|_| Server::start(BINARY, &options)).collect()
}

/// 2026-03-06, noon in New York: the clocks there go forward in the night to the 8th.
const NEW_YORK_NOON: i64 = 1_772_816_400_000;
const DAY: i64 = 86_400_000;
const HOUR: i64 = 3_600_000;

fn a_streak_goes_on_over_a_change_of_clocks(engine: TestEngine, servers: usize) {
    let database = TestDatabase::new(engine);
    let mut body = event(
        "ny",
        "ATTENDANCE",
        json!([points(), {"rewardId": "bonus", "kind": "POINT", "amount": 100, "currency": "POINT"}]),
    );
    body["attendance"] = json!({
        "timeZone": "America/New_York", "count": "STREAK", "daily": "points",
        "bonus": [{"days": 3, "rewardId": "bonus"}],
    });
    // Late on the 6th, early and late around the change, and on the day after; then a day is left out.
    let moments = [
        (NEW_YORK_NOON, "2026-03-06", 1),
        (NEW_YORK_NOON + DAY + 11 * HOUR, "2026-03-07", 2),
        (NEW_YORK_NOON + 2 * DAY - HOUR, "2026-03-08", 3),
        (NEW_YORK_NOON + 2 * DAY + 10 * HOUR, "2026-03-08", 3),
        (NEW_YORK_NOON + 3 * DAY - 13 * HOUR, "2026-03-09", 4),
        (NEW_YORK_NOON + 5 * DAY, "2026-03-11", 1),
    ];
    let mut seen = BTreeSet::new();
    for (number, (moment, date, streak)) in moments.into_iter().enumerate() {
        let running = servers_at(&database, servers, moment);
        if number == 0 {
            open(&operator(&running[0]), &body);
        }
        let answer = as_user(&running[number % servers], 1).post("/v1/events/ny/attendance", &json!({}));
        answer.clone().expect(if seen.insert(date) { 201 } else { 200 });
        let view = answer.json();
        assert_eq!((&view["date"], &view["streak"]), (&json!(date), &json!(streak)), "{view}");
        let keys: Vec<_> = view["allocations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["idempotencyKey"].as_str().unwrap().to_owned())
            .collect();
        let mut expected = vec![format!("att-ny-u-1-{date}-DAILY")];
        if streak == 3 {
            expected.push(format!("att-ny-u-1-{date}-BONUS-3"));
        }
        assert_eq!(keys, expected);
        for server in running {
            server.stop();
        }
    }
    crate::audit::assert_clean(&database);
}

fn a_day_ends_at_midnight(engine: TestEngine, servers: usize) {
    let database = TestDatabase::new(engine);
    // 2026-03-06 00:00 in Seoul is 2026-03-05 15:00 UTC. The server's clock is set short of it, so that check-ins before
    // and after come from one running server.
    let midnight = 1_772_722_800_000_i64;
    let running = servers_at(&database, servers, midnight - 4_000);
    let mut body = event("seoul", "ATTENDANCE", json!([points()]));
    body["attendance"] = json!({"daily": "points"});
    open(&operator(&running[0]), &body);
    let mut days: BTreeMap<String, (i64, i64)> = BTreeMap::new();
    until("both days to be seen", PATIENCE, || {
        // Somebody else each time: whoever comes before midnight belongs to the day before.
        let number = usize::try_from(days.values().map(|(_, count)| count).sum::<i64>()).unwrap();
        let user = as_user(&running[number % servers], number);
        let view = user.post("/v1/events/seoul/attendance", &json!({})).expect(201).json();
        let (date, at) = (view["date"].as_str().unwrap().to_owned(), view["checkedInAt"].as_i64().unwrap());
        let expected = if at < midnight { "2026-03-05" } else { "2026-03-06" };
        assert_eq!(date, expected, "at {at}, {} ms from midnight", at - midnight);
        days.entry(date).or_insert((at, 0)).1 += 1;
        (days.len() == 2).then_some(())
    });
    crate::audit::assert_clean(&database);
}

fn a_limit_that_is_raced_holds(cluster: &Cluster) {
    let mut body = event("wheel", "RANDOM", json!([points()]));
    body["random"] = json!({"perUser": 1, "prizes": [{"rewardId": "points", "weight": 1}]});
    open(&cluster.operator(0), &body);
    let mut daily = event("three", "RANDOM", json!([points()]));
    daily["random"] = json!({"perDay": 3, "prizes": [{"rewardId": "points", "weight": 1}]});
    open(&cluster.operator(0), &daily);
    let answers = at_once(40, |number| {
        let server = &cluster.servers[number % cluster.servers.len()];
        let event = if number < 20 { "wheel" } else { "three" };
        (event, play(&as_user(server, 1), event, &format!("k-{number}")))
    });
    for (event, allowed) in [("wheel", 1), ("three", 3)] {
        let played = answers.iter().filter(|(name, answer)| *name == event && answer.status == 201).count();
        let refused = answers.iter().filter(|(name, answer)| *name == event && answer.status == 409);
        assert_eq!(played, allowed, "{event}");
        assert!(refused.clone().all(|(_, answer)| answer.code() == "PLAY_LIMIT_REACHED"));
        assert_eq!(refused.count(), 20 - allowed);
    }
    assert!((balance(cluster, 1) - 40.0).abs() < 0.01);
    crate::audit::assert_clean(&cluster.database);
}

fn a_play_is_never_drawn_again(cluster: &Cluster) {
    let mut body = event("wheel", "RANDOM", json!([points()]));
    let prizes: Vec<_> = (1..=50).map(|weight| json!({"rewardId": null, "weight": weight})).collect();
    body["random"] = json!({"prizes": prizes});
    open(&cluster.operator(0), &body);
    let other = {
        let mut other = body.clone();
        other["eventId"] = json!("other");
        other
    };
    open(&cluster.operator(0), &other);
    let answers = at_once(30, |number| {
        let server = &cluster.servers[number % cluster.servers.len()];
        play(&as_user(server, 1), "wheel", "the-one").expect(201).json()
    });
    let plays: BTreeSet<_> = answers.iter().map(|view| view["logId"].to_string()).collect();
    assert_eq!(plays.len(), 1);
    assert_eq!(cluster.database.sql().number("SELECT COUNT(*) FROM event_entry"), 1);
    let elsewhere = play(&as_user(&cluster.servers[0], 1), "other", "the-one").expect(409);
    assert_eq!(elsewhere.code(), "IDEMPOTENCY_HASH_MISMATCH");
    // Another person's key of the same name is another key.
    play(&as_user(&cluster.servers[0], 2), "wheel", "the-one").expect(201);
    crate::audit::assert_clean(&cluster.database);
}

fn odds_change_at_their_time_and_not_before(cluster: &Cluster) {
    let api = cluster.operator(0);
    let mut body = event("wheel", "RANDOM", json!([points()]));
    body["random"] =
        json!({"prizes": [{"rewardId": null, "weight": 1}, {"rewardId": "points", "weight": 0}]});
    open(&api, &body);
    let (user, at) = (as_user(&cluster.servers[0], 1), (seconds_now() + 3) * 1_000);
    let change = json!({"random": {
        "prizes": [{"rewardId": null, "weight": 0}, {"rewardId": "points", "weight": 1}], "effectiveAt": at,
    }});
    api.send("PATCH", "/v1/admin/events/wheel", &[], Some(&change.to_string())).expect(200);
    let early = json!({"random": {"prizes": [{"rewardId": "points", "weight": 1}], "effectiveAt": 1}});
    let refused = api.send("PATCH", "/v1/admin/events/wheel", &[], Some(&early.to_string())).expect(422);
    assert_eq!(refused.json()["fields"][0]["path"], "random.effectiveAt");
    let odds = user.get("/v1/events/wheel/odds").expect(200).json();
    assert_eq!((&odds["version"], &odds["upcoming"][0]["version"]), (&json!(1), &json!(2)));
    assert_eq!(odds["prizes"][0]["probability"], 1.0);
    let mut number = 0;
    let seen = until("the new odds", PATIENCE, || {
        number += 1;
        let view = play(&user, "wheel", &format!("k-{number}")).expect(201).json();
        let version = if view["playedAt"].as_i64().unwrap() < at { 1 } else { 2 };
        assert_eq!(view["oddsVersion"], version, "{view}");
        assert_eq!(view["prize"]["rewardId"].is_string(), version == 2, "{view}");
        (version == 2).then_some(view)
    });
    assert_eq!(seen["allocation"]["rewardId"], "points");
    assert_eq!(user.get("/v1/events/wheel/odds").expect(200).json()["version"], 2);
    crate::audit::assert_clean(&cluster.database);
}

/// 100,000 plays: what was drawn fits the odds, and a prize of ten was given ten times.
fn many_plays(engine: TestEngine) {
    const PLAYS: usize = 100_000;
    const CALLERS: usize = 32;
    let cluster = Cluster::start(engine, 1);
    let mut body = event(
        "wheel",
        "RANDOM",
        json!([points(), {"rewardId": "gem", "kind": "POINT", "amount": 1, "currency": "GEM", "totalStock": 10}]),
    );
    body["random"] = json!({
        "prizes": [{"rewardId": "gem", "weight": 5}, {"rewardId": "points", "weight": 15}, {"rewardId": null, "weight": 80}],
        "fallback": "points",
    });
    open(&cluster.operator(0), &body);
    at_once(CALLERS, |caller| {
        let user = as_user(&cluster.servers[0], caller);
        for number in 0..PLAYS / CALLERS {
            play(&user, "wheel", &format!("k-{number}")).expect(201);
        }
    });
    let mut sql = cluster.database.sql();
    let mut count = |which: &str| sql.number(&format!("SELECT COUNT(*) FROM event_entry WHERE {which}"));
    let drawn = [count("drawn = 0"), count("drawn = 1"), count("drawn = 2")];
    assert_eq!(drawn.iter().sum::<i64>(), i64::try_from(PLAYS).unwrap());
    // Chi-square with two degrees of freedom is beyond 27.6 once in a million times.
    let chi: f64 = drawn
        .iter()
        .zip([5_000.0, 15_000.0, 80_000.0])
        .map(|(seen, expected)| (f64::from(u32::try_from(*seen).unwrap()) - expected).powi(2) / expected)
        .sum();
    assert!(chi < 27.6, "{drawn:?}: chi-square {chi}");
    assert_eq!(count("reward_id = 'gem'"), 10, "all of the stock, and no more");
    assert_eq!(count("drawn = 0 AND reward_id = 'points'"), drawn[0] - 10, "the fallback");
    until("the rewards to be paid out", Duration::from_mins(2), || {
        let open = "SELECT COUNT(*) FROM event_reward_allocation WHERE reward_status <> 'SUCCESS'";
        (sql.number(open) == 0).then_some(())
    });
    let report = crate::audit::assert_clean(&cluster.database);
    let odds = report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "odds").unwrap();
    assert!(odds["detail"].as_str().unwrap().contains("over 100000 plays"), "{odds}");
}

#[test]
fn sqlite_a_hundred_thousand_plays() {
    many_plays(TestEngine::Sqlite);
}

#[test]
fn postgres_a_hundred_thousand_plays() {
    many_plays(TestEngine::Postgres);
}

#[test]
fn ids_that_would_make_two_keys_equal_are_refused() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    let api = cluster.operator(0);
    for (field, id) in [("eventId", "a-b"), ("eventId", "a/b"), ("rewardId", "r-1"), ("rewardId", "r#1")] {
        let mut body = event("fine", "ATTENDANCE", json!([points()]));
        body["attendance"] = json!({"daily": "points"});
        if field == "eventId" {
            body["eventId"] = json!(id);
        } else {
            body["rewards"][0]["rewardId"] = json!(id);
            body["attendance"]["daily"] = json!(id);
        }
        let refused = api.post("/v1/admin/events", &body).expect(422).json();
        let path = refused["fields"][0]["path"].as_str().unwrap();
        assert!(path.ends_with(field), "{refused}");
    }
    // A user's name may have hyphens: what follows it tells where it ends.
    let mut body = event("fine", "ATTENDANCE", json!([points()]));
    body["attendance"] = json!({"daily": "points"});
    open(&api, &body);
    for user in ["x", "x-2026-03-05", "x-2026-03-05-DAILY"] {
        let api = cluster.servers[0].api().with_token(&token(user, "USER"));
        let view = api.post("/v1/events/fine/attendance", &json!({})).expect(201).json();
        let date = view["date"].as_str().unwrap();
        assert_eq!(view["allocations"][0]["idempotencyKey"], format!("att-fine-{user}-{date}-DAILY"));
    }
}
