//! What the console reads and does beside the calls of each part: search, lists of everything, reasons, many at once.

use crate::support::{Cluster, on_every_setup, token};
use guerdon_harness::{Api, until};
use serde_json::{Value, json};
use std::time::Duration;

on_every_setup! {
    any_id_is_found_and_leads_to_what_it_is
    lists_come_page_by_page
    the_reasons_are_the_ones_that_there_were
    many_are_counted_then_cancelled_with_a_reason
}

const END: i64 = 4_000_000_000_000;

fn user(cluster: &Cluster, name: &str) -> Api {
    cluster.servers[0].api().with_token(&token(name, "USER"))
}

fn open(api: &Api, id: &str, kind: &str, more: Value) {
    let mut body =
        json!({"eventId": id, "name": format!("Event {id}"), "type": kind, "startsAt": 0, "endsAt": END});
    for (field, value) in more.as_object().unwrap() {
        body[field] = value.clone();
    }
    api.post("/v1/admin/events", &body).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

fn points() -> Value {
    json!([{"rewardId": "p", "kind": "POINT", "amount": 5, "currency": "POINT"}])
}

fn found(api: &Api, text: &str) -> Vec<(String, String)> {
    let hits = api.get(&format!("/v1/admin/search?q={text}")).expect(200).json();
    let text = |hit: &Value, name: &str| hit[name].as_str().unwrap().to_owned();
    hits["items"].as_array().unwrap().iter().map(|hit| (text(hit, "kind"), text(hit, "id"))).collect()
}

fn any_id_is_found_and_leads_to_what_it_is(cluster: &Cluster) {
    let api = cluster.operator(1);
    open(&api, "drop", "FIRST_COME", json!({"capacityTotal": 5, "rewards": points()}));
    open(&api, "claim", "CLAIM", json!({"rewards": points()}));
    let coupon = json!({"couponId": "c_1", "name": "C", "totalQuantity": 5, "validFrom": 0, "validUntil": END, "benefit": {}});
    api.post("/v1/admin/coupons", &coupon).expect(201);
    let ann = user(cluster, "ann");
    let keyed = |path: &str, key: &str, body: Value| {
        ann.send("POST", path, &[("idempotency-key", key)], Some(&body.to_string())).json()
    };
    let id = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
    let request = id(&ann.post("/v1/events/drop/requests", &json!({})).expect(202).json(), "requestId");
    let claim = id(&keyed("/v1/event-claims/claim/claim", "claim-key-1", json!({})), "requestId");
    let held = id(&keyed("/v1/coupons/c_1/issue", "coupon-key-1", json!({})), "userCouponId");
    let account = api.post("/v1/admin/accounts", &json!({"ownerId": "ann", "currency": "KRW", "scale": 0}));
    let account = account.expect(201).json()["accountId"].as_i64().unwrap();
    let deposit = api.send(
        "POST",
        &format!("/v1/admin/accounts/{account}/deposit"),
        &[("idempotency-key", "deposit-key-1")],
        Some("{\"amount\": 100}"),
    );
    let transfer = id(&deposit.expect(200).json(), "transferId");
    let won = api.get("/v1/admin/allocations?memberId=ann&eventId=drop").expect(200).json();
    let (allocation, key) = (id(&won["items"][0], "allocationId"), id(&won["items"][0], "idempotencyKey"));
    for (text, kind, leads_to) in [
        ("drop", "EVENT", "drop"),
        (&request, "REQUEST", &request),
        (&claim, "CLAIM", &claim),
        ("c_1", "COUPON", "c_1"),
        (&held, "USER_COUPON", &held),
        (&transfer, "TRANSFER", &transfer),
        (&account.to_string(), "ACCOUNT", &account.to_string()),
        (&allocation, "ALLOCATION", &allocation),
        (&key, "ALLOCATION", &allocation),
        ("deposit-key-1", "TRANSFER", &transfer),
        ("deposit-key-1", "IDEMPOTENCY_KEY", "deposit-key-1"),
        ("ann", "USER", "ann"),
        ("%20drop%20", "EVENT", "drop"),
    ] {
        let hits = found(&api, &text.replace('#', "%23"));
        assert!(hits.contains(&(kind.into(), leads_to.into())), "{text}: {hits:?}");
    }
    for nothing in ["nobody", "dro", "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001", "99999", "%EA%B0%80"] {
        assert_eq!(found(&api, nothing), [], "{nothing}");
    }
}

/// Reads a list to its end, two at a time.
fn all(api: &Api, path: &str, name: &str) -> Vec<String> {
    let join = if path.contains('?') { '&' } else { '?' };
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for _ in 0..50 {
        let page = api.get(&format!("{path}{join}limit=2{cursor}")).expect(200).json();
        let text =
            |item: &Value| item[name].as_str().map_or_else(|| item[name].to_string(), ToOwned::to_owned);
        seen.extend(page["items"].as_array().unwrap().iter().map(text));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return seen,
        }
    }
    panic!("{path} has no end");
}

fn lists_come_page_by_page(cluster: &Cluster) {
    let api = cluster.operator(0);
    for (name, status) in
        [("a", "ACTIVE"), ("b", "BANNED"), ("c", "ACTIVE"), ("d", "BANNED"), ("e", "INACTIVE")]
    {
        let body = json!({"status": status}).to_string();
        api.send("PUT", &format!("/v1/admin/users/{name}"), &[], Some(&body)).expect(200);
        api.post("/v1/admin/accounts", &json!({"ownerId": name, "currency": "KRW", "scale": 0})).expect(201);
    }
    assert_eq!(all(&api, "/v1/admin/users", "userId"), ["a", "b", "c", "d", "e"]);
    assert_eq!(all(&api, "/v1/admin/users?status=BANNED", "userId"), ["b", "d"]);
    assert_eq!(all(&api, "/v1/admin/users?status=ACTIVE", "userId"), ["a", "c"]);
    assert_eq!(all(&api, "/v1/admin/users?status=WITHDRAWN", "userId"), [] as [&str; 0]);
    let owners = all(&api, "/v1/admin/accounts", "ownerId");
    assert_eq!(owners.iter().filter(|owner| owner.len() == 1).count(), 5, "{owners:?}");
    assert_eq!(all(&api, "/v1/admin/accounts?ownerId=c", "currency"), ["KRW"]);
    for number in 0..5 {
        let kind = if number % 2 == 0 { "FIRST_COME" } else { "CLAIM" };
        let more = if number % 2 == 0 { json!({"capacityTotal": 1}) } else { json!({"rewards": points()}) };
        open(&api, &format!("e_{number}"), kind, more);
    }
    assert_eq!(all(&api, "/v1/admin/events?type=CLAIM", "eventId"), ["e_3", "e_1"]);
    assert_eq!(all(&api, "/v1/admin/events?type=CLAIM&status=OPEN", "eventId"), ["e_1", "e_3"]);
    assert_eq!(all(&api, "/v1/admin/events?type=RANDOM", "eventId"), [] as [&str; 0]);
    let ann = user(cluster, "ann");
    for event in ["e_0", "e_2", "e_4"] {
        ann.post(&format!("/v1/events/{event}/requests"), &json!({})).expect(202);
    }
    let mut applied = all(&api, "/v1/admin/users/ann/requests", "eventId");
    applied.sort();
    assert_eq!(applied, ["e_0", "e_2", "e_4"]);
    assert_eq!(all(&api, "/v1/admin/users/nobody/requests", "eventId"), [] as [&str; 0]);
    assert_eq!(all(&api, "/v1/admin/users/ann/coupons", "couponId"), [] as [&str; 0]);
}

fn the_reasons_are_the_ones_that_there_were(cluster: &Cluster) {
    let api = cluster.operator(0);
    open(&api, "drop", "FIRST_COME", json!({"capacityTotal": 1, "rewards": points()}));
    open(
        &api,
        "raffle",
        "LOTTERY",
        json!({"capacityTotal": 1, "lotteryCutoffAt": END - 1, "rewards": points()}),
    );
    open(&api, "claim", "CLAIM", json!({"conditions": "activity.LEVEL > 9", "rewards": points()}));
    open(
        &api,
        "daily",
        "ATTENDANCE",
        json!({"attendance": {"bonus": [{"days": 7, "rewardId": "p"}]}, "rewards": points()}),
    );
    let parcel = json!([{"rewardId": "box", "kind": "ITEM"}]);
    open(&api, "parcel", "FIRST_COME", json!({"capacityTotal": 5, "rewards": parcel}));
    api.send("PUT", "/v1/admin/users/ann/activity", &[], Some(r#"{"LEVEL": 1}"#)).expect(200);
    api.send("PUT", "/v1/admin/users/zoe", &[], Some(r#"{"status": "BANNED"}"#)).expect(200);
    let (ann, bob) = (user(cluster, "ann"), user(cluster, "bob"));
    ann.post("/v1/events/drop/requests", &json!({})).expect(202);
    bob.post("/v1/events/drop/requests", &json!({})).expect(202);
    ann.post("/v1/events/raffle/requests", &json!({})).expect(202);
    ann.post("/v1/events/daily/attendance", &json!({})).expect(201);
    ann.post("/v1/events/parcel/requests", &json!({})).expect(202);
    ann.send("POST", "/v1/event-claims/claim/claim", &[("idempotency-key", "ann-s-claim")], Some("{}"))
        .expect(422);
    let why = |event: &str, who: &str| {
        let answer =
            cluster.operator(1).get(&format!("/v1/admin/events/{event}/users/{who}")).expect(200).json();
        let codes = answer["reasons"]
            .as_array()
            .unwrap()
            .iter()
            .map(|reason| reason["code"].as_str().unwrap().to_owned());
        (answer["verdict"].as_str().unwrap().to_owned(), codes.collect::<Vec<_>>())
    };
    until("the points to be delivered", Duration::from_secs(10), || {
        (why("drop", "ann").1 == ["WON", "DELIVERED"]).then_some(())
    });
    for (event, who, verdict, reasons) in [
        ("drop", "ann", "GOT", &["WON", "DELIVERED"][..]),
        ("drop", "bob", "NOT_GOT", &["CAPACITY_FULL"]),
        ("drop", "cid", "NEVER_ASKED", &["DID_NOT_ASK"]),
        ("drop", "zoe", "NEVER_ASKED", &["USER_NOT_ACTIVE", "DID_NOT_ASK"]),
        ("raffle", "ann", "ON_ITS_WAY", &["NOT_DRAWN_YET"]),
        ("claim", "ann", "NOT_GOT", &["CLAIM_FAILED"]),
        ("daily", "ann", "NOT_GOT", &["TOOK_PART", "BONUS_NOT_REACHED"]),
    ] {
        let (found, codes) = why(event, who);
        assert_eq!(
            (found.as_str(), &codes[..]),
            (verdict, &reasons.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
            "{event} {who}"
        );
    }
    let (verdict, codes) = why("parcel", "ann");
    assert_eq!((verdict.as_str(), codes[0].as_str()), ("ON_ITS_WAY", "WON"));
    api.post("/v1/admin/events/raffle/cancel", &json!({})).expect(200);
    until("everybody to be turned down", Duration::from_secs(10), || {
        (why("raffle", "ann").1.first().is_some_and(|code| code == "EVENT_CANCELLED")).then_some(())
    });
    assert_eq!(why("raffle", "ann").0, "NOT_GOT");
    assert_eq!(why("raffle", "bob").1, ["DID_NOT_ASK", "EVENT_CANCELLED"]);
}

fn many_are_counted_then_cancelled_with_a_reason(cluster: &Cluster) {
    let api = cluster.operator(0);
    let rewards = json!([{"rewardId": "box", "kind": "ITEM", "totalStock": 9}]);
    open(&api, "one", "FIRST_COME", json!({"capacityTotal": 9, "rewards": rewards}));
    open(&api, "two", "FIRST_COME", json!({"capacityTotal": 9, "rewards": rewards}));
    for name in ["a", "b", "c"] {
        user(cluster, name).post("/v1/events/one/requests", &json!({})).expect(202);
    }
    user(cluster, "a").post("/v1/events/two/requests", &json!({})).expect(202);
    // There is no provider here: they wait, or have failed once.
    let open_of = |event: &str| {
        let items = api.get(&format!("/v1/admin/allocations?eventId={event}")).expect(200).json();
        let rows = items["items"].as_array().unwrap().clone();
        rows.iter().map(|row| row["rewardStatus"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let settled = until("all to stand the same", Duration::from_secs(10), || {
        let all = [open_of("one"), open_of("two")].concat();
        let first = all[0].clone();
        (first != "PROCESSING" && all.iter().all(|status| *status == first)).then_some(first)
    });
    let count = |query: &str| {
        let answer =
            api.get(&format!("/v1/admin/allocations/count?status={settled}{query}")).expect(200).json();
        assert_eq!(answer["complete"], true);
        answer["count"].as_i64().unwrap()
    };
    assert_eq!((count(""), count("&eventId=one"), count("&memberId=a")), (4, 3, 2));
    assert_eq!((count("&memberId=a&eventId=two"), count("&eventId=nope")), (1, 0));
    let body = json!({"status": settled, "eventId": "one", "note": "the boxes are wet"});
    let begun = api.post("/v1/admin/allocations/cancel", &body).expect(202);
    let place = begun.header("location").unwrap().to_owned();
    let done = until("it to be done", Duration::from_secs(10), || {
        let run = api.get(&place).expect(200).json();
        (run["status"] == "DONE").then_some(run)
    });
    assert_eq!((&done["action"], &done["note"]), (&json!("CANCEL"), &json!("the boxes are wet")));
    assert_eq!((&done["lookedAt"], &done["retried"]), (&json!(3), &json!(3)));
    until("them to be cancelled", Duration::from_secs(10), || {
        (open_of("one") == ["CANCELLED", "CANCELLED", "CANCELLED"]).then_some(())
    });
    // Its next try may have come meanwhile.
    assert_ne!(open_of("two"), ["CANCELLED"], "the others are left alone");
    let event = api.get("/v1/admin/events/one").expect(200).json();
    assert_eq!(event["rewards"][0]["remainingStock"], 9, "the stock is back");
    let retries = api.get("/v1/admin/allocations/retries").expect(200).json();
    assert_eq!(retries["items"][0]["retryId"], done["retryId"]);
    let log = api.get("/v1/admin/audit-log").expect(200).json();
    let line = log["items"].as_array().unwrap().iter().find(|line| line["action"] == "ALLOCATIONS_CANCELLED");
    assert_eq!(line.unwrap()["after"]["note"], "the boxes are wet");
    let report = api.get("/v1/admin/audit").expect(200).json();
    assert_eq!(report["ok"], true, "{report}");
    let why = api.get("/v1/admin/events/one/users/a").expect(200).json();
    assert_eq!(why["reasons"][1]["code"], "DELIVERY_CANCELLED");
}
