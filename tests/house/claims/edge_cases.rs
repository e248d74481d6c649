//! The eight edge cases of the claim saga, each from the call to what is left behind.

use super::{Asked, PATIENCE, Stage, claim, limited, on_both_engines, points, statuses};
use guerdon_harness::{TestEngine, until};
use serde_json::{Value, json};

on_both_engines! {
    a_user_who_withdraws_or_is_banned_meanwhile
    an_event_that_closes_or_is_cancelled_meanwhile
    the_stock_of_a_limited_reward_runs_out
    a_provider_that_fails_or_does_not_answer
    a_server_that_restarts_in_the_middle
    the_same_key_again
    a_database_that_fails_for_a_while_or_for_good
    a_compensation_that_fails_itself
}

/// For what is held up on purpose.
const PATIENT: (&str, &str) = ("GUERDON_SERVICES__GAME_DATA__TIMEOUT", "20s");

/// Begins a claim and waits until its conditions are being looked at.
fn begin(stage: &Stage, user: usize, event: &str, key: &str) {
    claim(&stage.user(user), event, key, &[("Prefer", "respond-async")]).expect(202);
    let api = stage.operator();
    until("the conditions to be looked at", PATIENCE, || {
        let view = api.get(&format!("/v1/admin/claims/{key}")).expect(200).json();
        (view["status"] == "PENDING_CONDITION_CHECK").then_some(())
    });
}

fn a_user_who_withdraws_or_is_banned_meanwhile(engine: TestEngine) {
    // Before anything: by the registry of the house.
    let stage = Stage::set(engine, Asked::Providers, &[]);
    stage.open("gift", json!({"rewards": [limited("sword", 5)]}));
    let api = stage.operator();
    for (user, status) in [(1, "BANNED"), (2, "WITHDRAWN"), (3, "INACTIVE")] {
        let path = format!("/v1/admin/users/u-{user}");
        api.send("PUT", &path, &[], Some(&json!({"status": status}).to_string())).expect(200);
        let refused = stage.claim(user, "gift", &format!("key-{user:05}")).expect(409).json();
        assert_eq!(refused["code"], "VALIDATION_FAILED_USER_INACTIVE", "{refused}");
        assert_eq!(refused["claim"]["failureReason"], "USER_INACTIVE");
    }
    assert_eq!(stage.stock("gift", "sword"), 5);
    stage.assert_clean();

    // Between the first look and the grant: by a service.
    let stage = Stage::set(engine, Asked::All, &[PATIENT]);
    stage.open("gift", json!({"conditions": "true", "rewards": [limited("sword", 5)]}));
    stage.person("u-7", &json!({"status": "BANNED"}));
    assert_eq!(stage.claim(7, "gift", "key-banned").expect(409).code(), "VALIDATION_FAILED_USER_INACTIVE");
    stage.person("u-8", &json!({"status": ""}));
    assert_eq!(stage.claim(8, "gift", "key-unknown").expect(409).code(), "VALIDATION_FAILED_USER_INACTIVE");
    stage.partners.faults(&json!({"auth": {"status": 500}}));
    let away = stage.claim(9, "gift", "key-away").expect(502).json();
    assert_eq!(away["code"], "VALIDATION_FAILED_EXTERNAL_AUTH", "{away}");
    stage.partners.faults(&json!({"gameData": {"delayMs": 1_500}}));
    begin(&stage, 1, "gift", "key-00001");
    stage.person("u-1", &json!({"status": "WITHDRAWN"}));
    let ended = stage.ended("key-00001");
    assert_eq!(ended["status"], "FAILED_ROLLED_BACK", "{ended}");
    assert_eq!(ended["failureReason"], "USER_INACTIVE");
    assert_eq!(ended["rewardsToProcess"][0]["grantStatus"], "FAILED_USER_INACTIVE");
    let passed = statuses(&ended);
    let back = [
        "INVENTORY_ALLOCATED",
        "PENDING_REWARD_GRANT",
        "REWARD_GRANT_FAILED_USER_INACTIVE",
        "PENDING_COMPENSATION_INVENTORY",
        "COMPENSATED_INVENTORY",
        "FAILED_ROLLED_BACK",
    ];
    assert!(passed.ends_with(&back.map(String::from)), "{passed:?}");
    let log: Vec<_> =
        ended["compensatingActionsLog"].as_array().unwrap().iter().map(|line| &line["phase"]).collect();
    assert_eq!(log, ["STARTED", "DONE"]);
    assert_eq!(stage.stock("gift", "sword"), 5);
    assert!(stage.given().is_empty());
    stage.assert_clean();
}

fn an_event_that_closes_or_is_cancelled_meanwhile(engine: TestEngine) {
    let stage = Stage::set(engine, Asked::All, &[("GUERDON_CLAIMS__RETRIES", "100"), PATIENT]);
    let api = stage.operator();
    for event in ["closed", "closing", "cancelled"] {
        stage.open(event, json!({"conditions": "true", "rewards": [limited("sword", 5)]}));
    }
    api.post("/v1/admin/events/closed/close", &json!({})).expect(200);
    let refused = stage.claim(1, "closed", "key-00001").expect(409).json();
    assert_eq!(refused["code"], "VALIDATION_FAILED_EVENT_NOT_ACTIVE", "{refused}");
    stage.partners.faults(&json!({"gameData": {"delayMs": 1_500}}));
    begin(&stage, 2, "closing", "key-00002");
    begin(&stage, 3, "cancelled", "key-00003");
    api.post("/v1/admin/events/closing/close", &json!({})).expect(200);
    api.post("/v1/admin/events/cancelled/cancel", &json!({})).expect(200);
    // The mere end of an event does not stop a claim that was valid.
    assert_eq!(stage.ended("key-00002")["status"], "SUCCESS_ALL_GRANTED");
    let ended = stage.ended("key-00003");
    assert_eq!(ended["status"], "FAILED_ROLLED_BACK", "{ended}");
    assert_eq!(ended["failureReason"], "EVENT_NOT_ACTIVE");
    assert_eq!((stage.stock("closing", "sword"), stage.stock("cancelled", "sword")), (4, 5));
    assert_eq!(stage.given(), ["claim-key-00002-sword"]);
    let replayed = stage.claim(3, "cancelled", "key-00003").expect(502).json();
    assert_eq!(replayed["code"], "FAILED_ROLLED_BACK");
    // While the provider is tried again and again: once it works, it is too late.
    stage.partners.faults(&json!({}));
    stage.open("late", json!({"rewards": [limited("sword", 5)]}));
    let away: Vec<_> = (0..1_000).map(|_| json!({"status": 503})).collect();
    stage.partners.faults(&json!({"byReward": {"sword": away}}));
    claim(&stage.user(4), "late", "key-00004", &[("Prefer", "respond-async")]).expect(202);
    until("the provider to be called", PATIENCE, || {
        let view = api.get("/v1/admin/claims/key-00004").expect(200).json();
        view["rewardsToProcess"][0]["failureReason"].is_string().then_some(())
    });
    api.post("/v1/admin/events/late/cancel", &json!({})).expect(200);
    let ended = stage.ended("key-00004");
    assert_eq!(
        (&ended["status"], &ended["failureReason"]),
        (&json!("FAILED_ROLLED_BACK"), &json!("EVENT_NOT_ACTIVE"))
    );
    assert_eq!((stage.given().len(), stage.stock("late", "sword")), (1, 5));
    stage.assert_clean();
}

fn the_stock_of_a_limited_reward_runs_out(engine: TestEngine) {
    let stage = Stage::set(engine, Asked::Providers, &[]);
    stage.open("gift", json!({"rewards": [limited("shield", 100), limited("sword", 3)]}));
    let answers =
        crate::support::at_once(12, |number| stage.claim(number, "gift", &format!("key-{number:05}")));
    let granted = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(granted, 3);
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (409, "INVENTORY_ALLOCATION_FAILED_OUT_OF_STOCK")
        );
    }
    // Of what there was enough nothing is kept from those who did not get the rest.
    assert_eq!((stage.stock("gift", "shield"), stage.stock("gift", "sword")), (97, 0));
    assert_eq!(stage.given().len(), 6);
    stage.assert_clean();
}

fn a_provider_that_fails_or_does_not_answer(engine: TestEngine) {
    let stage = Stage::set(engine, Asked::Providers, &[("GUERDON_CLAIMS__RETRIES", "1")]);
    let rewards = json!([points(), limited("sword", 5), limited("shield", 5)]);
    stage.open("all", json!({"rewards": rewards}));
    stage.open("some", json!({"rewards": rewards, "grantPolicy": "PARTIAL"}));
    // A fault that passes: tried again, given once.
    let passing = json!([{"status": 503}, {"status": 500, "applies": true, "tells": false}]);
    stage.partners.faults(&json!({"byReward": {"sword": [passing[0]], "shield": [passing[1]]}}));
    assert_eq!(stage.claim(1, "all", "key-00001").expect(200).json()["status"], "SUCCESS_ALL_GRANTED");
    assert_eq!(stage.given(), ["claim-key-00001-shield", "claim-key-00001-sword"]);
    // One that does not pass: all of it is undone, the last first.
    stage.partners.faults(&json!({"byReward": {"shield": [{"status": 422}]}}));
    let refused = stage.claim(2, "all", "key-00002").expect(502).json();
    assert_eq!(refused["code"], "FAILED_ROLLED_BACK", "{refused}");
    let rewards = refused["claim"]["rewardsToProcess"].as_array().unwrap();
    let grants: Vec<_> = rewards.iter().map(|reward| reward["grantStatus"].as_str().unwrap()).collect();
    assert_eq!(grants, ["REVOKED", "REVOKED", "FAILED_EXTERNAL"]);
    let lines = refused["claim"]["compensatingActionsLog"].as_array().unwrap();
    let told = |line: &Value| {
        ["action", "rewardId", "phase"].map(|name| line[name].as_str().unwrap().to_owned()).join(" ")
    };
    let log: Vec<_> = lines.iter().map(told).collect();
    assert_eq!(
        log,
        [
            "REVOKE_REWARD sword STARTED",
            "REVOKE_REWARD sword DONE",
            "REVOKE_REWARD points STARTED",
            "REVOKE_REWARD points DONE",
            "RETURN_INVENTORY shield STARTED",
            "RETURN_INVENTORY shield DONE",
            "RETURN_INVENTORY sword STARTED",
            "RETURN_INVENTORY sword DONE",
        ]
    );
    assert_eq!(stage.user(2).get("/v1/me/accounts").expect(200).json()["items"][0]["balance"], 0);
    // The same where what there is is given.
    stage.partners.faults(&json!({"byReward": {"shield": [{"status": 422}]}}));
    let partly = stage.claim(3, "some", "key-00003").expect(200).json();
    assert_eq!(partly["status"], "REWARD_PARTIALLY_GRANTED", "{partly}");
    assert_eq!(partly["rewardsToProcess"][2]["inventoryStatus"], "RETURNED");
    assert_eq!((stage.stock("some", "sword"), stage.stock("some", "shield")), (4, 5));
    // No answer in time, again and again; it is applied when we have long begun to undo it, and is not kept.
    let late = json!({"delayMs": 1_500, "late": true});
    stage.partners.faults(&json!({"byReward": {"sword": [late, late]}, "noLookup": true}));
    let undone = claim(&stage.user(4), "all", "key-00004", &[("Prefer", "wait=20")]).expect(502).json();
    assert_eq!(undone["code"], "FAILED_ROLLED_BACK", "{undone}");
    // In part: what is in doubt is taken back before its stock is given to somebody else.
    stage.partners.faults(&json!({"byReward": {"sword": [late, late]}, "noLookup": true}));
    let partly = claim(&stage.user(5), "some", "key-00005", &[("Prefer", "wait=20")]).expect(200).json();
    assert_eq!(partly["status"], "REWARD_PARTIALLY_GRANTED", "{partly}");
    assert_eq!((stage.stock("all", "sword"), stage.stock("all", "shield")), (4, 4));
    assert_eq!((stage.stock("some", "sword"), stage.stock("some", "shield")), (4, 4));
    // Whatever comes late comes to nothing: the calls are over when they could have been applied.
    let standing =
        ["00001-shield", "00001-sword", "00003-sword", "00005-shield"].map(|key| format!("claim-key-{key}"));
    let since = std::time::Instant::now();
    until("the late calls to be over", PATIENCE, || (since.elapsed().as_millis() > 1_600).then_some(()));
    assert_eq!(stage.given(), standing);
    stage.assert_clean();
}

fn a_server_that_restarts_in_the_middle(engine: TestEngine) {
    let mut stage = Stage::set(engine, Asked::All, &[("GUERDON_PROVIDERS__DEFAULT__TIMEOUT", "3s")]);
    stage.open("gift", json!({"conditions": "true", "rewards": [points(), limited("sword", 5)]}));
    stage.partners.faults(&json!({"byReward": {"sword": [{"delayMs": 2_500}]}}));
    claim(&stage.user(1), "gift", "key-00001", &[("Prefer", "respond-async")]).expect(202);
    // The provider has it, and nobody will hear its answer.
    until("the provider to be called", PATIENCE, || (stage.given().len() == 1).then_some(()));
    stage.servers.pop().unwrap().kill();
    stage.start(&[]);
    let ended = stage.ended("key-00001");
    assert_eq!(ended["status"], "SUCCESS_ALL_GRANTED", "{ended}");
    assert_eq!(stage.partners.applied()[0]["calls"], 1, "it was asked about, and not called again");
    assert_eq!(stage.stock("gift", "sword"), 4);
    stage.assert_clean();
}

fn the_same_key_again(engine: TestEngine) {
    let stage = Stage::set(engine, Asked::Providers, &[]);
    stage.open("gift", json!({"conditions": "activity.OK == 1", "rewards": [limited("sword", 5)]}));
    let api = stage.operator();
    api.send("PUT", "/v1/admin/users/u-1/activity", &[], Some(r#"{"OK": 1}"#)).expect(200);
    let first = stage.claim(1, "gift", "key-00001").expect(200).json();
    let refused = stage.claim(2, "gift", "key-00002").expect(422).json();
    let answers = crate::support::at_once(8, |_| stage.claim(1, "gift", "key-00001").expect(200).json());
    for mut answer in answers {
        assert_eq!(answer["duplicate"], true);
        answer["duplicate"] = json!(false);
        assert_eq!(answer, first, "the stored result");
    }
    let again = stage.claim(2, "gift", "key-00002").expect(422).json();
    assert_eq!((&again["code"], &again["detail"]), (&refused["code"], &refused["detail"]));
    assert_eq!(stage.given().len(), 1);
    // Many with one key at once: one claim.
    api.send("PUT", "/v1/admin/users/u-3/activity", &[], Some(r#"{"OK": 1}"#)).expect(200);
    let answers = crate::support::at_once(16, |_| claim(&stage.user(3), "gift", "key-00003", &[]));
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 202)), "{answers:?}");
    assert!(answers.iter().any(|answer| answer.status == 200));
    assert_eq!(stage.ended("key-00003")["status"], "SUCCESS_ALL_GRANTED");
    assert_eq!((stage.given().len(), stage.stock("gift", "sword")), (2, 3));
    stage.assert_clean();
}

fn a_database_that_fails_for_a_while_or_for_good(engine: TestEngine) {
    let stage = Stage::set(engine, Asked::Providers, &[]);
    stage.open("gift", json!({"rewards": [limited("sword", 5)]}));
    // It cannot be written to for a while: no status changes, and then it goes on.
    let mut sql = stage.database.sql();
    let answer = std::thread::scope(|scope| {
        stage.partners.faults(&json!({"byReward": {"sword": [{"delayMs": 200}]}}));
        let waiting = scope.spawn(|| claim(&stage.user(1), "gift", "key-00001", &[("Prefer", "wait=30")]));
        until("the provider to be called", PATIENCE, || (stage.given().len() == 1).then_some(()));
        sql.hold_writers();
        let since = std::time::Instant::now();
        until("the answer to be there and not written", PATIENCE, || {
            (since.elapsed().as_millis() > 600).then_some(())
        });
        sql.release();
        waiting.join().unwrap()
    });
    assert_eq!(answer.expect(200).json()["status"], "SUCCESS_ALL_GRANTED");
    // It refuses to take from the stock, again and again.
    sql.refuse_changes("event_rewards");
    let failed = claim(&stage.user(2), "gift", "key-00002", &[("Prefer", "wait=30")]).expect(502).json();
    assert_eq!(failed["code"], "FAILED_ROLLED_BACK", "{failed}");
    let passed = statuses(&failed["claim"]);
    let way = [
        "PENDING_INVENTORY_ALLOCATION",
        "INVENTORY_ALLOCATION_ERROR_DB",
        "PENDING_COMPENSATION_INVENTORY",
        "COMPENSATED_INVENTORY",
        "FAILED_ROLLED_BACK",
    ];
    assert!(passed.ends_with(&way.map(String::from)), "{passed:?}");
    sql.allow_rows("event_rewards");
    assert_eq!(stage.stock("gift", "sword"), 4);
    stage.claim(2, "gift", "key-00003").expect(200);
    assert_eq!(stage.stock("gift", "sword"), 3);
    stage.assert_clean();
}

fn a_compensation_that_fails_itself(engine: TestEngine) {
    let stage = Stage::set(engine, Asked::Providers, &[("GUERDON_CLAIMS__RETRIES", "1")]);
    stage.open("gift", json!({"rewards": [limited("sword", 5), limited("shield", 5)]}));
    let api = stage.operator();
    let broken = json!({"byReward": {"shield": [{"status": 422}, {"status": 422}]}, "revokeStatus": 500});
    stage.partners.faults(&broken);
    for user in [1, 2] {
        let key = format!("key-{user:05}");
        let failed = claim(&stage.user(user), "gift", &key, &[("Prefer", "wait=30")]).expect(502).json();
        assert_eq!(failed["code"], "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED", "{failed}");
        assert_eq!((&failed["retryWithSameKey"], &failed["safeNewKey"]), (&json!(true), &json!(false)));
        // Told at once, and to be found with what is left to do.
        let seen = api.get(&format!("/v1/admin/claims/{key}")).expect(200).json();
        let left: Vec<_> =
            seen["needsHand"]["left"].as_array().unwrap().iter().map(|one| one["action"].clone()).collect();
        assert_eq!(left, ["REVOKE_REWARD", "RETURN_INVENTORY", "RETURN_INVENTORY"], "{seen}");
    }
    let listed = api
        .get("/v1/admin/claims?status=COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED")
        .expect(200)
        .json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    let mut sql = stage.database.sql();
    let told = format!(
        "SELECT COUNT(*) FROM {} WHERE event_type = 'CLAIM_NEEDS_INTERVENTION'",
        sql.table("integration.outbox_events")
    );
    assert_eq!(sql.number(&told), 2);
    until("the metric", PATIENCE, || {
        (stage.servers[0].api().metric("guerdon_claims_needing_hand") > 1.5).then_some(())
    });
    // Its stock is held, and its user is kept from another one.
    assert_eq!((stage.stock("gift", "sword"), stage.stock("gift", "shield")), (3, 3));
    assert_eq!(stage.claim(1, "gift", "key-00009").expect(409).code(), "CLAIM_IN_PROGRESS");
    // In vain, and then not.
    api.post("/v1/admin/claims/key-00001/retry", &json!({})).expect(200);
    assert_eq!(stage.ended("key-00001")["status"], "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED");
    stage.partners.faults(&json!({}));
    api.post("/v1/admin/claims/key-00001/retry", &json!({})).expect(200);
    let ended = stage.ended("key-00001");
    assert_eq!(ended["status"], "FAILED_ROLLED_BACK", "{ended}");
    assert_eq!(api.post("/v1/admin/claims/key-00001/retry", &json!({})).expect(409).code(), "CLAIM_REFUSED");
    // Or somebody has seen to it, and says so.
    assert_eq!(
        api.post("/v1/admin/claims/key-00002/resolve", &json!({"note": " "})).expect(422).code(),
        "INVALID_FIELDS"
    );
    let auditor = stage.servers[0].api().with_token(&crate::support::token("a", "AUDITOR"));
    auditor.post("/v1/admin/claims/key-00002/resolve", &json!({"note": "x"})).expect(403);
    let resolved = api
        .post("/v1/admin/claims/key-00002/resolve", &json!({"note": "taken back by hand"}))
        .expect(200)
        .json();
    assert_eq!(resolved["status"], "FAILED_ROLLED_BACK", "{resolved}");
    let line = api.get("/v1/admin/audit-log").expect(200).json();
    assert_eq!(line["items"][0]["action"], "CLAIM_RESOLVED");
    assert_eq!((stage.stock("gift", "sword"), stage.stock("gift", "shield")), (5, 5));
    stage.claim(1, "gift", "key-00010").expect(200);
    stage.assert_clean();
}
