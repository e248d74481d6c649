//! The audit finds what was tampered with, names it, and finds nothing where nothing was, also under load.

mod forgeries;

use crate::support::{
    BINARY, Cluster, as_user, at_once, on_every_setup, open_drop, operator, seconds_now, token,
};
use crate::wallet;
use forgeries::{DROP, FORGERIES, ON_SQLITE};
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Who has what, on SQLite, where it is an index of its own and its tail.
const COUPON_HOLDERS: &str = "UPDATE user_coupon_holders SET user_id = 'u-0' WHERE user_id = 'u-2';
    UPDATE user_coupon_tail SET user_id = 'u-0' WHERE user_id = 'u-2'";

/// What `guerdon audit --json` says, and its exit code.
pub(crate) fn audit(database: &TestDatabase) -> (Option<i32>, Value) {
    let output = Command::new(BINARY)
        .args(["audit", "--json", "--fast"])
        .env("GUERDON_DATABASE", &database.url)
        .output()
        .unwrap();
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), report)
}

/// The checks that failed, with what they found.
fn failed(report: &Value) -> Vec<(String, String)> {
    let checks = report["checks"].as_array().unwrap();
    let bad = checks.iter().filter(|check| check["ok"] == false);
    bad.map(|check| (check["name"].as_str().unwrap().to_owned(), check["failures"].to_string())).collect()
}

pub(crate) fn assert_clean(database: &TestDatabase) -> Value {
    let (code, report) = audit(database);
    assert_eq!(failed(&report), [], "{report:#}");
    assert_eq!((code, &report["ok"]), (Some(0), &json!(true)));
    report
}

/// A drop of 5 with 20 people, a lottery of 3 with 10, drawn and settled, and one that still collects.
fn eventful(engine: TestEngine) -> TestDatabase {
    let database = TestDatabase::new(engine);
    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    let api = operator(&server);
    move_money(&server);
    open_drop(&api, "drop_1", 5);
    let lottery = json!({
        "eventId": "tombola", "name": "A lottery", "type": "LOTTERY", "startsAt": 1_700_000_000_000_i64,
        "endsAt": 4_000_000_000_000_i64, "capacityTotal": 3, "lotteryCutoffAt": (seconds_now() + 3_600) * 1_000,
        "rewards": [{"rewardId": "gift", "kind": "ITEM", "totalStock": 9}],
    });
    api.post("/v1/admin/events", &lottery).expect(201);
    api.post("/v1/admin/events/tombola/open", &json!({})).expect(200);
    let mut collecting = lottery.clone();
    collecting["eventId"] = json!("later");
    collecting["lotteryCutoffAt"] = json!((seconds_now() + 10_000_000) * 1_000);
    api.post("/v1/admin/events", &collecting).expect(201);
    api.post("/v1/admin/events/later/open", &json!({})).expect(200);
    for number in 0..20 {
        as_user(&server, number).post("/v1/events/drop_1/requests", &json!({})).expect(202);
        if number < 10 {
            as_user(&server, number).post("/v1/events/tombola/requests", &json!({})).expect(202);
            as_user(&server, number).post("/v1/events/later/requests", &json!({})).expect(202);
        }
    }
    api.post("/v1/admin/events/drop_1/close", &json!({})).expect(200);
    take_part(&server);
    claim_some(&server);
    issue_coupons(&server);
    until("the rewards to be paid out", Duration::from_secs(30), || {
        let open = "SELECT COUNT(*) FROM event_reward_allocation WHERE provider = 'wallet' AND reward_status <> 'SUCCESS'";
        (database.sql().number(open) == 0).then_some(())
    });
    server.stop();
    let later = ServerOptions::on(&database.url).with("GUERDON_DEV__CLOCK_OFFSET", "120m");
    let server = Server::start(BINARY, &later);
    until("the lottery to be settled", Duration::from_secs(30), || {
        (database.sql().number("SELECT MAX(settled_position) FROM draws") == 10).then_some(())
    });
    server.stop();
    database
}

/// Thirty people check in and play a game of even odds twice each.
fn take_part(server: &Server) {
    let api = operator(server);
    let rewards = json!([
        {"rewardId": "points", "kind": "POINT", "amount": 10, "currency": "POINT"},
        {"rewardId": "gem", "kind": "POINT", "amount": 1, "currency": "GEM", "totalStock": 100},
    ]);
    let body = |id: &str, kind: &str| {
        json!({
            "eventId": id, "name": "An event", "type": kind, "startsAt": 1_700_000_000_000_i64,
            "endsAt": 4_000_000_000_000_i64, "rewards": rewards,
        })
    };
    let mut daily = body("daily", "ATTENDANCE");
    daily["attendance"] = json!({"daily": "points", "bonus": [{"days": 1, "rewardId": "gem"}]});
    let mut wheel = body("wheel", "RANDOM");
    wheel["random"] =
        json!({"prizes": [{"rewardId": "points", "weight": 1}, {"rewardId": "gem", "weight": 1}]});
    for event in [daily, wheel] {
        api.post("/v1/admin/events", &event).expect(201);
        let id = event["eventId"].as_str().unwrap();
        api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
    }
    for number in 0..30 {
        let user = as_user(server, number);
        user.post("/v1/events/daily/attendance", &json!({})).expect(201);
        for key in ["first", "second"] {
            user.send("POST", "/v1/events/wheel/plays", &[("idempotency-key", key)], None).expect(201);
        }
    }
}

/// Five claims that are granted, and three that are undone because nobody delivers one of their rewards.
fn claim_some(server: &Server) {
    let api = operator(server);
    let mut rewards = vec![
        json!({"rewardId": "points", "kind": "POINT", "amount": 10, "currency": "POINT"}),
        json!({"rewardId": "gem", "kind": "POINT", "amount": 1, "currency": "GEM", "totalStock": 100}),
    ];
    for (event, claims) in [("gift", 5), ("vain", 3)] {
        if event == "vain" {
            rewards.push(json!({"rewardId": "sword", "kind": "ITEM", "totalStock": 100}));
        }
        let body = json!({
            "eventId": event, "name": "A gift", "type": "CLAIM", "startsAt": 1_700_000_000_000_i64,
            "endsAt": 4_000_000_000_000_i64, "rewards": rewards,
        });
        api.post("/v1/admin/events", &body).expect(201);
        api.post(&format!("/v1/admin/events/{event}/open"), &json!({})).expect(200);
        for number in 0..claims {
            let key = format!("{event}-{number:04}");
            let path = format!("/v1/event-claims/{event}/claim");
            let answer = as_user(server, number).send("POST", &path, &[("idempotency-key", &key)], None);
            assert_eq!(answer.status, if event == "gift" { 200 } else { 502 }, "{}", answer.text);
        }
    }
}

/// Eight people for five coupons, of which one is used and one is taken back.
fn issue_coupons(server: &Server) {
    let api = operator(server);
    let coupon = json!({"couponId": "ten", "name": "Ten off", "totalQuantity": 5});
    api.post("/v1/admin/coupons", &coupon).expect(201);
    let held: Vec<_> = (0..8)
        .map(|number| {
            let path = "/v1/coupons/ten/issue";
            as_user(server, number).send("POST", path, &[("idempotency-key", "first")], None).json()
        })
        .collect();
    let id = |number: usize| held[number]["userCouponId"].as_str().unwrap();
    let order = json!({"orderId": "o-1"});
    as_user(server, 0).post(&format!("/v1/user-coupons/{}/use", id(0)), &order).expect(200);
    api.post(&format!("/v1/admin/user-coupons/{}/revoke", id(1)), &json!({"note": "n"})).expect(200);
}

/// Ann was given 100, paid Bob 30 and then 20, and got 5 of the first back.
fn move_money(server: &Server) {
    let (api, ann) = (operator(server), server.api().with_token(&token("ann", "USER")));
    let [one, two] = ["ann", "bob"].map(|owner| wallet::open_account(&api, owner, "KRW", 0));
    wallet::deposit(&api, one, "100", "first").expect(200);
    let paid = wallet::transfer(&ann, &wallet::new_key(&ann), one, two, "30").expect(200).json();
    wallet::transfer(&ann, &wallet::new_key(&ann), one, two, "20").expect(200);
    wallet::transfer(&ann, &wallet::new_key(&ann), one, two, "20000").expect(422);
    wallet::refund(&api, paid["transferId"].as_str().unwrap(), "back", r#"{"amount": 5}"#).expect(200);
    wallet::new_key(&ann);
}

fn each_forgery_is_found(engine: TestEngine) {
    let database = eventful(engine);
    let clean = assert_clean(&database);
    for check in clean["checks"].as_array().unwrap() {
        let looked = check["name"] == "readable" || check["checked"].as_u64().unwrap() > 0;
        assert!(looked, "nothing was looked at: {check}");
    }
    let sqlite = engine == TestEngine::Sqlite;
    for forgery in FORGERIES.iter().chain(if sqlite { ON_SQLITE } else { &[] }) {
        let copy = database.copy();
        let mut sql = copy.sql();
        for statement in forgery.sql {
            let statement = statement
                .replace("{DROP}", DROP)
                .replace(
                    "{OUTBOX}",
                    if sqlite { "integration_outbox_events" } else { "integration.outbox_events" },
                )
                .replace("{BLOB}", if sqlite { "randomblob(16)" } else { "decode(md5('x'), 'hex')" })
                .replace("{COUPON_KEYS}", if sqlite { COUPON_HOLDERS } else { "DROP INDEX user_coupon_key" })
                .replace(
                    "{COUPON_PLACES}",
                    if sqlite {
                        COUPON_HOLDERS
                    } else {
                        "DROP INDEX user_coupon_key; DROP INDEX user_coupon_slot"
                    },
                )
                .replace("{UNIQUE}", if sqlite { "SELECT 1" } else { "DROP INDEX requests_by_user" });
            let tables =
                ["core.account", "core.transfer", "core.ledger_entry", "integration.idempotency_key"];
            let statement = tables
                .iter()
                .fold(statement, |text, name| text.replace(&format!("{{{name}}}"), &sql.table(name)));
            sql.run(&statement);
        }
        drop(sql);
        let (code, report) = audit(&copy);
        let found = failed(&report);
        let named = found.iter().any(|(check, said)| check == forgery.check && said.contains(forgery.names));
        assert!(named, "{}: {found:#?}", forgery.what);
        assert_eq!((code, &report["ok"]), (Some(1), &json!(false)), "{}", forgery.what);
    }
}

#[test]
fn sqlite_each_forgery_is_found() {
    each_forgery_is_found(TestEngine::Sqlite);
}

#[test]
fn postgres_each_forgery_is_found() {
    each_forgery_is_found(TestEngine::Postgres);
}

on_every_setup! { the_audit_stays_clean_under_load the_audit_over_http }

/// Audits one after the other while people crowd in, an event is cancelled and operators go about their work.
fn the_audit_stays_clean_under_load(cluster: &Cluster) {
    for event in ["drop_1", "drop_2", "doomed"] {
        open_drop(&cluster.operator(0), event, 500);
    }
    let lottery = json!({
        "eventId": "tombola", "name": "A lottery", "type": "LOTTERY", "startsAt": 0,
        "endsAt": 4_000_000_000_000_i64, "capacityTotal": 300, "lotteryCutoffAt": (seconds_now() + 4) * 1_000,
        "rewards": [{"rewardId": "gift", "kind": "ITEM", "totalStock": 300}],
    });
    cluster.operator(0).post("/v1/admin/events", &lottery).expect(201);
    cluster.operator(0).post("/v1/admin/events/tombola/open", &json!({})).expect(200);
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for caller in 0..6 {
            let (next, over) = (&next, &over);
            let server = &cluster.servers[caller % cluster.servers.len()];
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let event = ["drop_1", "drop_2", "doomed", "tombola"][number % 4];
                    let answer =
                        as_user(server, number / 4).post(&format!("/v1/events/{event}/requests"), &json!({}));
                    assert!([202, 409].contains(&answer.status), "{}", answer.text);
                }
            });
        }
        let settled = "SELECT COUNT(*) FROM draws WHERE finished = 1";
        let mut rounds = 0..;
        while rounds.start < 8 || cluster.database.sql().number(settled) == 0 {
            let round = rounds.next().unwrap();
            assert!(round < 200, "the lottery is never settled");
            assert_clean(&cluster.database);
            let new = format!("late_{round}");
            open_drop(&cluster.operator(round), &new, 10);
            if round == 3 {
                cluster.operator(0).post("/v1/admin/events/doomed/cancel", &json!({})).expect(200);
            }
        }
        over.store(true, Ordering::SeqCst);
    });
    let report = assert_clean(&cluster.database);
    let positions =
        report["checks"].as_array().unwrap().iter().find(|check| check["name"] == "line_positions");
    let people = cluster.database.sql().number("SELECT COUNT(*) FROM requests");
    assert_eq!(positions.unwrap()["checked"], people * 2);
}

fn the_audit_over_http(cluster: &Cluster) {
    open_drop(&cluster.operator(0), "drop_1", 2);
    at_once(4, |number| {
        let server = &cluster.servers[number % cluster.servers.len()];
        as_user(server, number).post("/v1/events/drop_1/requests", &json!({})).expect(202);
    });
    let server = &cluster.servers[0];
    let auditor = server.api().with_token(&token("auditor", "AUDITOR"));
    let report = auditor.get("/v1/admin/audit").expect(200).json();
    assert_eq!(report["ok"], true, "{report:#}");
    assert_eq!(report["checks"].as_array().unwrap().len(), 31);
    let by_user = as_user(server, 1).get("/v1/admin/audit").expect(403);
    assert_eq!(by_user.code(), "FORBIDDEN");
    let statement = "UPDATE event_lines SET capacity_remaining = 1";
    cluster.database.sql().run(statement);
    let report = auditor.get("/v1/admin/audit").expect(200).json();
    assert_eq!(failed(&report)[0].0, "capacity", "{report:#}");
}

#[test]
fn an_audit_that_cannot_be_made_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = format!("sqlite:{}", folder.path().join("nothing.db").display());
    let output = Command::new(BINARY).args(["audit", "--database", &missing]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("does not exist"), "{said}");
    assert!(!folder.path().join("nothing.db").exists(), "looking makes nothing");
}

#[test]
fn the_page_has_every_check() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    Server::start(BINARY, &ServerOptions::on(&database.url)).stop();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/audit.md")).unwrap();
    for check in assert_clean(&database)["checks"].as_array().unwrap() {
        let row =
            format!("| `{}` | {} |", check["name"].as_str().unwrap(), check["detail"].as_str().unwrap());
        assert!(page.contains(&row), "{row}");
    }
}
