//! One suite for all issuers.

use super::{Issuer, PATIENCE, Stage, for_every_issuer, id_of, issue, issue_now};
use crate::support::at_once;
use guerdon_harness::until;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

for_every_issuer! {
    from_the_wish_to_the_use
    one_user_at_once_and_many_for_few
    several_for_each_user_and_taken_back
}

fn from_the_wish_to_the_use(stage: Stage) {
    stage.make("ten", 2, json!({"benefit": {"percent": 10}, "validUntil": 4_000_000_000_000_i64}));
    let (first, second, third) = (stage.user(1), stage.user(2), stage.user(3));

    // Refused, and nothing is written.
    let missing = first.send("POST", "/v1/coupons/ten/issue", &[], None).expect(400);
    assert_eq!(missing.code(), "IDEMPOTENCY_KEY_MISSING");
    assert_eq!(issue(&first, "none", "k", &[]).expect(404).code(), "COUPON_NOT_FOUND");
    stage.make("later", 2, json!({"validFrom": 3_000_000_000_000_i64}));
    assert_eq!(issue(&first, "later", "k", &[]).expect(409).code(), "COUPON_NOT_VALID");

    // At once, or later.
    let asked = issue(&first, "ten", "k-1", &[]);
    let status = if stage.issuer == Issuer::Store { "CONFIRMED" } else { "PENDING" };
    assert_eq!(
        (asked.status, &asked.json()["status"]),
        (if status == "PENDING" { 202 } else { 201 }, &json!(status))
    );
    let id = id_of(&asked);
    assert_eq!(asked.header("location"), Some(format!("/v1/user-coupons/{id}").as_str()));
    let path = format!("/v1/user-coupons/{id}");
    let view = until("it to be confirmed", PATIENCE, || {
        let view = first.get(&path).expect(200).json();
        (view["status"] != "PENDING").then_some(view)
    });
    assert_eq!((&view["status"], &view["resultCode"]), (&json!("CONFIRMED"), &json!("ISSUED")));
    assert_eq!(view["benefit"], json!({"percent": 10}));

    // The same key again is the same; another one is one too many; the key for another coupon is refused.
    assert_eq!(id_of(&issue_now(&first, "ten", "k-1").expect(201)), id);
    assert_eq!(issue_now(&first, "ten", "k-2").expect(409).code(), "DUPLICATE");
    if stage.issuer != Issuer::Stream {
        stage.make("other", 2, json!({}));
        assert_eq!(issue(&first, "other", "k-1", &[]).expect(409).code(), "IDEMPOTENCY_HASH_MISMATCH");
    }
    // Nobody else sees it.
    assert_eq!(second.get(&path).expect(404).code(), "USER_COUPON_NOT_FOUND");
    stage.operator().get(&path).expect(200);

    // As server-sent events.
    let told = stream(&second_asks(&stage));
    assert!(told.last().unwrap().contains("\"status\":\"CONFIRMED\""), "{told:?}");

    // Nothing is left, and who has it already is still told so.
    assert_eq!(issue_now(&third, "ten", "k-1").expect(409).code(), "OUT_OF_STOCK");
    assert_eq!(stage.issued("ten"), 2);

    // Used, once for each order.
    let order = |id: &str| json!({"orderId": id});
    let act = |what: &str, order: &serde_json::Value| first.post(&format!("{path}/{what}"), order);
    assert_eq!(act("use", &json!({"orderId": ""})).expect(422).json()["fields"][0]["path"], "orderId");
    assert_eq!(act("cancel-use", &order("o-1")).expect(409).code(), "COUPON_NOT_USABLE");
    assert_eq!(act("use", &order("o-1")).expect(200).json()["status"], "USED");
    assert_eq!(act("use", &order("o-1")).expect(200).json()["orderId"], "o-1");
    assert_eq!(act("use", &order("o-2")).expect(409).code(), "COUPON_ALREADY_USED");
    assert_eq!(
        second.post(&format!("{path}/use"), &order("o-2")).expect(404).code(),
        "USER_COUPON_NOT_FOUND"
    );
    assert_eq!(act("cancel-use", &order("o-2")).expect(409).code(), "COUPON_ALREADY_USED");
    assert_eq!(act("cancel-use", &order("o-1")).expect(200).json()["status"], "CONFIRMED");
    assert_eq!(act("cancel-use", &order("o-1")).expect(200).json()["status"], "CONFIRMED");
    assert_eq!(act("use", &order("o-1")).expect(409).code(), "COUPON_NOT_USABLE");
    assert_eq!(act("use", &order("o-3")).expect(200).json()["status"], "USED");
    let revoke = |id: &str| {
        stage.operator().post(&format!("/v1/admin/user-coupons/{id}/revoke"), &json!({"note": "n"}))
    };
    assert_eq!(revoke(&id).expect(409).code(), "COUPON_ALREADY_USED");

    // Lists.
    let mine = first.get("/v1/me/coupons?limit=1").expect(200).json();
    assert!(mine["items"].as_array().unwrap().len() == 1 || mine["nextCursor"].is_string(), "{mine}");
    let all = stage.operator().get("/v1/admin/coupons/ten/user-coupons?status=CONFIRMED").expect(200).json();
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    let coupon = stage.operator().get("/v1/admin/coupons/ten").expect(200).json();
    assert_eq!((&coupon["issued"], &coupon["remaining"]), (&json!(2), &json!(0)));
    stage.until_decided("ten");
    stage.assert_clean();
}

/// The second user's wish, and where it is followed.
fn second_asks(stage: &Stage) -> (String, String, String) {
    let asked = issue(&stage.user(2), "ten", "k-1", &[]);
    let server = &stage.servers[2 % stage.servers.len()];
    let address = server.address.trim_start_matches("http://").to_owned();
    (address, format!("/v1/user-coupons/{}/stream", id_of(&asked)), crate::support::token("u-2", "USER"))
}

/// All events of a stream until the server ends it.
fn stream((address, path, token): &(String, String, String)) -> Vec<String> {
    let mut connection = TcpStream::connect(address).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).unwrap();
    let lines = BufReader::new(connection).lines().map_while(Result::ok);
    lines.filter_map(|line| line.strip_prefix("data: ").map(str::to_owned)).collect()
}

fn one_user_at_once_and_many_for_few(stage: Stage) {
    stage.make("few", 20, json!({}));
    // Fifty tries of one user under one key, and fifty under others: one coupon.
    let answers = at_once(100, |number| {
        let key = if number % 2 == 0 { "same".to_owned() } else { format!("k-{number}") };
        issue_now(&crate::support::as_user(&stage.servers[number % stage.servers.len()], 1_000), "few", &key)
    });
    let won: BTreeSet<_> = answers.iter().filter(|answer| answer.status == 201).map(id_of).collect();
    assert_eq!(won.len(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer.status == 201 || answer.code() == "DUPLICATE"), "{answers:?}");
    // Sixty people for what is left.
    let answers = at_once(60, |number| issue_now(&stage.user(number), "few", "k"));
    let won = answers.iter().filter(|answer| answer.status == 201).count();
    let lost = answers.iter().filter(|answer| answer.code() == "OUT_OF_STOCK").count();
    assert_eq!((won, lost), (19, 41));
    assert_eq!(stage.issued("few"), 20);
    stage.until_decided("few");
    stage.assert_clean();
}

fn several_for_each_user_and_taken_back(stage: Stage) {
    stage.make("three", 7, json!({"perUserLimit": 3}));
    let wins = |user: usize, keys: std::ops::Range<usize>| {
        let answers = at_once(keys.len(), |key| {
            issue_now(&stage.user(user), "three", &format!("k-{}", keys.start + key))
        });
        let won: Vec<_> = answers.iter().filter(|answer| answer.status == 201).map(id_of).collect();
        (
            won,
            answers
                .iter()
                .filter(|answer| answer.status != 201)
                .map(guerdon_harness::Answer::code)
                .collect::<Vec<_>>(),
        )
    };
    let (mine, refused) = wins(1, 0..5);
    assert_eq!((mine.len(), refused), (3, vec!["DUPLICATE".to_owned(); 2]));
    assert_eq!(wins(2, 0..3).0.len(), 3);
    let (last, refused) = wins(3, 0..2);
    assert_eq!((last.len(), refused), (1, vec!["OUT_OF_STOCK".to_owned()]));
    // One is taken back: its user and others can have it again, but only one of them.
    let revoke = |id: &str| {
        stage.operator().post(&format!("/v1/admin/user-coupons/{id}/revoke"), &json!({"note": "by mistake"}))
    };
    assert_eq!(revoke(&mine[0]).expect(200).json()["note"], "by mistake");
    assert_eq!(revoke(&mine[0]).expect(200).json()["status"], "REVOKED", "again, and nothing changes");
    assert_eq!(stage.issued("three"), 6);
    // Redis hears of it a moment later.
    until("it to be there again", PATIENCE, || {
        let key = format!("again-{:?}", std::time::Instant::now()).replace(' ', "");
        (issue_now(&stage.user(1), "three", &key[key.len().saturating_sub(60)..]).status == 201).then_some(())
    });
    assert_eq!(issue_now(&stage.user(3), "three", "k-9").expect(409).code(), "OUT_OF_STOCK");
    assert_eq!(stage.issued("three"), 7);
    stage.until_decided("three");
    stage.assert_clean();
}
