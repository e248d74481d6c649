//! Coupons as rewards: through deliveries and through claims, exactly once, and taken back with the rest.

use super::{PATIENCE, Stage, for_every_issuer, issue_now};
use crate::claims::{claim, limited};
use guerdon_harness::until;
use serde_json::{Value, json};

for_every_issuer! {
    winners_get_theirs
    a_claim_that_is_undone_gives_it_back
}

fn open(stage: &Stage, id: &str, fields: Value) {
    let mut body = json!({
        "eventId": id, "name": "A gift", "startsAt": 1_700_000_000_000_i64, "endsAt": 4_000_000_000_000_i64,
    });
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    let api = stage.operator();
    api.post("/v1/admin/events", &body).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

fn coupon_reward(coupon: &str) -> Value {
    json!({"rewardId": "ten_off", "kind": "COUPON", "couponId": coupon})
}

fn winners_get_theirs(stage: Stage) {
    stage.make("ten", 4, json!({}));
    // One of them has it already, by themselves, and one coupon less is there than there are winners.
    issue_now(&stage.user(1), "ten", "k").expect(201);
    open(
        &stage,
        "drop",
        json!({"type": "FIRST_COME", "capacityTotal": 6, "rewards": [coupon_reward("ten")]}),
    );
    for user in 1..=6 {
        stage.user(user).post("/v1/events/drop/requests", &json!({})).expect(202);
    }
    let ended = "SELECT COUNT(*) FROM event_reward_allocation WHERE reward_status = 'SUCCESS'
        OR (reward_status = 'FAILED' AND next_retry_at IS NULL)";
    until("every delivery to end", PATIENCE, || (stage.database.sql().number(ended) == 6).then_some(()));
    let mine =
        |user: usize| stage.user(user).get("/v1/me/allocations").expect(200).json()["items"][0].clone();
    let first =
        stage.operator().get("/v1/admin/allocations?memberId=u-1").expect(200).json()["items"][0].clone();
    assert_eq!(first["rewardStatus"], "FAILED");
    assert!(first["errorMessage"].as_str().unwrap().contains("DUPLICATE"), "{first}");
    let won: Vec<_> = (2..=6).filter(|user| mine(*user)["rewardStatus"] == "SUCCESS").collect();
    assert_eq!(won.len(), 3, "as many as were left");
    for user in won {
        let id = mine(user)["externalTransactionId"].as_str().unwrap().to_owned();
        let held = stage.user(user).get(&format!("/v1/user-coupons/{id}")).expect(200).json();
        assert_eq!(held["status"], "CONFIRMED");
    }
    assert_eq!(stage.issued("ten"), 4);
    // Two of one coupon are two rewards.
    let mut twice = coupon_reward("ten");
    twice["quantity"] = json!(2);
    let body = json!({
        "eventId": "twice", "name": "x", "type": "CLAIM", "startsAt": 1_700_000_000_000_i64,
        "endsAt": 4_000_000_000_000_i64, "rewards": [twice],
    });
    let refused = stage.operator().post("/v1/admin/events", &body).expect(422).json();
    assert_eq!(refused["fields"][0]["path"], "rewards[0].quantity");
    stage.until_decided("ten");
    stage.assert_clean();
}

fn a_claim_that_is_undone_gives_it_back(stage: Stage) {
    stage.make("ten", 2, json!({}));
    open(&stage, "gift", json!({"type": "CLAIM", "rewards": [coupon_reward("ten")]}));
    // Nobody delivers the sword, so that the coupon that was granted before it is taken back.
    open(&stage, "bad", json!({"type": "CLAIM", "rewards": [coupon_reward("ten"), limited("sword", 5)]}));
    let undone = claim(&stage.user(1), "bad", "bad-0001", &[("Prefer", "wait=20")]).expect(502);
    let rewards = undone.json()["claim"]["rewardsToProcess"].clone();
    assert_eq!(
        (&rewards[0]["grantStatus"], &rewards[1]["inventoryStatus"]),
        (&json!("REVOKED"), &json!("RETURNED"))
    );
    assert_eq!(stage.issued("ten"), 0);
    // It is there again for whoever claims what can be given; a key is granted once.
    let granted = claim(&stage.user(1), "gift", "gift-0001", &[("Prefer", "wait=20")]).expect(200).json();
    let again = claim(&stage.user(1), "gift", "gift-0001", &[("Prefer", "wait=20")]).expect(200).json();
    let id = |claim: &Value| claim["rewardsToProcess"][0]["transactionIdFromProvider"].clone();
    assert_eq!(id(&granted), id(&again));
    claim(&stage.user(2), "gift", "gift-0002", &[("Prefer", "wait=20")]).expect(200);
    let refused = claim(&stage.user(3), "gift", "gift-0003", &[("Prefer", "wait=20")]).expect(502);
    assert_eq!(refused.code(), "FAILED_ROLLED_BACK");
    assert_eq!(stage.issued("ten"), 2);
    stage.until_decided("ten");
    stage.assert_clean();
}
