//! What a participant's page reads: one's own plays, what one has at an event, a coupon that can be had, and the time.

use crate::support::{Cluster, as_user, on_every_setup, open_drop, seconds_now};
use guerdon_harness::Api;
use guerdon_harness::api::drop_body;
use serde_json::{Value, json};

on_every_setup! {
    my_plays_come_page_by_page
    what_i_have_at_one_event
    a_coupon_as_everybody_sees_it
    the_time_is_the_servers
}

fn open(api: &Api, id: &str, kind: &str, more: &[(&str, Value)]) {
    let mut body = drop_body(id);
    body["type"] = json!(kind);
    body["capacityTotal"] = Value::Null;
    body["rewards"] = json!([{"rewardId": "points", "kind": "POINT", "amount": 10, "currency": "POINT"}]);
    for (field, value) in more {
        body[*field] = value.clone();
    }
    api.post("/v1/admin/events", &body).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

fn my_plays_come_page_by_page(cluster: &Cluster) {
    let prizes = json!({"perDay": 7, "perUser": 9, "prizes": [
        {"rewardId": "points", "weight": 1}, {"rewardId": null, "weight": 1}]});
    open(&cluster.operator(0), "game", "RANDOM", &[("random", prizes)]);
    let me = as_user(&cluster.servers[0], 1);
    let list = |query: &str| me.get(&format!("/v1/events/game/plays{query}")).expect(200).json();
    assert_eq!(list(""), json!({"left": 7, "total": 0, "items": [], "nextCursor": null}));
    let mut made = Vec::new();
    for number in 0..5 {
        let key = format!("key-{number}");
        let answer = me.send("POST", "/v1/events/game/plays", &[("idempotency-key", &key)], None).expect(201);
        made.insert(0, answer.json());
    }
    as_user(&cluster.servers[0], 2)
        .send("POST", "/v1/events/game/plays", &[("idempotency-key", "another")], None)
        .expect(201);
    let first = list("?limit=3");
    assert_eq!((&first["left"], &first["total"]), (&json!(2), &json!(5)));
    let second = list(&format!("?limit=3&cursor={}", first["nextCursor"].as_str().unwrap()));
    assert_eq!(second["nextCursor"], Value::Null);
    let both = first["items"].as_array().unwrap().iter().chain(second["items"].as_array().unwrap());
    for (listed, made) in both.zip(&made) {
        for field in ["logId", "userId", "prize", "oddsVersion", "playedAt"] {
            assert_eq!(listed[field], made[field], "{listed} {made}");
        }
        assert_eq!(listed["allocation"].is_null(), made["prize"]["rewardId"].is_null());
        assert_eq!(listed["allocation"]["allocationId"], made["allocation"]["allocationId"]);
    }
}

fn what_i_have_at_one_event(cluster: &Cluster) {
    let operator = cluster.operator(0);
    open_drop(&operator, "one", 5);
    open_drop(&operator, "other", 5);
    open(&operator, "gift", "CLAIM", &[]);
    open(&operator, "gift_2", "CLAIM", &[]);
    let me = as_user(&cluster.servers[0], 1);
    as_user(&cluster.servers[0], 2).post("/v1/events/one/requests", &json!({})).expect(202);
    let request = me.post("/v1/events/one/requests", &json!({})).expect(202).json();
    me.post("/v1/events/other/requests", &json!({})).expect(202);
    crate::claims::claim(&me, "gift", "claim-of-gift", &[]).expect(200);
    crate::claims::claim(&me, "gift_2", "claim-of-gift-2", &[]).expect(200);
    let ids = |path: &str| -> Vec<String> {
        let list = me.get(path).expect(200).json();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["requestId"].as_str().unwrap().into())
            .collect()
    };
    assert_eq!(ids("/v1/me/requests").len(), 2);
    assert_eq!(ids("/v1/me/requests?eventId=one"), [request["requestId"].as_str().unwrap()]);
    assert_eq!(ids("/v1/me/requests?eventId=nowhere"), [""; 0]);
    assert_eq!(ids("/v1/me/requests?eventId=gift"), [""; 0]);
    assert_eq!(ids("/v1/me/claims?eventId=gift"), ["claim-of-gift"]);
    assert_eq!(ids("/v1/me/claims").len(), 2);
    // A place in one list is none in another.
    let page = me.get("/v1/me/requests?limit=1").expect(200).json();
    let cursor = page["nextCursor"].as_str().unwrap();
    let mixed = me.get(&format!("/v1/me/requests?eventId=one&cursor={cursor}"));
    assert_eq!(mixed.expect(400).code(), "BAD_CURSOR");
}

fn a_coupon_as_everybody_sees_it(cluster: &Cluster) {
    let body = json!({"couponId": "ten", "name": "Ten off", "totalQuantity": 3, "perUserLimit": 2,
        "validFrom": 5, "validUntil": 4_000_000_000_000_i64, "benefit": {"percent": 10}});
    cluster.operator(0).post("/v1/admin/coupons", &body).expect(201);
    let me = as_user(&cluster.servers[0], 1);
    crate::coupons::issue(&me, "ten", "a-key", &[]).expect(201);
    let mut expected = body;
    expected["remaining"] = json!(2);
    assert_eq!(me.get("/v1/coupons/ten").expect(200).json(), expected);
}

fn the_time_is_the_servers(cluster: &Cluster) {
    let now = as_user(&cluster.servers[0], 1).get("/v1/time").expect(200).json()["now"].as_i64().unwrap();
    assert!((now / 1_000 - seconds_now()).abs() <= 5, "{now}");
}
