//! The wallet: every case of the flow, what is refused, refunds, and statements.

use crate::audit::assert_clean;
use crate::support::{Cluster, at_once, on_every_setup, token};
use guerdon_harness::{Answer, Api, until};
use serde_json::{Value, json};
use std::time::Duration;

on_every_setup! {
    the_flow
    what_is_refused_writes_nothing
    deposits_under_keys_of_the_client
    refunds
    statements
    one_transfer_of_a_thousand_tries
    a_thousand_transfers_against_each_other
}

/// Somebody at one of the servers.
pub(crate) fn person(cluster: &Cluster, server: usize, name: &str) -> Api {
    cluster.servers[server % cluster.servers.len()].api().with_token(&token(name, "USER"))
}

pub(crate) fn open_account(operator: &Api, owner: &str, currency: &str, scale: u8) -> i64 {
    let body = json!({"ownerId": owner, "currency": currency, "scale": scale});
    operator.post("/v1/admin/accounts", &body).expect(201).json()["accountId"].as_i64().unwrap()
}

pub(crate) fn deposit(operator: &Api, account: i64, amount: &str, key: &str) -> Answer {
    let path = format!("/v1/admin/accounts/{account}/deposit");
    operator.send("POST", &path, &[("idempotency-key", key)], Some(&format!(r#"{{"amount": {amount}}}"#)))
}

pub(crate) fn new_key(api: &Api) -> String {
    let key = api.post("/v1/idempotency-keys", &json!({"scope": "TRANSFER"})).expect(201).json();
    key["idempotencyKey"].as_str().unwrap().into()
}

/// The amount is text, so that it is sent as it is written.
pub(crate) fn transfer(api: &Api, key: &str, from: i64, to: i64, amount: &str) -> Answer {
    let body = format!(r#"{{"fromAccountId": {from}, "toAccountId": {to}, "amount": {amount}}}"#);
    api.send("POST", "/v1/transfers", &[("idempotency-key", key)], Some(&body))
}

pub(crate) fn refund(api: &Api, id: &str, key: &str, body: &str) -> Answer {
    api.send("POST", &format!("/v1/transfers/{id}/refund"), &[("idempotency-key", key)], Some(body))
}

/// What a problem says that leaves the client with a new key: not the same one, and a new one is safe.
const NEW: (Value, Value) = (Value::Bool(false), Value::Bool(true));

/// The balance as the answer writes it.
pub(crate) fn balance(api: &Api, account: i64) -> String {
    api.get(&format!("/v1/accounts/{account}")).expect(200).json()["balance"].to_string()
}

/// Two people with an account each, of two decimals; the first has 100.
pub(crate) fn two_people(cluster: &Cluster) -> (i64, i64) {
    let operator = cluster.operator(0);
    let (ann, bob) = (open_account(&operator, "ann", "KRW", 2), open_account(&operator, "bob", "KRW", 2));
    deposit(&operator, ann, "100", "first").expect(200);
    until_entered(cluster);
    (ann, bob)
}

fn advice(answer: &Answer) -> (Value, Value) {
    (answer.json()["retryWithSameKey"].clone(), answer.json()["safeNewKey"].clone())
}

fn number(cluster: &Cluster, sql: &str) -> i64 {
    let mut connection = cluster.database.sql();
    let sql = [
        "core.account",
        "core.transfer",
        "core.ledger_entry",
        "core.ledger_backlog",
        "integration.idempotency_key",
    ]
    .iter()
    .fold(sql.to_owned(), |sql, table| sql.replace(table, &connection.table(table)));
    connection.number(&sql)
}

pub(crate) fn until_entered(cluster: &Cluster) {
    until("the ledger to catch up", Duration::from_secs(30), || {
        (number(cluster, "SELECT COUNT(*) FROM core.ledger_backlog") == 0).then_some(())
    });
}

fn the_flow(cluster: &Cluster) {
    let (ann, bob) = two_people(cluster);
    let (here, there) = (person(cluster, 0, "ann"), person(cluster, 1, "ann"));
    let missing = here.post("/v1/transfers", &json!({"fromAccountId": ann, "toAccountId": bob, "amount": 1}));
    let missing = missing.expect(400);
    assert_eq!((missing.code(), advice(&missing)), ("IDEMPOTENCY_KEY_MISSING".into(), NEW));
    let unknown = transfer(&here, "7c9e6679-7425-40de-944b-e07fc1f90ae7", ann, bob, "1").expect(404);
    assert_eq!((unknown.code(), advice(&unknown)), ("IDEMPOTENCY_KEY_NOT_FOUND".into(), NEW));

    let key = new_key(&here);
    let first = transfer(&here, &key, ann, bob, "40.25").expect(200);
    assert_eq!(first.json()["status"], "SUCCEEDED");
    for (api, amount) in [(&here, "40.25"), (&there, "40.25"), (&here, "40.250"), (&there, "4025e-2")] {
        let again = transfer(api, &key, ann, bob, amount).expect(200);
        assert_eq!(again.text, first.text, "byte for byte");
    }
    for amount in ["40.26", "4025"] {
        let other = transfer(&there, &key, ann, bob, amount).expect(409);
        assert_eq!((other.code(), advice(&other)), ("IDEMPOTENCY_HASH_MISMATCH".into(), NEW));
    }
    assert_eq!(
        transfer(&person(cluster, 0, "bob"), &key, bob, ann, "1").expect(404).code(),
        "IDEMPOTENCY_KEY_NOT_FOUND"
    );

    let spent = new_key(&here);
    let failed = transfer(&here, &spent, ann, bob, "60").expect(422);
    assert_eq!((failed.code(), advice(&failed)), ("INSUFFICIENT_BALANCE".into(), NEW));
    assert_eq!(failed.json()["transferStatus"], "FAILED");
    assert_eq!(failed.header("content-type"), Some("application/problem+json"));
    deposit(&cluster.operator(0), ann, "1000", "more").expect(200);
    let again = transfer(&there, &spent, ann, bob, "60").expect(422);
    assert_eq!(again.text, failed.text, "the key is spent, whatever the account holds now");

    let unclaimed = new_key(&here);
    let mut sql = cluster.database.sql();
    let keys = sql.table("integration.idempotency_key");
    sql.run(&format!("UPDATE {keys} SET expires_at = 1"));
    let expired = transfer(&there, &unclaimed, ann, bob, "1").expect(410);
    assert_eq!((expired.code(), advice(&expired)), ("IDEMPOTENCY_KEY_EXPIRED".into(), NEW));
    assert_eq!(transfer(&there, &key, ann, bob, "40.25").expect(200).text, first.text, "claimed in time");

    let id = first.json()["transferId"].as_str().unwrap().to_owned();
    let shown = there.get(&format!("/v1/transfers/{id}")).expect(200).json();
    assert_eq!(
        (shown["amount"].to_string(), &shown["currency"], &shown["kind"]),
        ("40.25".into(), &json!("KRW"), &json!("TRANSFER"))
    );
    person(cluster, 0, "carol").get(&format!("/v1/transfers/{id}")).expect(404);
    assert_eq!(balance(&here, ann), "1059.75");
    assert_eq!(balance(&person(cluster, 0, "bob"), bob), "40.25");
    until_entered(cluster);
    assert_eq!(number(cluster, "SELECT COUNT(*) FROM core.ledger_entry"), 6);
    assert_clean(&cluster.database);
}

fn what_is_refused_writes_nothing(cluster: &Cluster) {
    let (ann, bob) = two_people(cluster);
    let operator = cluster.operator(0);
    let points = open_account(&operator, "ann", "POINT", 0);
    let points_of_bob = open_account(&operator, "bob", "POINT", 0);
    deposit(&operator, points, "9223372036854775807", "all-there-is").expect(200);
    let api = person(cluster, 0, "ann");
    let key = new_key(&api);
    for (from, to, amount, status, code) in [
        (ann, bob, "0", 422, "INVALID_FIELDS"),
        (ann, bob, "0.00", 422, "INVALID_FIELDS"),
        (ann, bob, "-1", 422, "INVALID_FIELDS"),
        (ann, bob, "0.001", 422, "INVALID_FIELDS"),
        (ann, bob, "1e-5", 422, "INVALID_FIELDS"),
        (ann, bob, "9223372036854775808", 422, "INVALID_FIELDS"),
        (ann, bob, "92233720368547758.08", 422, "INVALID_FIELDS"),
        (ann, bob, "1e400", 422, "INVALID_FIELDS"),
        (ann, bob, "\"5\"", 422, "INVALID_FIELDS"),
        (ann, bob, "null", 422, "INVALID_FIELDS"),
        (ann, bob, "NaN", 400, "MALFORMED_JSON"),
        (points, points_of_bob, "0.5", 422, "INVALID_FIELDS"),
        (ann, ann, "1", 422, "INVALID_FIELDS"),
        (0, ann, "1", 422, "INVALID_FIELDS"),
        (ann, points, "1", 422, "CURRENCY_MISMATCH"),
        (bob, ann, "1", 403, "ACCOUNT_FORBIDDEN"),
        (2, ann, "1", 403, "ACCOUNT_FORBIDDEN"),
        (ann, 999, "1", 404, "ACCOUNT_NOT_FOUND"),
        (999, ann, "1", 404, "ACCOUNT_NOT_FOUND"),
    ] {
        let answer = transfer(&api, &key, from, to, amount);
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{from} {to} {amount}: {}",
            answer.text
        );
        if ![400, 422].contains(&status) || answer.code() == "CURRENCY_MISMATCH" {
            assert_eq!(
                advice(&answer),
                (json!(true), json!(true)),
                "the key is as good as before: {}",
                answer.text
            );
        }
    }
    for (account, amount, status, code) in [
        (points, "1", 422, "BALANCE_OUT_OF_RANGE"),
        (points_of_bob, "0.5", 422, "INVALID_FIELDS"),
        (points_of_bob, "0", 422, "INVALID_FIELDS"),
        (2, "1", 403, "ACCOUNT_FORBIDDEN"),
        (999, "1", 404, "ACCOUNT_NOT_FOUND"),
    ] {
        let answer = deposit(&operator, account, amount, "refused");
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (status, code),
            "{account} {amount}: {}",
            answer.text
        );
    }
    for body in [
        json!({"ownerId": "a/b", "currency": "KRW"}),
        json!({"ownerId": "dan", "currency": "krw"}),
        json!({"ownerId": "dan", "currency": "KRW", "scale": 5}),
        json!({"ownerId": "dan", "currency": "KRW", "scale": -1}),
        json!({"ownerId": "dan"}),
    ] {
        assert_eq!(operator.post("/v1/admin/accounts", &body).expect(422).code(), "INVALID_FIELDS", "{body}");
    }
    let other =
        operator.post("/v1/admin/accounts", &json!({"ownerId": "dan", "currency": "KRW", "scale": 0}));
    assert_eq!(other.expect(409).code(), "CURRENCY_SCALE_MISMATCH");
    let again =
        operator.post("/v1/admin/accounts", &json!({"ownerId": "ann", "currency": "KRW"})).expect(200);
    assert_eq!(again.json()["accountId"], ann, "the same account, not a second one");

    assert_eq!(number(cluster, "SELECT COUNT(*) FROM core.transfer"), 2, "the two deposits");
    assert_eq!(
        number(cluster, "SELECT COUNT(*) FROM integration.idempotency_key WHERE status IS NOT NULL"),
        2
    );
    assert_eq!(number(cluster, "SELECT COUNT(*) FROM core.account"), 6);
    transfer(&api, &key, ann, bob, "1").expect(200);
    assert_eq!(api.get(&format!("/v1/accounts/{bob}")).expect(403).code(), "ACCOUNT_FORBIDDEN");
    assert_eq!(api.get(&format!("/v1/accounts/{bob}/entries")).expect(403).code(), "ACCOUNT_FORBIDDEN");
    assert_eq!(api.get("/v1/accounts/999").expect(404).code(), "ACCOUNT_NOT_FOUND");
    let mine = api.get("/v1/me/accounts").expect(200).json();
    let currencies: Vec<_> =
        mine["items"].as_array().unwrap().iter().map(|account| &account["currency"]).collect();
    assert_eq!(currencies, ["KRW", "POINT"]);
    assert_eq!(mine["items"][1]["balance"].to_string(), "9223372036854775807", "not a digit is lost");
    assert_eq!(balance(&operator, 2), "-100", "what was given out is missing from the issue account");
    assert_clean(&cluster.database);
}

fn deposits_under_keys_of_the_client(cluster: &Cluster) {
    let (here, there) = (cluster.operator(0), cluster.operator(1));
    let account = open_account(&here, "ann", "KRW", 2);
    let first = deposit(&here, account, "12.50", "order-1").expect(200);
    assert_eq!(deposit(&there, account, "12.5", "order-1").expect(200).text, first.text, "byte for byte");
    assert_eq!(
        deposit(&there, account, "\t1250e-2", "\"order-1\"").expect(200).text,
        first.text,
        "quoted or not"
    );
    assert_eq!(deposit(&there, account, "12.51", "order-1").expect(409).code(), "IDEMPOTENCY_HASH_MISMATCH");
    deposit(&there, account, "0.5", "order-2").expect(200);
    let path = format!("/v1/admin/accounts/{account}/deposit");
    let other_name = [("x-idempotency-key", "order-1")];
    assert_eq!(
        here.send("POST", &path, &other_name, Some(r#"{"amount": 12.5}"#)).expect(200).text,
        first.text
    );
    let both = [("idempotency-key", "order-1"), ("x-idempotency-key", "order-3")];
    let twice = here.send("POST", &path, &both, Some(r#"{"amount": 12.5}"#)).expect(422);
    assert_eq!(
        twice.json()["fields"][0]["path"],
        "Idempotency-Key",
        "which of the two it would be is not for us to say"
    );
    assert_eq!(here.post(&path, &json!({"amount": 1})).expect(400).code(), "IDEMPOTENCY_KEY_MISSING");
    let long = "k".repeat(129);
    for key in ["", "a b", &long] {
        assert_eq!(
            deposit(&here, account, "1", key).expect(422).json()["fields"][0]["path"],
            "Idempotency-Key"
        );
    }
    // Keys belong to who brings them: another operator's order-1 is another one.
    let other = cluster.servers[0].api().with_token(&token("other_op", "OPERATOR"));
    deposit(&other, account, "7", "order-1").expect(200);
    assert_eq!(balance(&here, account), "20");
    let by_user =
        person(cluster, 0, "ann").send("POST", &path, &[("idempotency-key", "k")], Some("{\"amount\": 1}"));
    assert_eq!(by_user.expect(403).code(), "FORBIDDEN");
    let lines = here.get("/v1/admin/audit-log?limit=3").expect(200).json();
    let actions: Vec<_> = lines["items"].as_array().unwrap().iter().map(|line| &line["action"]).collect();
    assert_eq!(actions, ["ACCOUNT_DEPOSITED"; 3]);
    assert_clean(&cluster.database);
}

fn refunds(cluster: &Cluster) {
    let (ann, bob) = two_people(cluster);
    let (payer, receiver) = (person(cluster, 0, "ann"), person(cluster, 1, "bob"));
    let paid = transfer(&payer, &new_key(&payer), ann, bob, "10").expect(200).json();
    let id = paid["transferId"].as_str().unwrap();
    assert_eq!(
        refund(&payer, id, "r", "{}").expect(404).code(),
        "TRANSFER_NOT_FOUND",
        "whoever paid cannot take it back"
    );
    assert_eq!(refund(&person(cluster, 0, "carol"), id, "r", "{}").expect(404).code(), "TRANSFER_NOT_FOUND");
    assert_eq!(refund(&receiver, "x", "r", "{}").expect(404).code(), "TRANSFER_NOT_FOUND");
    assert_eq!(
        refund(&receiver, id, "r", r#"{"amount": 10.01}"#).expect(422).code(),
        "REFUND_EXCEEDS_TRANSFER"
    );
    assert_eq!(refund(&receiver, id, "r", r#"{"amount": 0}"#).expect(422).code(), "INVALID_FIELDS");

    let part = refund(&receiver, id, "r-1", r#"{"amount": 2.5}"#).expect(200);
    assert_eq!(refund(&receiver, id, "r-1", r#"{"amount": 2.50}"#).expect(200).text, part.text);
    assert_eq!(refund(&receiver, id, "r-1", "{}").expect(409).code(), "IDEMPOTENCY_HASH_MISMATCH");
    // Many at once, each with a key of its own: together they cannot give back more than there was.
    let answers = at_once(16, |number| {
        let api = if number % 2 == 0 { person(cluster, number, "bob") } else { cluster.operator(number) };
        refund(&api, id, &format!("many-{number}"), r#"{"amount": 1}"#)
    });
    let done = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(done, 7, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.status == 200 || answer.code() == "REFUND_EXCEEDS_TRANSFER"));
    let rest = refund(&cluster.operator(0), id, "rest", "{}").expect(200);
    assert_eq!(
        refund(&cluster.operator(1), id, "rest", "{}").expect(200).text,
        rest.text,
        "also once nothing is left"
    );
    let rest = rest.json()["transferId"].as_str().unwrap().to_owned();
    let shown = payer.get(&format!("/v1/transfers/{rest}")).expect(200).json();
    assert_eq!((shown["amount"].to_string(), &shown["refundOf"]), ("0.5".into(), &json!(id)));
    assert_eq!(
        refund(&cluster.operator(0), &rest, "again", "{}").expect(422).code(),
        "TRANSFER_NOT_REFUNDABLE"
    );
    let shown = receiver.get(&format!("/v1/transfers/{id}")).expect(200).json();
    assert_eq!(shown["refunded"].to_string(), "10");
    assert_eq!((balance(&payer, ann), balance(&receiver, bob)), ("100".into(), "0".into()));

    let paid = transfer(&payer, &new_key(&payer), ann, bob, "10").expect(200).json();
    transfer(&receiver, &new_key(&receiver), bob, ann, "9").expect(200);
    let id = paid["transferId"].as_str().unwrap();
    let short = refund(&receiver, id, "short", "{}").expect(422);
    assert_eq!(
        (short.code(), &short.json()["transferStatus"]),
        ("INSUFFICIENT_BALANCE".into(), &json!("FAILED"))
    );
    assert_eq!(refund(&receiver, id, "short", "{}").expect(422).text, short.text);
    let mut sql = cluster.database.sql();
    let outbox = sql.table("integration.outbox_events");
    let mut told =
        |kind: &str| sql.number(&format!("SELECT COUNT(*) FROM {outbox} WHERE event_type = '{kind}'"));
    assert_eq!((told("TRANSFER_REFUNDED"), told("TRANSFER_COMPLETED")), (9, 4));
    assert_clean(&cluster.database);
}

fn statements(cluster: &Cluster) {
    let (ann, bob) = two_people(cluster);
    let api = person(cluster, 0, "ann");
    for number in 1..=24 {
        let api = person(cluster, number, "ann");
        transfer(&api, &new_key(&api), ann, bob, &format!("0.{number:02}")).expect(200);
    }
    until_entered(cluster);
    let (mut entries, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/v1/accounts/{ann}/entries?limit=10{cursor}")).expect(200).json();
        entries.extend(page["items"].as_array().unwrap().clone());
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(entries.len(), 25);
    let cents = |value: &Value| {
        let text = value.to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        format!("{whole}{fraction:0<2}").parse::<i64>().unwrap()
    };
    let mut held = 0;
    for (number, entry) in (0_i64..).zip(entries.iter().rev()) {
        assert_eq!(entry["side"], if number == 0 { "CREDIT" } else { "DEBIT" });
        held += if number == 0 { 10_000 } else { -number };
        assert_eq!(cents(&entry["balanceAfter"]), held, "{entry}");
        let at = entry["createdAt"].as_i64().unwrap();
        // Several may have been made in one millisecond: the last of them counts.
        let last = entries.iter().find(|other| other["createdAt"] == at).unwrap();
        let then = api.get(&format!("/v1/accounts/{ann}?at={at}")).expect(200).json();
        assert_eq!((&then["balance"], then["at"].as_i64()), (&last["balanceAfter"], Some(at)));
        let up_to = api.get(&format!("/v1/accounts/{ann}/entries?at={at}&limit=1")).expect(200).json();
        assert_eq!(up_to["items"][0], *last);
    }
    assert_eq!(api.get(&format!("/v1/accounts/{ann}?at=1")).expect(200).json()["balance"], 0);
    assert_eq!(api.get(&format!("/v1/accounts/{ann}?at=soon")).expect(422).json()["fields"][0]["path"], "at");
    let page = api.get(&format!("/v1/accounts/{ann}/entries?limit=10")).expect(200).json();
    let foreign = format!("/v1/accounts/{bob}/entries?cursor={}", page["nextCursor"].as_str().unwrap());
    assert_eq!(person(cluster, 0, "bob").get(&foreign).expect(400).code(), "BAD_CURSOR");
    let issue = cluster.operator(0).get("/v1/accounts/2/entries").expect(200).json();
    assert_eq!(issue["items"][0]["balanceAfter"].to_string(), "-100");
}

fn one_transfer_of_a_thousand_tries(cluster: &Cluster) {
    let (ann, bob) = two_people(cluster);
    let key = new_key(&person(cluster, 0, "ann"));
    let answers = at_once(50, |number| {
        let api = person(cluster, number, "ann");
        (0..20).map(|_| transfer(&api, &key, ann, bob, "5")).collect::<Vec<_>>()
    });
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    assert_eq!(answers.len(), 1_000);
    let done = transfer(&person(cluster, 0, "ann"), &key, ann, bob, "5").expect(200).text;
    for answer in &answers {
        match answer.status {
            200 => assert_eq!(answer.text, done),
            202 => assert_eq!(answer.text, r#"{"status":"IN_PROGRESS"}"#),
            _ => panic!("{}", answer.text),
        }
    }
    assert_eq!(balance(&person(cluster, 0, "ann"), ann), "95");
    assert_eq!(number(cluster, "SELECT COUNT(*) FROM core.transfer WHERE kind = 'TRANSFER'"), 1);
    assert_clean(&cluster.database);
}

fn a_thousand_transfers_against_each_other(cluster: &Cluster) {
    let (ann, bob) = two_people(cluster);
    deposit(&cluster.operator(0), bob, "100", "his").expect(200);
    at_once(40, |number| {
        let (name, from, to) = if number % 4 < 2 { ("ann", ann, bob) } else { ("bob", bob, ann) };
        let api = person(cluster, number, name);
        for _ in 0..25 {
            transfer(&api, &new_key(&api), from, to, "0.1").expect(200);
        }
    });
    assert_eq!(balance(&person(cluster, 0, "ann"), ann), "100");
    assert_eq!(balance(&person(cluster, 0, "bob"), bob), "100");
    until_entered(cluster);
    assert_eq!(number(cluster, "SELECT COUNT(*) FROM core.ledger_entry"), 2_004);
    assert_clean(&cluster.database);
    assert!(
        cluster.metric("guerdon_store_retried_groups_total") < 0.5,
        "no deadlock, not even one that was retried"
    );
}
