//! The server dies before and after every commit and every call of a claim, one place after the other.

use super::{Asked, PATIENCE, Stage, claim, limited, on_both_engines, points};
use guerdon_harness::{TestEngine, until};
use serde_json::{Value, json};

on_both_engines! {
    a_crash_at_every_place_of_a_claim_that_is_granted
    a_crash_at_every_place_of_a_claim_that_is_undone
}

/// More places than any claim passes.
const PLACES_MAX: usize = 80;

/// Makes one claim after the other, and crashes at the next place of each until there is none, while those before it are
/// taken up again; the places.
fn crash_everywhere(engine: TestEngine, faults: &Value, ends: &str) -> Vec<String> {
    let mut stage = Stage::set(engine, Asked::All, &[]);
    let rewards = json!([points(), limited("sword", 1_000), limited("shield", 1_000)]);
    stage.open("gift", json!({"conditions": "activity.OK == 1", "rewards": rewards}));
    stage.partners.faults(faults);
    let mut places = Vec::new();
    let key = |place: usize| format!("place-{place:04}");
    loop {
        let place = places.len() + 1;
        assert!(place < PLACES_MAX, "{places:?}");
        stage.person(&format!("u-{place}"), &json!({"activity": {"OK": 1}}));
        stage.servers.clear();
        stage.start(&[("FAILPOINT", &format!("{}:{place}", key(place)))]);
        let headers = [("X-Idempotency-Key", &*key(place)), ("Prefer", "wait=20")];
        let path = "/v1/event-claims/gift/claim";
        let answer = stage.user(place).try_send("POST", path, &headers, Some("{}"));
        if answer.is_ok_and(|answer| answer.status != 202) {
            // Nothing was left to crash at.
            break;
        }
        let mut server = stage.servers.pop().unwrap();
        until("the server to be gone", PATIENCE, || server.has_ended().then_some(()));
        let log = server.log_text();
        let last = log.lines().rfind(|line| line.contains("a place to fail at")).unwrap().to_owned();
        places.push(last[last.find("place=").unwrap()..].to_owned());
    }
    stage.servers.pop().unwrap().kill();
    stage.start(&[]);
    for place in 1..=places.len() + 1 {
        // Whoever got no answer asks again with the same key.
        claim(&stage.user(place), "gift", &key(place), &[("Prefer", "respond-async")]);
    }
    for place in 1..=places.len() + 1 {
        let ended = stage.ended(&key(place));
        assert_eq!(ended["status"], ends, "after {:?}: {ended}", places.get(place - 1));
    }
    check(&stage, places.len() + 1, ends);
    stage.assert_clean();
    places
}

/// Stock, provider and wallet after so many claims.
fn check(stage: &Stage, claims: usize, ends: &str) {
    let granted = if ends == "SUCCESS_ALL_GRANTED" { claims } else { 0 };
    let left = 1_000 - i64::try_from(granted).unwrap();
    assert_eq!((stage.stock("gift", "sword"), stage.stock("gift", "shield")), (left, left));
    assert_eq!(stage.given().len(), granted * 2);
    let mut sql = stage.database.sql();
    let transfers = sql.table("core.transfer");
    let paid =
        sql.number(&format!("SELECT COUNT(*) FROM {transfers} WHERE kind = 'REWARD' AND refunded < amount"));
    assert_eq!(paid, i64::try_from(granted).unwrap());
}

fn a_crash_at_every_place_of_a_claim_that_is_granted(engine: TestEngine) {
    let places = crash_everywhere(engine, &json!({}), "SUCCESS_ALL_GRANTED");
    // The initiation, two looks at the user, one at the conditions, two grants: before and after each call, and around
    // every commit between them.
    let calls = places.iter().filter(|place| place.contains("call")).count();
    let commits = places.iter().filter(|place| place.contains("commit")).count();
    assert!(calls >= 10 && commits >= 14, "{places:#?}");
}

fn a_crash_at_every_place_of_a_claim_that_is_undone(engine: TestEngine) {
    let refused: Vec<_> = (0..500).map(|_| json!({"status": 422})).collect();
    let places = crash_everywhere(engine, &json!({"byReward": {"shield": refused}}), "FAILED_ROLLED_BACK");
    let calls = places.iter().filter(|place| place.contains("call")).count();
    assert!(calls >= 12, "{places:#?}");
}
