//! Claims: rewards for whoever meets an event's conditions, undone as a whole where they cannot all be given.

mod crashes;
mod edge_cases;
mod load;

use crate::support::{BINARY, as_user, operator};
use guerdon_harness::api::Answer;
use guerdon_harness::{Api, Partners, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::time::Duration;

pub(super) const PATIENCE: Duration = Duration::from_mins(1);
const SECRET: &str = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz";

/// Declares each test for both engines.
macro_rules! on_both_engines {
    ($($name:ident)+) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name(guerdon_harness::TestEngine::Sqlite); })+
        }
        mod postgres {
            $(#[test] fn $name() { super::$name(guerdon_harness::TestEngine::Postgres); })+
        }
    };
}
pub(super) use on_both_engines;

on_both_engines! {
    the_call_and_what_it_answers
    two_keys_of_one_user_at_once
    why_somebody_did_not_get_it
    a_hanging_partner_holds_up_nobody_else
    a_claim_that_takes_too_long_is_rolled_back
}

/// A server with partners for everything.
pub(super) struct Stage {
    pub(super) database: TestDatabase,
    pub(super) partners: Partners,
    pub(super) servers: Vec<Server>,
    pub(super) settings: Vec<(String, String)>,
}

/// Who is asked over HTTP.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The house knows users and what they did; only items are given by a partner.
    Providers,
    All,
}

impl Stage {
    pub(super) fn set(engine: TestEngine, asked: Asked, more: &[(&str, &str)]) -> Self {
        Self::set_with(engine, 1, asked, more)
    }

    pub(super) fn set_with(engine: TestEngine, count: usize, asked: Asked, more: &[(&str, &str)]) -> Self {
        let partners = Partners::start(BINARY, &["--secret", SECRET]);
        let url = partners.url.as_str();
        let mut settings = vec![
            ("GUERDON_PROVIDERS__DEFAULT__URL", url),
            ("GUERDON_PROVIDERS__DEFAULT__SECRET", SECRET),
            ("GUERDON_PROVIDERS__DEFAULT__TIMEOUT", "1s"),
            ("GUERDON_CLAIMS__LEASE", "1s"),
            ("GUERDON_CLAIMS__RETRY_DELAY", "30ms"),
        ];
        if asked == Asked::All {
            settings.extend([
                ("GUERDON_SERVICES__AUTH__URL", url),
                ("GUERDON_SERVICES__AUTH__RETRIES", "0"),
                ("GUERDON_SERVICES__GAME_DATA__URL", url),
                ("GUERDON_SERVICES__GAME_DATA__RETRIES", "0"),
            ]);
        }
        settings.extend(more);
        let settings: Vec<_> =
            settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let database = TestDatabase::new(engine);
        let mut stage = Self { database, partners, servers: Vec::new(), settings };
        for _ in 0..count {
            stage.start(&[]);
        }
        stage
    }

    /// Starts one more server, with settings of its own.
    pub(super) fn start(&mut self, more: &[(&str, &str)]) {
        let server = Server::start(BINARY, &self.options(more));
        self.servers.push(server);
    }

    pub(super) fn options(&self, more: &[(&str, &str)]) -> ServerOptions {
        let options = ServerOptions::on(&self.database.url);
        let options = self.settings.iter().fold(options, |options, (name, value)| options.with(name, value));
        more.iter().fold(options, |options, (name, value)| options.with(name, value))
    }

    pub(super) fn operator(&self) -> Api {
        operator(&self.servers[0])
    }

    pub(super) fn user(&self, number: usize) -> Api {
        as_user(&self.servers[number % self.servers.len()], number)
    }

    /// An event that can be claimed.
    pub(super) fn open(&self, id: &str, fields: Value) {
        let api = self.operator();
        let mut body = json!({
            "eventId": id, "name": "A gift", "type": "CLAIM", "startsAt": 1_700_000_000_000_i64,
            "endsAt": 4_000_000_000_000_i64,
        });
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        api.post("/v1/admin/events", &body).expect(201);
        api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
    }

    pub(super) fn claim(&self, user: usize, event: &str, key: &str) -> Answer {
        claim(&self.user(user), event, key, &[])
    }

    /// A claim once it is at its end, or needs a hand.
    pub(super) fn ended(&self, key: &str) -> Value {
        let api = self.operator();
        until("the claim to end", PATIENCE, || {
            let view = api.get(&format!("/v1/admin/claims/{key}")).expect(200).json();
            let status = view["status"].as_str().unwrap().to_owned();
            let pending = status.starts_with("PENDING_") || status == "INVENTORY_ALLOCATED";
            (!pending).then_some(view)
        })
    }

    pub(super) fn stock(&self, event: &str, reward: &str) -> i64 {
        let sql = format!(
            "SELECT remaining_stock FROM event_rewards WHERE event_id = '{event}' AND reward_id = '{reward}'"
        );
        self.database.sql().number(&sql)
    }

    /// What the partner has applied and not taken back, by key.
    pub(super) fn given(&self) -> Vec<String> {
        let standing = self.partners.applied().into_iter().filter(|one| one["revoked"] == false);
        let mut keys: Vec<_> =
            standing.map(|one| one["idempotencyKey"].as_str().unwrap().to_owned()).collect();
        keys.sort();
        keys
    }

    pub(super) fn person(&self, user: &str, person: &Value) {
        let path = format!("/users/{user}");
        Api::new(&self.partners.url).send("PUT", &path, &[], Some(&person.to_string())).expect(200);
    }

    /// Ends the servers and has the audit look at everything.
    pub(super) fn assert_clean(self) {
        for server in self.servers {
            server.stop();
        }
        crate::audit::assert_clean(&self.database);
    }
}

pub(crate) fn claim(api: &Api, event: &str, key: &str, headers: &[(&str, &str)]) -> Answer {
    let mut all = vec![("X-Idempotency-Key", key)];
    all.extend(headers);
    api.send("POST", &format!("/v1/event-claims/{event}/claim"), &all, Some("{}"))
}

pub(super) fn statuses(claim: &Value) -> Vec<String> {
    let timeline = claim["timeline"].as_array().unwrap();
    timeline.iter().map(|step| step["to"].as_str().unwrap().to_owned()).collect()
}

pub(crate) fn points() -> Value {
    json!({"rewardId": "points", "kind": "POINT", "amount": 500, "currency": "PNT"})
}

pub(crate) fn limited(id: &str, stock: i64) -> Value {
    json!({"rewardId": id, "kind": "ITEM", "totalStock": stock})
}

fn the_call_and_what_it_answers(engine: TestEngine) {
    let stage = Stage::set(engine, Asked::Providers, &[]);
    stage.open("gift", json!({"rewards": [points(), limited("sword", 5)]}));
    let user = stage.user(1);
    let refused = user.send("POST", "/v1/event-claims/gift/claim", &[], Some("{}")).expect(400);
    assert_eq!(refused.code(), "IDEMPOTENCY_KEY_MISSING");
    for odd in ["short", "1234567", &"x".repeat(129), "with space"] {
        assert_eq!(claim(&user, "gift", odd, &[]).expect(422).code(), "INVALID_FIELDS", "{odd}");
    }
    assert_eq!(claim(&user, "nothing", "key-0001", &[]).expect(404).code(), "EVENT_NOT_FOUND");
    let granted = claim(&user, "gift", "key/0001?", &[]).expect(200).json();
    assert_eq!(granted["status"], "SUCCESS_ALL_GRANTED", "{granted}");
    assert_eq!((&granted["requestId"], &granted["duplicate"]), (&json!("key/0001?"), &json!(false)));
    assert_eq!(granted["currentSagaStep"], "COMPLETED");
    let rewards = granted["rewardsToProcess"].as_array().unwrap();
    assert!(rewards.iter().all(|reward| reward["grantStatus"] == "SUCCESS"), "{granted}");
    assert_eq!(rewards[1]["idempotencyKeyForGrant"], "claim-key/0001?-sword");
    assert!(rewards[1].get("provider").is_none(), "not for participants: {granted}");
    assert_eq!(stage.stock("gift", "sword"), 4);
    assert_eq!(stage.given(), ["claim-key/0001?-sword"]);
    let account = user.get("/v1/me/accounts").expect(200).json();
    assert_eq!(account["items"][0]["balance"], 500, "{account}");
    // The claim is there for its owner, for operators, and for nobody else.
    let place = "/v1/claims/key%2F0001%3F";
    assert_eq!(user.get(place).expect(200).json()["status"], "SUCCESS_ALL_GRANTED");
    assert_eq!(stage.user(2).get(place).expect(404).code(), "CLAIM_NOT_FOUND");
    let seen = stage.operator().get("/v1/admin/claims/key%2F0001%3F").expect(200).json();
    assert_eq!(seen["rewardsToProcess"][1]["provider"], "default");
    let mine = user.get("/v1/me/claims").expect(200).json();
    assert_eq!(mine["items"].as_array().unwrap().len(), 1);
    // The key belongs to whoever used it first, for what it was used for.
    stage.open("other", json!({"rewards": [points()]}));
    for (who, event) in [(2, "gift"), (1, "other")] {
        let refused = stage.claim(who, event, "key/0001?").expect(409);
        assert_eq!(refused.code(), "IDEMPOTENCY_HASH_MISMATCH");
    }
    // Another key: the rewards were claimed before, and that is kept as well.
    let again = stage.claim(1, "gift", "key-0002").expect(409).json();
    assert_eq!(again["code"], "VALIDATION_FAILED_ALREADY_CLAIMED");
    assert_eq!((&again["retryWithSameKey"], &again["safeNewKey"]), (&json!(false), &json!(true)));
    assert_eq!(again["claim"]["requestId"], "key-0002");
    // An answer at once, and the end of it later.
    let begun = claim(&stage.user(3), "gift", "key-0003", &[("Prefer", "respond-async")]).expect(202);
    assert_eq!(begun.header("location"), Some("/v1/claims/key-0003"));
    assert!(begun.header("retry-after").is_some());
    assert_eq!(stage.ended("key-0003")["status"], "SUCCESS_ALL_GRANTED");
    let wrong = stage.operator();
    wrong.post("/v1/admin/events", &guerdon_harness::api::drop_body("drop")).expect(201);
    wrong.post("/v1/admin/events/drop/open", &json!({})).expect(200);
    assert_eq!(stage.claim(1, "drop", "key-0009").expect(409).code(), "EVENT_WRONG_TYPE");
    let listed = wrong.get("/v1/admin/claims?eventId=gift&status=SUCCESS_ALL_GRANTED").expect(200).json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
    assert_eq!(wrong.get("/v1/admin/claims?status=SOON").expect(422).code(), "INVALID_FIELDS");
    stage.assert_clean();
}

fn two_keys_of_one_user_at_once(engine: TestEngine) {
    // On PostgreSQL through two servers, which know nothing of each other.
    let servers = if engine == TestEngine::Postgres { 2 } else { 1 };
    let stage = Stage::set_with(engine, servers, Asked::Providers, &[("GUERDON_CLAIMS__RETRIES", "100")]);
    stage.open("gift", json!({"rewards": [limited("sword", 50)]}));
    stage.partners.faults(&json!({"delayMs": 20}));
    let answers = crate::support::at_once(8, |number| {
        let api = as_user(&stage.servers[number % stage.servers.len()], 1);
        claim(&api, "gift", &format!("key-000{number}"), &[])
    });
    let granted = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(granted, 1);
    for answer in answers.iter().filter(|answer| answer.status != 200) {
        assert_eq!(answer.status, 409, "{}", answer.text);
        let known = ["CLAIM_IN_PROGRESS", "VALIDATION_FAILED_ALREADY_CLAIMED"];
        assert!(known.contains(&answer.code().as_str()), "{}", answer.text);
    }
    // Of one that is under way nothing else is stored.
    stage.partners.faults(&json!({"rates": {"fails": 1.0}}));
    let first = claim(&stage.user(2), "gift", "slow-key-1", &[("Prefer", "respond-async")]).expect(202);
    assert_eq!(first.json()["requestId"], "slow-key-1");
    let second = stage.claim(2, "gift", "slow-key-2").expect(409);
    assert_eq!(second.code(), "CLAIM_IN_PROGRESS");
    assert_eq!(second.json()["requestId"], "slow-key-1", "whose end to wait for");
    stage.operator().get("/v1/admin/claims/slow-key-2").expect(404);
    // The same key meanwhile: where it stands, and nothing new.
    let again = stage.claim(2, "gift", "slow-key-1").expect(202);
    assert_eq!(again.json()["duplicate"], true);
    assert!(again.header("retry-after").is_some());
    stage.partners.faults(&json!({}));
    assert_eq!(stage.ended("slow-key-1")["status"], "SUCCESS_ALL_GRANTED");
    assert_eq!(stage.stock("gift", "sword"), 48);
    assert_eq!(stage.given().len(), 2);
    stage.assert_clean();
}

fn why_somebody_did_not_get_it(engine: TestEngine) {
    let stage = Stage::set(engine, Asked::Providers, &[]);
    let condition = r#"activity.LOGIN_COUNT >= 7 && activity.QUESTS.exists(q, q == "dragon")"#;
    stage.open("gift", json!({"conditions": condition, "rewards": [limited("sword", 5)]}));
    let api = stage.operator();
    let activity = |user: &str, data: &Value| {
        let path = format!("/v1/admin/users/{user}/activity");
        api.send("PUT", &path, &[], Some(&data.to_string())).expect(200);
    };
    activity("u-1", &json!({"LOGIN_COUNT": 6, "QUESTS": ["dragon"]}));
    activity("u-2", &json!({"LOGIN_COUNT": 7, "QUESTS": ["cave", "dragon"]}));
    activity("u-3", &json!({"LOGIN_COUNT": "many", "QUESTS": ["dragon"]}));
    let refused = stage.claim(1, "gift", "key-0001").expect(422).json();
    assert_eq!(refused["code"], "CONDITION_NOT_MET");
    assert_eq!(refused["claim"]["checkedDataSnapshot"]["LOGIN_COUNT"], 6, "{refused}");
    assert_eq!(refused["claim"]["eventSnapshot"]["conditions"], condition);
    // What was judged is kept, whatever becomes of the data.
    activity("u-1", &json!({"LOGIN_COUNT": 9, "QUESTS": ["dragon"]}));
    let kept = stage.claim(1, "gift", "key-0001").expect(422).json();
    assert_eq!(kept["claim"]["checkedDataSnapshot"]["LOGIN_COUNT"], 6);
    let seen = api.get("/v1/admin/claims/key-0001").expect(200).json();
    assert_eq!(seen["checkedDataSnapshot"]["LOGIN_COUNT"], 6);
    stage.claim(1, "gift", "key-0002").expect(200);
    stage.claim(2, "gift", "key-0003").expect(200);
    // Data that the condition cannot be judged by is nobody's refusal.
    let odd = stage.claim(3, "gift", "key-0004").expect(502).json();
    assert_eq!(odd["code"], "CONDITION_CHECK_FAILED_EXTERNAL", "{odd}");
    assert_eq!(odd["claim"]["checkedDataSnapshot"]["LOGIN_COUNT"], "many");
    let nothing_known = stage.claim(4, "gift", "key-0005").expect(422);
    assert_eq!(nothing_known.code(), "CONDITION_NOT_MET");
    for wrong in ["activity.A +", "1", "nobody.A > 1", "size(1) > 2", "activity.A.matches(activity.B)"] {
        let body = json!({
            "eventId": "odd", "name": "Odd", "type": "CLAIM", "startsAt": 1, "endsAt": 2, "conditions": wrong,
            "rewards": [points()],
        });
        let refused = api.post("/v1/admin/events", &body).expect(422);
        assert!(refused.text.contains("conditions"), "{}", refused.text);
    }
    stage.assert_clean();
}

/// One partner hangs: whoever does not need it is served as quickly as ever; it is left alone, and comes back by itself.
fn a_hanging_partner_holds_up_nobody_else(engine: TestEngine) {
    let stage = Stage::set(
        engine,
        Asked::All,
        &[
            ("GUERDON_PROVIDERS__DEFAULT__CONCURRENCY", "2"),
            ("GUERDON_CLAIMS__RETRIES", "100"),
            ("GUERDON_CLAIMS__TIMEOUT", "10m"),
        ],
    );
    stage.open("hangs", json!({"rewards": [{"rewardId": "sword", "kind": "ITEM"}]}));
    stage.open("works", json!({"rewards": [points()]}));
    stage.partners.faults(&json!({"rates": {"hangs": 1.0}, "lateMs": 400}));
    let started = std::time::Instant::now();
    for number in 0..40 {
        claim(&stage.user(number), "hangs", &format!("hangs-{number:04}"), &[("Prefer", "respond-async")])
            .expect(202);
    }
    until("the breaker to open", PATIENCE, || {
        (stage.servers[0].api().metric("guerdon_breaker_open") > 0.5).then_some(())
    });
    let ready = stage.servers[0].api().get("/readyz").expect(200).json();
    assert_ne!(ready["services"]["default"], "ok", "{ready}");
    assert_eq!(ready["services"]["auth"], "ok", "{ready}");
    // All of these are answered while the others hang.
    for number in 100..160 {
        let answer =
            claim(&stage.user(number), "works", &format!("works-{number:04}"), &[("Prefer", "wait=30")]);
        assert_eq!(answer.expect(200).json()["status"], "SUCCESS_ALL_GRANTED");
    }
    let waiting = "SELECT COUNT(*) FROM user_reward_requests WHERE event_id = 'hangs' AND status = 'PENDING_REWARD_GRANT'";
    assert_eq!(stage.database.sql().number(waiting), 40, "after {:?}", started.elapsed());
    stage.partners.faults(&json!({}));
    until("the others, once it is well", PATIENCE, || {
        (stage.database.sql().number(waiting) == 0).then_some(())
    });
    until("the breaker to be closed", PATIENCE, || {
        (stage.servers[0].api().metric("guerdon_breaker_open") < 0.5).then_some(())
    });
    assert_eq!(stage.given().len(), 40);
    stage.assert_clean();
}

fn a_claim_that_takes_too_long_is_rolled_back(engine: TestEngine) {
    let mut stage = Stage::set(engine, Asked::All, &[("GUERDON_CLAIMS__RETRIES", "100")]);
    stage.open("gift", json!({"rewards": [limited("sword", 5), points(), limited("shield", 5)]}));
    // The last reward is never given, and the first was.
    let never: Vec<_> = (0..200).map(|_| json!({"status": 503, "delayMs": 50})).collect();
    stage.partners.faults(&json!({"byReward": {"shield": never}}));
    claim(&stage.user(1), "gift", "slow-key", &[("Prefer", "respond-async")]).expect(202);
    let api = stage.operator();
    until("the first rewards", PATIENCE, || {
        let view = api.get("/v1/admin/claims/slow-key").expect(200).json();
        (view["rewardsToProcess"][1]["grantStatus"] == "SUCCESS").then_some(())
    });
    stage.servers.pop().unwrap().kill();
    // Ten minutes later, by the server's clock.
    stage.start(&[("GUERDON_DEV__CLOCK_OFFSET", "11m")]);
    let claims = json!({"sub": "op", "roles": ["OPERATOR"], "exp": crate::support::seconds_now() + 20_000});
    let api = stage.servers[0].api().with_token(&crate::support::sign(&claims));
    let ended = until("the claim to be rolled back", PATIENCE, || {
        let view = api.get("/v1/admin/claims/slow-key").expect(200).json();
        (view["status"] == "FAILED_ROLLED_BACK").then_some(view)
    });
    assert_eq!(ended["failureReason"], "TIMEOUT", "{ended}");
    assert_eq!(ended["rewardsToProcess"][0]["grantStatus"], "REVOKED");
    assert_eq!(ended["rewardsToProcess"][1]["grantStatus"], "REVOKED");
    assert_eq!((stage.stock("gift", "sword"), stage.stock("gift", "shield")), (5, 5));
    assert!(stage.given().is_empty());
    stage.assert_clean();
}
