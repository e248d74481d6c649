#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "tables read best as literals in one place"
)]

use super::super::lifecycle::NewEvent;
use crate::events::body::EventBody;
use serde_json::{Value, json};

fn first_come() -> Value {
    json!({
        "eventId": "drop_1", "name": "Drop", "type": "FIRST_COME", "startsAt": 1_000, "endsAt": 2_000,
        "capacityTotal": 5,
        "rewards": [
            {"rewardId": "points", "kind": "POINT", "amount": 10.5, "currency": "POINT"},
            {"rewardId": "gift", "kind": "ITEM", "totalStock": 5, "details": {"sku": 7}},
        ],
    })
}

fn of_type(kind: &str, extra: Value) -> Value {
    let mut body = first_come();
    body["type"] = kind.into();
    body.as_object_mut().unwrap().remove("capacityTotal");
    merge(body, extra)
}

fn merge(mut body: Value, extra: Value) -> Value {
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

/// The paths that validation refuses, or none.
fn refused(body: Value) -> Vec<String> {
    let body: EventBody = serde_json::from_value(body).expect("the body has the right shape");
    match NewEvent::validate(body) {
        Ok(_) => Vec::new(),
        Err(rejection) => rejection.fields.into_iter().map(|field| field.path).collect(),
    }
}

#[test]
fn every_type_has_a_body_that_is_accepted() {
    let attendance = json!({"attendance": {"timeZone": "America/New_York", "count": "STREAK", "daily": "points",
        "bonus": [{"days": 7, "rewardId": "gift"}]}});
    let random = json!({"random": {"perDay": 1, "perUser": 5, "fallback": "points",
        "prizes": [{"rewardId": "gift", "weight": 1}, {"rewardId": null, "weight": 99}]}});
    for body in [
        first_come(),
        of_type(
            "LOTTERY",
            json!({"capacityTotal": 1, "lotteryCutoffAt": 2_000, "publicNonceSource": "beacon 5"}),
        ),
        of_type("CLAIM", json!({"conditions": "activity.LOGINS >= 7", "grantPolicy": "PARTIAL"})),
        of_type("CLAIM", json!({})),
        of_type("ATTENDANCE", attendance),
        of_type("ATTENDANCE", json!({"attendance": {"daily": "points"}})),
        of_type("RANDOM", random),
    ] {
        assert_eq!(refused(body.clone()), Vec::<String>::new(), "{body}");
    }
}

#[test]
fn each_bad_field_is_named() {
    let reward =
        |fields: Value| json!({"rewards": [merge(json!({"rewardId": "r", "kind": "ITEM"}), fields)]});
    let attendance = |fields: Value| of_type("ATTENDANCE", json!({"attendance": fields}));
    let random = |fields: Value| of_type("RANDOM", json!({"random": fields}));
    let table: Vec<(&str, Value, &[&str])> = vec![
        ("nothing at all", json!({}), &["eventId", "type"]),
        ("null id", merge(first_come(), json!({"eventId": null})), &["eventId"]),
        ("bad id", merge(first_come(), json!({"eventId": "a-b"})), &["eventId"]),
        ("blank name", merge(first_come(), json!({"name": "  "})), &["name"]),
        ("long name", merge(first_come(), json!({"name": "이".repeat(201)})), &["name"]),
        ("control in name", merge(first_come(), json!({"name": "a\u{0}b"})), &["name"]),
        ("end before start", merge(first_come(), json!({"endsAt": 999})), &["endsAt"]),
        ("end at start", merge(first_come(), json!({"endsAt": 1_000})), &["endsAt"]),
        ("negative time", merge(first_come(), json!({"startsAt": -1})), &["startsAt"]),
        ("time beyond 9999", merge(first_come(), json!({"endsAt": i64::MAX})), &["endsAt"]),
        ("no capacity", merge(first_come(), json!({"capacityTotal": null})), &["capacityTotal"]),
        ("capacity 0", merge(first_come(), json!({"capacityTotal": 0})), &["capacityTotal"]),
        ("capacity negative", merge(first_come(), json!({"capacityTotal": -5})), &["capacityTotal"]),
        ("cutoff for a drop", merge(first_come(), json!({"lotteryCutoffAt": 1_500})), &["lotteryCutoffAt"]),
        ("random for a drop", merge(first_come(), json!({"random": {"prizes": []}})), &["random"]),
        ("no cutoff", of_type("LOTTERY", json!({"capacityTotal": 1})), &["lotteryCutoffAt"]),
        (
            "cutoff after end",
            of_type("LOTTERY", json!({"capacityTotal": 1, "lotteryCutoffAt": 2_001})),
            &["lotteryCutoffAt"],
        ),
        (
            "cutoff at start",
            of_type("LOTTERY", json!({"capacityTotal": 1, "lotteryCutoffAt": 1_000})),
            &["lotteryCutoffAt"],
        ),
        ("condition does not parse", of_type("CLAIM", json!({"conditions": "activity. >"})), &["conditions"]),
        ("condition is no test", of_type("CLAIM", json!({"conditions": "size(activity)"})), &["conditions"]),
        ("claim of nothing", of_type("CLAIM", json!({"rewards": []})), &["rewards"]),
        (
            "twice the same reward",
            merge(
                first_come(),
                json!({"rewards": [
            {"rewardId": "r", "kind": "ITEM"}, {"rewardId": "r", "kind": "ITEM"}]}),
            ),
            &["rewards[1].rewardId"],
        ),
        ("bad reward id", merge(first_come(), reward(json!({"rewardId": ""}))), &["rewards[0].rewardId"]),
        ("quantity 0", merge(first_come(), reward(json!({"quantity": 0}))), &["rewards[0].quantity"]),
        (
            "negative stock",
            merge(first_come(), reward(json!({"totalStock": -1}))),
            &["rewards[0].totalStock"],
        ),
        ("amount of an item", merge(first_come(), reward(json!({"amount": 1}))), &["rewards[0].amount"]),
        (
            "points without amount",
            merge(first_come(), reward(json!({"kind": "POINT"}))),
            &["rewards[0].amount", "rewards[0].currency"],
        ),
        (
            "no points",
            merge(first_come(), reward(json!({"kind": "POINT", "amount": 0, "currency": "KRW"}))),
            &["rewards[0].amount"],
        ),
        (
            "bad currency",
            merge(first_come(), reward(json!({"kind": "POINT", "amount": 1, "currency": "won"}))),
            &["rewards[0].currency"],
        ),
        (
            "coupon without id",
            merge(first_come(), reward(json!({"kind": "COUPON"}))),
            &["rewards[0].couponId"],
        ),
        (
            "coupon of an item",
            merge(first_come(), reward(json!({"couponId": "c"}))),
            &["rewards[0].couponId"],
        ),
        ("bad provider", merge(first_come(), reward(json!({"provider": "a b"}))), &["rewards[0].provider"]),
        ("no attendance", of_type("ATTENDANCE", json!({})), &["attendance"]),
        ("nothing to earn", attendance(json!({})), &["attendance.daily"]),
        (
            "unknown zone",
            attendance(json!({"daily": "points", "timeZone": "Mars/Base"})),
            &["attendance.timeZone"],
        ),
        ("unknown reward", attendance(json!({"daily": "nope"})), &["attendance.daily"]),
        (
            "bonus for 0 days",
            attendance(json!({"bonus": [{"days": 0, "rewardId": "gift"}]})),
            &["attendance.bonus[0].days"],
        ),
        (
            "bonus twice, of an unknown reward",
            attendance(json!({"bonus": [{"days": 7, "rewardId": "gift"}, {"days": 7, "rewardId": "x"}]})),
            &["attendance.bonus[1].days", "attendance.bonus[1].rewardId"],
        ),
        ("no random", of_type("RANDOM", json!({})), &["random"]),
        ("no prizes", random(json!({"prizes": []})), &["random.prizes"]),
        (
            "weights sum to 0",
            random(json!({"prizes": [{"rewardId": "gift", "weight": 0}]})),
            &["random.prizes"],
        ),
        (
            "negative weight",
            random(json!({"prizes": [{"rewardId": "gift", "weight": -1}, {"rewardId": null, "weight": 1}]})),
            &["random.prizes[0].weight"],
        ),
        (
            "unknown prize and fallback",
            random(json!({"prizes": [{"rewardId": "x", "weight": 1}], "fallback": "y"})),
            &["random.prizes[0].rewardId", "random.fallback"],
        ),
        (
            "no plays",
            random(json!({"perDay": 0, "perUser": -1, "prizes": [{"rewardId": "gift", "weight": 1}]})),
            &["random.perDay", "random.perUser"],
        ),
        (
            "odds of a draft in the future",
            random(json!({"prizes": [{"rewardId": "gift", "weight": 1}], "effectiveAt": 5})),
            &["random.effectiveAt"],
        ),
    ];
    for (case, body, paths) in table {
        assert_eq!(refused(body), paths, "{case}");
    }
}

#[test]
fn settings_survive_storage() {
    let body = of_type("CLAIM", json!({"conditions": "activity.LOGINS >= 7"}));
    let new = NewEvent::validate(serde_json::from_value(body).unwrap()).unwrap();
    let stored = serde_json::to_string(&new.settings.kind).unwrap();
    assert_eq!(serde_json::from_str::<crate::events::EventKind>(&stored).unwrap(), new.settings.kind);
}
