//! The audit finds what was tampered with, names it, and finds nothing where nothing was, also under load.

use crate::support::{
    BINARY, Cluster, as_user, at_once, on_every_setup, open_drop, operator, seconds_now, token,
};
use crate::wallet;
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

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

/// Changes what is stored behind the product's back; the check that has to notice, and a word that it has to say.
struct Forgery {
    what: &'static str,
    sql: &'static [&'static str],
    check: &'static str,
    names: &'static str,
}

const DROP: &str = "(SELECT event_key FROM event_lines WHERE event_id = 'drop_1')";

const FORGERIES: &[Forgery] = &[
    Forgery {
        what: "a winner is deleted",
        sql: &["DELETE FROM requests WHERE line = ({DROP} << 40) | 3"],
        check: "line_positions",
        names: "after position 2 comes 4",
    },
    Forgery {
        what: "the end of the line is cut off",
        sql: &["DELETE FROM requests WHERE line = ({DROP} << 40) | 20"],
        check: "line_positions",
        names: "positions 20 to 20 are missing",
    },
    Forgery {
        what: "somebody stands twice",
        sql: &["{UNIQUE}", "UPDATE requests SET user_id = 'u-1' WHERE line = ({DROP} << 40) | 15"],
        check: "one_request_per_user",
        names: "u-1",
    },
    Forgery {
        what: "a later one wins in place of an earlier one",
        sql: &[
            "UPDATE requests SET result = 2 WHERE line = ({DROP} << 40) | 5",
            "UPDATE requests SET result = 1 WHERE line = ({DROP} << 40) | 6",
        ],
        check: "winners",
        names: "position 6 of drop_1",
    },
    Forgery {
        what: "a counter of places",
        sql: &["UPDATE event_lines SET capacity_remaining = 1 WHERE event_id = 'drop_1'"],
        check: "capacity",
        names: "5 won, 1 of 5 remain",
    },
    Forgery {
        what: "a counter of results",
        sql: &["UPDATE event_lines SET tally = '{\"results\":{\"SUCCESS\":5,\"REJECTED_CAPACITY\":14}}'
            WHERE event_id = 'drop_1'"],
        check: "line_counts",
        names: "14 REJECTED_CAPACITY are counted, 15 are there",
    },
    Forgery {
        what: "a message is missing",
        sql: &["DELETE FROM {OUTBOX} WHERE aggregate_id = (SELECT MIN(aggregate_id) FROM {OUTBOX}
            WHERE aggregate_type = 'REQUEST')"],
        check: "request_messages",
        names: "has no message",
    },
    Forgery {
        what: "a message that nothing caused",
        sql: &["INSERT INTO {OUTBOX} (event_id, channel, sequence, aggregate_type, aggregate_id, event_type, payload,
            status, created_at, attempts) VALUES ({BLOB}, 'broker', 1, 'REQUEST', 'x', 'REQUEST_DECIDED', '{}',
            'NEW', 1, 0)"],
        check: "request_messages",
        names: "nothing caused",
    },
    Forgery {
        what: "an event's message is missing",
        sql: &["DELETE FROM {OUTBOX} WHERE event_type = 'EVENT_CLOSED' AND aggregate_id = 'drop_1'"],
        check: "event_messages",
        names: "drop_1: 0 messages of EVENT_CLOSED",
    },
    Forgery {
        what: "a winner's reward is missing",
        sql: &["DELETE FROM event_reward_allocation WHERE event_id = 'drop_1' AND reward_id = 'points'
            AND member_id = 'u-2'"],
        check: "allocations",
        names: "has won and has no points",
    },
    Forgery {
        what: "a reward for somebody who has not won",
        sql: &["UPDATE event_reward_allocation SET member_id = 'u-19' WHERE event_id = 'drop_1'
            AND reward_id = 'points' AND member_id = 'u-2'"],
        check: "allocations",
        names: "has won and has no points",
    },
    Forgery {
        what: "a reward under another key",
        sql: &["UPDATE event_reward_allocation SET idempotency_key = 'req-drop_1-u-2-gem'
            WHERE idempotency_key = 'req-drop_1-u-2-points'"],
        check: "allocation_keys",
        names: "has the key req-drop_1-u-2-gem",
    },
    Forgery {
        what: "a check-in's reward under another's key",
        sql: &["UPDATE event_reward_allocation SET idempotency_key = 'att-daily-u-99-2026-01-01-DAILY'
            WHERE event_id = 'daily' AND member_id = 'u-2' AND reward_id = 'points'"],
        check: "allocation_keys",
        names: "has the key att-daily-u-99-2026-01-01-DAILY",
    },
    Forgery {
        what: "a play is gone",
        sql: &["DELETE FROM event_entry WHERE event_id = 'wheel' AND member_id = 'u-3' AND number = 1"],
        check: "entries",
        names: "does not follow from the entries before it",
    },
    Forgery {
        what: "a check-in that counts for more",
        sql: &["UPDATE event_entry SET streak = 7 WHERE event_id = 'daily' AND member_id = 'u-3'"],
        check: "entries",
        names: "of u-3 in daily: does not follow",
    },
    Forgery {
        what: "somebody stands where they are not",
        sql: &["UPDATE event_entrants SET run = 5 WHERE event_id = 'daily' AND member_id = 'u-4'"],
        check: "entries",
        names: "u-4 in daily has 1 entries",
    },
    Forgery {
        what: "what a play gave is gone",
        sql: &["DELETE FROM event_reward_allocation WHERE event_id = 'wheel' AND member_id = 'u-5'"],
        check: "entry_rewards",
        names: "was won and not given",
    },
    Forgery {
        what: "a play by odds that were not in force",
        sql: &["UPDATE event_entry SET odds_version = 2 WHERE event_id = 'wheel' AND member_id = 'u-6'"],
        check: "odds",
        names: "was not drawn by the odds in force",
    },
    Forgery {
        what: "a prize that is withheld",
        sql: &["UPDATE event_entry SET reward_id = NULL WHERE event_id = 'wheel' AND reward_id = 'points' AND number = 1"],
        check: "odds",
        names: "was not drawn by the odds in force",
    },
    Forgery {
        what: "luck that cannot be",
        sql: &["UPDATE event_entry SET drawn = 1, reward_id = 'gem' WHERE event_id = 'wheel'"],
        check: "odds",
        names: "wheel version 1: chi-square 60.0 with 1 degrees of freedom over 60 plays",
    },
    Forgery {
        what: "a reward that no transfer paid out",
        sql: &["DELETE FROM {core.transfer} WHERE kind = 'REWARD' AND amount = 1000"],
        check: "deliveries",
        names: "was paid out by no transfer",
    },
    Forgery {
        what: "a transfer that pays out what was not won",
        sql: &["UPDATE event_reward_allocation SET reward_status = 'FAILED'
            WHERE event_id = 'daily' AND member_id = 'u-7' AND reward_id = 'points'"],
        check: "deliveries",
        names: "pays out nothing that was won",
    },
    Forgery {
        what: "the stock of a game",
        sql: &["UPDATE event_rewards SET remaining_stock = 100 WHERE event_id = 'wheel' AND reward_id = 'gem'"],
        check: "stock",
        names: "wheel: 100 of gem remain",
    },
    Forgery {
        what: "stock",
        sql: &["UPDATE event_rewards SET remaining_stock = 5 WHERE event_id = 'tombola'"],
        check: "stock",
        names: "5 of gift remain, 3 of 9 were given",
    },
    Forgery {
        what: "a line of the log is forged",
        sql: &["UPDATE audit_log SET actor = 'somebody_else' WHERE sequence = 2"],
        check: "audit_log",
        names: "line 2 is not what was written",
    },
    Forgery {
        what: "a line of the log is taken out",
        sql: &["DELETE FROM audit_log WHERE sequence = 3"],
        check: "audit_log",
        names: "lines 3 to 3 are missing",
    },
    Forgery {
        what: "the end of the log is cut off",
        sql: &["DELETE FROM audit_log WHERE sequence = (SELECT MAX(sequence) FROM audit_log)"],
        check: "audit_log",
        names: "are missing",
    },
    Forgery {
        what: "an entry of the lottery is another's",
        sql: &["UPDATE requests SET user_id = 'stranger' WHERE user_id = 'u-4'
            AND line >> 40 = (SELECT event_key FROM draws WHERE event_id = 'tombola')"],
        check: "draws",
        names: "the leaf of position",
    },
    Forgery {
        what: "the lottery's seed is exchanged",
        sql: &["UPDATE draws SET seed = salt_key"],
        check: "draws",
        names: "the commitment is not that of the seed",
    },
    Forgery {
        what: "somebody else was drawn",
        sql: &["UPDATE draw_winners SET line = (SELECT MIN(line) FROM requests WHERE result = 4)
            WHERE line = (SELECT MIN(line) FROM draw_winners)"],
        check: "draws",
        names: "was not drawn",
    },
    Forgery {
        what: "a leaf is another",
        sql: &["UPDATE draw_leaves SET leaves = root"],
        check: "draws",
        names: "the leaves of chunk 0 are others",
    },
    Forgery {
        what: "a draw is gone",
        sql: &["DELETE FROM draws WHERE event_id = 'later'"],
        check: "draws",
        names: "later: a lottery without its draw",
    },
    Forgery {
        what: "somebody won before the announcement",
        sql: &["UPDATE requests SET result = 1, started_at = 1, finished_at = 1
            WHERE line = ((SELECT event_key FROM draws WHERE event_id = 'later') << 40) | 2"],
        check: "winners",
        names: "is decided before the announcement",
    },
    Forgery {
        what: "a row that says two things",
        sql: &["UPDATE requests SET finished_at = NULL WHERE line = ({DROP} << 40) | 2"],
        check: "readable",
        names: "its times do not fit its result",
    },
    Forgery {
        what: "a change of an event that nobody made",
        sql: &["UPDATE events SET version = version + 1 WHERE event_id = 'later'"],
        check: "event_lines_in_log",
        names: "later has changed",
    },
    Forgery {
        what: "a message that nobody sends on",
        sql: &["UPDATE {OUTBOX} SET status = 'SENDING', deadline = 1000
            WHERE event_type = 'EVENT_OPENED' AND aggregate_id = 'drop_1'"],
        check: "leases",
        names: "past its lease",
    },
    Forgery {
        what: "money from nowhere",
        sql: &["UPDATE {core.account} SET balance = balance + 7 WHERE owner_id = 'bob'"],
        check: "money",
        names: "all accounts in KRW hold 7 together",
    },
    Forgery {
        what: "a balance that its entries do not come to",
        sql: &[
            "UPDATE {core.account} SET balance = balance + 7 WHERE owner_id = 'bob'",
            "UPDATE {core.account} SET balance = balance - 7 WHERE owner_id = 'ann'",
        ],
        check: "account_entries",
        names: "account 3 holds 52, and its entries come to 45",
    },
    Forgery {
        what: "an entry is gone",
        sql: &["DELETE FROM {core.ledger_entry} WHERE account_id = 3 AND number = 2"],
        check: "account_entries",
        names: "account 3 lacks entry 2",
    },
    Forgery {
        what: "an entry with another amount",
        sql: &["UPDATE {core.ledger_entry} SET amount = 31 WHERE account_id = 3 AND number = 1"],
        check: "account_entries",
        names: "entry 1 of account 3",
    },
    Forgery {
        what: "an account that once was below zero",
        sql: &["UPDATE {core.ledger_entry} SET balance_after = -1 WHERE account_id = 3 AND number = 1"],
        check: "members",
        names: "entry 1 of account 3",
    },
    Forgery {
        what: "two accounts as they were before a transfer",
        sql: &[
            "UPDATE {core.account} SET balance = 70, entries = 2 WHERE account_id = 1",
            "UPDATE {core.account} SET balance = 30, entries = 1 WHERE account_id = 3",
        ],
        check: "account_entries",
        names: "account 1 has 2 entries, and the ledger has entry 3",
    },
    Forgery {
        what: "a transfer's two entries are both gone",
        sql: &["DELETE FROM {core.ledger_entry} WHERE amount = 20"],
        check: "transfers",
        names: "has 0 entries",
    },
    Forgery {
        what: "an entry that is not its transfer's",
        sql: &["UPDATE {core.ledger_entry} SET side = 'CREDIT' WHERE account_id = 1 AND amount = 20"],
        check: "transfers",
        names: "has 2 entries, 1 of them sound",
    },
    Forgery {
        what: "a refund that nobody made",
        sql: &["UPDATE {core.transfer} SET refunded = 12 WHERE amount = 30"],
        check: "transfers",
        names: "12 was given back, by transfers 5",
    },
    Forgery {
        what: "a transfer is gone",
        sql: &["DELETE FROM {core.transfer} WHERE amount = 20"],
        check: "transfer_keys",
        names: "is SUCCEEDED, with 0 transfers",
    },
    Forgery {
        what: "a transfer under a key that failed",
        sql: &["UPDATE {integration.idempotency_key} SET status = 'FAILED'
            WHERE idempotency_key = (SELECT idempotency_key FROM {core.transfer} WHERE amount = 20)"],
        check: "transfer_keys",
        names: "is FAILED, with 1 transfers",
    },
    Forgery {
        what: "a transfer without a key",
        sql: &["DELETE FROM {integration.idempotency_key} WHERE idempotency_key = 'first'"],
        check: "transfer_keys",
        names: "was made under a key that does not name it",
    },
    Forgery {
        what: "a transfer's message is missing",
        sql: &["DELETE FROM {OUTBOX} WHERE event_type = 'TRANSFER_REFUNDED'"],
        check: "transfer_messages",
        names: "has no message",
    },
    Forgery {
        what: "a message about a transfer that was never made",
        sql: &["INSERT INTO {OUTBOX} (event_id, channel, sequence, aggregate_type, aggregate_id, event_type, payload,
            status, created_at, attempts) VALUES ({BLOB}, 'broker', 1, 'TRANSFER', 'x', 'TRANSFER_COMPLETED', '{}',
            'NEW', 1, 0)"],
        check: "transfer_messages",
        names: "which was never made",
    },
    Forgery {
        what: "a transfer that nobody ends",
        sql: &["UPDATE {integration.idempotency_key} SET status = 'IN_PROGRESS', deadline = 1000
            WHERE status = 'FAILED'"],
        check: "leases",
        names: "is past its lease",
    },
];

fn each_forgery_is_found(engine: TestEngine) {
    let database = eventful(engine);
    let clean = assert_clean(&database);
    for check in clean["checks"].as_array().unwrap() {
        let looked = check["name"] == "readable" || check["checked"].as_u64().unwrap() > 0;
        assert!(looked, "nothing was looked at: {check}");
    }
    let sqlite = engine == TestEngine::Sqlite;
    for forgery in FORGERIES {
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
    assert_eq!(report["checks"].as_array().unwrap().len(), 25);
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
