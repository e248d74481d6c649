//! Lotteries from the commitment to the last reward: the cutoff, the draw, what is published when, and kills at each step.

use crate::invariants;
use crate::support::{BINARY, at_once, seconds_now, sign};
use guerdon_harness::{Api, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(1);
const VERIFIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/verify_draw.py");

/// Some servers on one database, which can be started again later in the day.
struct House {
    database: TestDatabase,
    servers: Vec<Server>,
    count: usize,
}

impl House {
    fn start(engine: TestEngine, count: usize) -> Self {
        let mut house = Self { database: TestDatabase::new(engine), servers: Vec::new(), count };
        house.start_at("0s");
        house
    }

    fn start_at(&mut self, offset: &str) {
        self.servers.clear();
        let options = ServerOptions::on(&self.database.url).with("GUERDON_DEV__CLOCK_OFFSET", offset);
        self.servers = (0..self.count).map(|_| Server::start(BINARY, &options)).collect();
    }

    /// A lottery is set up an hour before its cutoff; two hours later that has passed.
    fn after_the_cutoff(&mut self) {
        self.start_at("120m");
    }

    fn api(&self, user: &str, role: &str) -> Api {
        let claims = json!({"sub": user, "roles": [role], "exp": seconds_now() + 100_000});
        let sum: usize = user.bytes().map(usize::from).sum();
        self.servers[sum % self.servers.len()].api().with_token(&sign(&claims))
    }

    fn user(&self, number: usize) -> Api {
        self.api(&format!("u-{number}"), "USER")
    }

    fn operator(&self) -> Api {
        self.api("op", "OPERATOR")
    }

    fn open_lottery(&self, id: &str, capacity: i64, cutoff_in_seconds: i64, source: Option<&str>) {
        let cutoff = (seconds_now() + cutoff_in_seconds) * 1_000;
        let mut body = json!({
            "eventId": id, "name": "A lottery", "type": "LOTTERY", "startsAt": 1_700_000_000_000_i64,
            "endsAt": 4_000_000_000_000_i64, "capacityTotal": capacity, "lotteryCutoffAt": cutoff,
            "rewards": [
                {"rewardId": "points", "kind": "POINT", "amount": 1000, "currency": "POINT"},
                {"rewardId": "gift", "kind": "ITEM", "quantity": 2, "totalStock": capacity * 2},
            ],
        });
        if let Some(source) = source {
            body["publicNonceSource"] = json!(source);
        }
        self.operator().post("/v1/admin/events", &body).expect(201);
        self.operator().post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
    }

    fn draw(&self, id: &str) -> Value {
        self.user(1).get(&format!("/v1/events/{id}/draw")).expect(200).json()
    }

    fn until_draw_is(&self, id: &str, status: &str) -> Value {
        until(status, PATIENCE, || Some(self.draw(id)).filter(|draw| draw["status"] == status))
    }

    /// Waits until everybody's own row says how it ended.
    fn until_settled(&self) {
        until("everybody to be settled", PATIENCE, || {
            let mut sql = self.database.sql();
            let unsettled = sql.number(
                "SELECT COUNT(*) FROM draws WHERE state <> 'ANNOUNCED' OR settled_position < entries",
            );
            (unsettled == 0).then_some(())
        });
    }
}

fn verify(program: &str, first: &[&str], document: &Path, proof: Option<&Path>) -> (bool, String) {
    let mut command = Command::new(program);
    command.args(first).arg(document);
    if let Some(proof) = proof {
        if program == BINARY {
            command.arg("--proof");
        }
        command.arg(proof);
    }
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn from_commitment_to_reward(engine: TestEngine, servers: usize) {
    let mut house = House::start(engine, servers);
    house.open_lottery("tombola", 3, 3_600, None);
    let opened = house.draw("tombola");
    assert_eq!(opened["status"], "COLLECTING");
    assert_eq!(opened["commitment"].as_str().unwrap().len(), 64);
    for hidden in ["seed", "root", "entries", "winners"] {
        assert_eq!(opened[hidden], Value::Null, "{hidden} is not known yet");
    }
    assert_eq!(opened["protectsAgainstOperator"], false);
    let entered = at_once(10, |number| {
        house.user(number).post("/v1/events/tombola/requests", &json!({})).expect(202).json()
    });
    for entry in &entered {
        assert_eq!(
            (&entry["status"], &entry["uiPhase"]),
            (&json!("QUEUED"), &json!("COLLECTING")),
            "{entry}"
        );
        assert_eq!(entry["receipt"].as_str().unwrap().len(), 64, "{entry}");
    }
    let early = house.user(0).get("/v1/events/tombola/draw/proof").expect(409);
    assert_eq!(early.code(), "DRAW_NOT_READY");
    let early = house.user(0).get("/v1/events/tombola/draw/document").expect(409);
    assert_eq!(early.code(), "DRAW_NOT_READY");

    house.after_the_cutoff();
    let late = house.api("late", "USER").post("/v1/events/tombola/requests", &json!({})).expect(409);
    assert_eq!(late.code(), "EVENT_NOT_OPEN");
    let announced = house.until_draw_is("tombola", "ANNOUNCED");
    assert_eq!((&announced["entries"], &announced["winners"]), (&json!(10), &json!(3)));
    assert_eq!(announced["commitment"], opened["commitment"]);
    let event = house.user(0).get("/v1/events/tombola").expect(200).json();
    assert_eq!((&event["status"], &event["uiPhase"]), (&json!("ANNOUNCED"), &json!("ANNOUNCED")));
    assert_eq!(event["capacityRemaining"], 0);

    let folder = tempfile::tempdir().unwrap();
    let (document_path, proof_path) = (folder.path().join("document"), folder.path().join("proof"));
    let text = house.user(0).get("/v1/events/tombola/draw/document").expect(200).text;
    std::fs::write(&document_path, &text).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let winners: Vec<i64> = serde_json::from_value(document["winners"].clone()).unwrap();
    for (number, entry) in entered.iter().enumerate() {
        let api = house.user(number);
        let proof = api.get("/v1/events/tombola/draw/proof").expect(200);
        assert_eq!(proof.json()["leaf"], entry["receipt"], "the receipt is the leaf");
        std::fs::write(&proof_path, &proof.text).unwrap();
        for (program, first) in [(BINARY, vec!["verify-draw"]), ("python3", vec![VERIFIER])] {
            let (sound, said) = verify(program, &first, &document_path, Some(&proof_path));
            assert!(sound, "{program}: {said}");
        }
        let won = winners.contains(&entry["position"].as_i64().unwrap());
        let id = entry["requestId"].as_str().unwrap();
        let request = api.get(&format!("/v1/requests/{id}")).expect(200).json();
        let result = if won { "SUCCESS" } else { "REJECTED_LOTTERY_LOSE" };
        assert_eq!(request["resultCode"], result, "{request}");
        assert_eq!(request["finishedAt"], announced["announcedAt"]);
        assert_eq!(request["timeline"].as_array().unwrap().len(), 4);
        let again = api.post("/v1/events/tombola/requests", &json!({})).expect(200).json();
        assert_eq!((&again["duplicate"], &again["resultCode"]), (&json!(true), &json!(result)));
    }
    assert_eq!(
        house.api("nobody", "USER").get("/v1/events/tombola/draw/proof").expect(404).code(),
        "REQUEST_NOT_FOUND"
    );
    let won = house.operator().get("/v1/admin/events/tombola/requests?resultCode=SUCCESS").expect(200).json();
    assert_eq!(won["items"].as_array().unwrap().len(), 3);

    house.until_settled();
    let mut sql = house.database.sql();
    assert_eq!(sql.number("SELECT COUNT(*) FROM requests WHERE result = 1"), 3);
    assert_eq!(
        sql.number("SELECT COUNT(*) FROM event_reward_allocation"),
        6,
        "each winner gets both rewards"
    );
    assert_eq!(sql.number("SELECT remaining_stock FROM event_rewards WHERE reward_id = 'gift'"), 0);
    let summary = house.operator().get("/v1/admin/events/tombola/summary").expect(200).json();
    assert_eq!(summary["byResultCode"], json!({"SUCCESS": 3, "REJECTED_LOTTERY_LOSE": 7}));
    let log = house.operator().get("/v1/admin/audit-log?limit=200").expect(200).json();
    let actions: Vec<_> =
        log["items"].as_array().unwrap().iter().map(|line| line["action"].clone()).collect();
    assert_eq!(actions, ["EVENT_ANNOUNCED", "EVENT_CLOSED", "EVENT_OPENED", "EVENT_CREATED"]);
    invariants::check_lines(&house.database);
}

fn with_a_public_nonce(engine: TestEngine, servers: usize) {
    let mut house = House::start(engine, servers);
    house.open_lottery("beacon", 2, 3_600, Some("drand round 4711"));
    for number in 0..5 {
        house.user(number).post("/v1/events/beacon/requests", &json!({})).expect(202);
    }
    let name = |house: &House, nonce: &str| {
        house.operator().post("/v1/admin/events/beacon/draw", &json!({"publicNonce": nonce}))
    };
    assert_eq!(name(&house, "abc").expect(409).code(), "DRAW_NOT_READY");
    house.after_the_cutoff();
    let rooted = house.until_draw_is("beacon", "ROOTED");
    assert_eq!(rooted["entries"], 5);
    assert_eq!(rooted["root"].as_str().unwrap().len(), 64);
    assert_eq!(rooted["seed"], Value::Null, "still a secret");
    assert_eq!(rooted["protectsAgainstOperator"], true);
    house.user(0).get("/v1/events/beacon/draw/proof").expect(200);
    assert_eq!(house.user(0).get("/v1/events/beacon").expect(200).json()["uiPhase"], "DRAWING");
    for odd in ["", "two\nlines", &"x".repeat(513)] {
        assert_eq!(name(&house, odd).expect(422).code(), "INVALID_FIELDS");
    }
    let by_user = house.user(0).post("/v1/admin/events/beacon/draw", &json!({"publicNonce": "abc"}));
    assert_eq!(by_user.expect(403).code(), "FORBIDDEN");
    let drawing = name(&house, "abc").expect(200).json();
    assert_eq!(drawing["seed"], Value::Null);
    let announced = house.until_draw_is("beacon", "ANNOUNCED");
    assert_eq!((&announced["root"], &announced["publicNonce"]), (&rooted["root"], &json!("abc")));
    name(&house, "abc").expect(200);
    assert_eq!(name(&house, "def").expect(409).code(), "EVENT_TRANSITION_REFUSED");
    let document = house.user(0).get("/v1/events/beacon/draw/document").expect(200).text;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("document");
    std::fs::write(&path, document).unwrap();
    let (sound, said) = verify(BINARY, &["verify-draw"], &path, None);
    assert!(sound && !said.contains("does not protect"), "{said}");
    assert!(verify("python3", &[VERIFIER], &path, None).0);
    let mut sql = house.database.sql();
    assert_eq!(sql.number("SELECT COUNT(*) FROM audit_log WHERE action = 'EVENT_DRAWN'"), 1);
    let seed = announced["seed"].as_str().unwrap();
    let log = house.operator().get("/v1/admin/audit-log?limit=200").expect(200).text;
    assert!(log.contains("EVENT_DRAWN") && !log.contains(seed), "the log never held the seed");
    assert!(house.servers.iter().all(|server| !server.log_text().contains(seed)));
    let outbox = if engine == TestEngine::Sqlite { "integration_" } else { "integration." };
    let messages = sql.texts(&format!("SELECT payload FROM {outbox}outbox_events")).join("\n");
    assert!(messages.contains("beacon") && !messages.contains(seed));
    let told = format!("SELECT payload FROM {outbox}outbox_events WHERE event_type = 'EVENT_ANNOUNCED'");
    let told: Value = serde_json::from_str(&sql.texts(&told)[0]).unwrap();
    assert_eq!((&told["status"], &told["capacityRemaining"]), (&json!("ANNOUNCED"), &json!(0)));
    invariants::check_lines(&house.database);
}

fn cancelled_lotteries(engine: TestEngine, servers: usize) {
    let mut house = House::start(engine, servers);
    house.open_lottery("early", 2, 3_600, Some("a beacon"));
    house.open_lottery("late", 2, 3_600, Some("a beacon"));
    house.open_lottery("alone", 2, 7_000_000, None);
    for event in ["early", "late"] {
        house.user(1).post(&format!("/v1/events/{event}/requests"), &json!({})).expect(202);
    }
    let cancel =
        |house: &House, id: &str| house.operator().post(&format!("/v1/admin/events/{id}/cancel"), &json!({}));
    cancel(&house, "early").expect(200);
    house.after_the_cutoff();
    house.until_draw_is("late", "ROOTED");
    cancel(&house, "late").expect(200);
    let (early, late) = (house.draw("early"), house.draw("late"));
    assert_eq!((&early["status"], &early["seed"]), (&json!("VOID"), &Value::Null));
    assert_eq!(late["status"], "VOID");
    assert_eq!(late["seed"].as_str().unwrap().len(), 64, "who cancels after the root shows the seed");
    let refused =
        house.operator().post("/v1/admin/events/late/draw", &json!({"publicNonce": "x"})).expect(409);
    assert_eq!(refused.code(), "EVENT_TRANSITION_REFUSED");
    let refused =
        house.operator().post("/v1/admin/events/alone/draw", &json!({"publicNonce": "x"})).expect(409);
    assert_eq!(refused.code(), "EVENT_TRANSITION_REFUSED");
    until("the entry to be ended", PATIENCE, || {
        let mine = house.user(1).get("/v1/me/requests").expect(200).json();
        let ended = |item: &Value| item["resultCode"] == "REJECTED_EVENT_CANCELLED";
        mine["items"].as_array().unwrap().iter().all(ended).then_some(())
    });
    invariants::check_lines(&house.database);
}

/// People enter while the cutoff passes: whoever was told yes is in the tree, and nobody else.
fn entered_while_the_cutoff_passes(engine: TestEngine, servers: usize) {
    let house = House::start(engine, servers);
    house.open_lottery("rush", 10, 3, None);
    let next = AtomicUsize::new(0);
    let accepted: usize = at_once(8, |_| {
        let mut accepted = 0;
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let answer = house.user(number).post("/v1/events/rush/requests", &json!({}));
            match answer.status {
                202 => accepted += 1,
                _ => {
                    assert_eq!(answer.expect(409).code(), "EVENT_NOT_OPEN");
                    return accepted;
                }
            }
        }
    })
    .into_iter()
    .sum();
    let announced = house.until_draw_is("rush", "ANNOUNCED");
    assert_eq!(announced["entries"], accepted);
    assert_eq!(announced["winners"], accepted.min(10));
    house.until_settled();
    invariants::check_lines(&house.database);
}

/// Lets a draw take as many steps as the table allows, and holds it up there.
const GATE_ON_SQLITE: &str = "
    CREATE TABLE allowance (steps INTEGER NOT NULL);
    INSERT INTO allowance VALUES (0);
    CREATE TRIGGER hold BEFORE UPDATE ON draws WHEN (SELECT steps FROM allowance) = 0
        BEGIN SELECT RAISE(ABORT, 'held up by the test'); END;
    CREATE TRIGGER pass AFTER UPDATE ON draws BEGIN UPDATE allowance SET steps = steps - 1; END";
const GATE_ON_POSTGRES: &str = "
    CREATE TABLE allowance (steps BIGINT NOT NULL);
    INSERT INTO allowance VALUES (0);
    CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        UPDATE allowance SET steps = steps - 1 WHERE steps > 0;
        IF NOT FOUND THEN RAISE EXCEPTION 'held up by the test'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER hold BEFORE UPDATE ON draws FOR EACH ROW EXECUTE FUNCTION hold()";

/// Those whose rows say nothing yet are told the same as the others.
fn everybody_knows(house: &House) {
    let document = house.user(0).get("/v1/events/tombola/draw/document").expect(200).json();
    let winners: Vec<i64> = serde_json::from_value(document["winners"].clone()).unwrap();
    for number in (0..5_000).step_by(250) {
        let mine = house.user(number).get("/v1/me/requests").expect(200).json()["items"][0].clone();
        let won = winners.contains(&mine["position"].as_i64().unwrap());
        let result = if won { "SUCCESS" } else { "REJECTED_LOTTERY_LOSE" };
        assert_eq!((&mine["resultCode"], &mine["ahead"]), (&json!(result), &json!(0)), "{mine}");
        let again = house.user(number).post("/v1/events/tombola/requests", &json!({})).expect(200).json();
        assert_eq!(again["resultCode"], result);
    }
}

/// `kill -9` after every step of the draw: the same winners, announced once, rewarded once.
fn killed_at_each_step(engine: TestEngine) {
    const PEOPLE: usize = 5_000;
    let mut house = House::start(engine, 1);
    house.open_lottery("tombola", 2_500, 3_600, None);
    at_once(10, |caller| {
        for number in (caller..PEOPLE).step_by(10) {
            house.user(number).post("/v1/events/tombola/requests", &json!({})).expect(202);
        }
    });
    let (gate, seed, chunks) = match engine {
        TestEngine::Sqlite => (GATE_ON_SQLITE, "SELECT hex(seed) FROM draws", vec![0, 3, 5]),
        TestEngine::Postgres => (GATE_ON_POSTGRES, "SELECT encode(seed, 'hex') FROM draws", vec![0, 5]),
    };
    house.servers.clear();
    house.database.sql().run(gate);
    let secret = house.database.sql().texts(seed).remove(0).to_lowercase();
    let mut halts: Vec<_> = chunks.iter().map(|chunks| format!("SEALED {chunks} 0 0")).collect();
    halts.push("ROOTED 5 0 0".into());
    halts.extend([0, 1_000, 2_000, 2_500].map(|winners| format!("DRAWING 5 {winners} 0")));
    // As many are settled in the first step of a process.
    halts.extend((0..=10).map(|step| format!("ANNOUNCED 5 2500 {}", step * 100)));
    for halt in halts {
        house.database.sql().run("UPDATE allowance SET steps = 1");
        house.after_the_cutoff();
        until("a step to be taken", PATIENCE, || {
            (house.database.sql().number("SELECT steps FROM allowance") == 0).then_some(())
        });
        let stand =
            "SELECT state || ' ' || CAST(leaf_chunks AS TEXT) || ' ' || CAST(winners_written AS TEXT) || ' '
            || CAST(settled_position AS TEXT) FROM draws";
        assert_eq!(house.database.sql().texts(stand), std::slice::from_ref(&halt));
        if halt.starts_with("ANNOUNCED") {
            everybody_knows(&house);
        }
        house.servers.remove(0).kill();
        // Half-way, too, everything holds that has to by then.
        invariants::check_lines(&house.database);
    }
    house.database.sql().run("UPDATE allowance SET steps = 1000");
    house.after_the_cutoff();
    house.until_settled();
    let announced = house.until_draw_is("tombola", "ANNOUNCED");
    assert_eq!(announced["seed"].as_str().unwrap(), secret, "one seed from first to last");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("document");
    let text = house.user(0).get("/v1/events/tombola/draw/document").expect(200).text;
    std::fs::write(&path, &text).unwrap();
    let (sound, said) = verify(BINARY, &["verify-draw"], &path, None);
    assert!(sound, "{said}");
    let mut winners: Vec<i64> =
        serde_json::from_value(serde_json::from_str::<Value>(&text).unwrap()["winners"].clone()).unwrap();
    winners.sort_unstable();
    let mut sql = house.database.sql();
    let stored =
        sql.texts("SELECT CAST(line & 1099511627775 AS TEXT) FROM requests WHERE result = 1 ORDER BY line");
    let stored: Vec<i64> = stored.iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(stored, winners, "those who won are those who follow from the seed");
    assert_eq!(sql.number("SELECT COUNT(*) FROM audit_log WHERE action = 'EVENT_ANNOUNCED'"), 1);
    assert_eq!(sql.number("SELECT COUNT(*) FROM event_reward_allocation"), 5_000);
    invariants::check_lines(&house.database);
}

fn nobody_entered(engine: TestEngine) {
    let mut house = House::start(engine, 1);
    house.open_lottery("empty", 2, 3_600, None);
    house.after_the_cutoff();
    let announced = house.until_draw_is("empty", "ANNOUNCED");
    assert_eq!((&announced["entries"], &announced["winners"]), (&json!(0), &json!(0)));
    let text = house.user(0).get("/v1/events/empty/draw/document").expect(200).text;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("document");
    std::fs::write(&path, text).unwrap();
    assert!(verify(BINARY, &["verify-draw"], &path, None).0);
    assert!(verify("python3", &[VERIFIER], &path, None).0);
}

/// The requests of a lottery go when they were kept long enough; what proves its draw stays.
fn swept(engine: TestEngine) {
    let mut house = House::start(engine, 1);
    let now = seconds_now() * 1_000;
    let body = json!({"eventId": "old", "name": "An old one", "type": "LOTTERY", "startsAt": 0,
        "endsAt": now + 7_000_000, "capacityTotal": 3, "lotteryCutoffAt": now + 3_600_000});
    house.operator().post("/v1/admin/events", &body).expect(201);
    house.operator().post("/v1/admin/events/old/open", &json!({})).expect(200);
    for number in 0..10 {
        house.user(number).post("/v1/events/old/requests", &json!({})).expect(202);
    }
    house.after_the_cutoff();
    house.until_draw_is("old", "ANNOUNCED");
    house.until_settled();
    house.start_at("200d");
    until("the requests to go", PATIENCE, || {
        (house.database.sql().number("SELECT COUNT(*) FROM requests") == 0).then_some(())
    });
    let claims = json!({"sub": "u-1", "roles": ["USER"], "exp": 4_000_000_000_i64});
    let user = house.servers[0].api().with_token(&sign(&claims));
    user.get("/v1/events/old/draw/proof").expect(404);
    let text = user.get("/v1/events/old/draw/document").expect(200).text;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("document");
    std::fs::write(&path, text).unwrap();
    let (sound, said) = verify(BINARY, &["verify-draw"], &path, None);
    assert!(sound && said.contains("3 winners of 10 entries"), "{said}");
    invariants::check_lines(&house.database);
}

macro_rules! on_each {
    ($($name:ident)+) => { $(
        mod $name {
            use guerdon_harness::TestEngine;
            #[test] fn sqlite() { super::$name(TestEngine::Sqlite, 1); }
            #[test] fn postgres() { super::$name(TestEngine::Postgres, 1); }
            #[test] fn two_servers_on_postgres() { super::$name(TestEngine::Postgres, 2); }
        }
    )+ };
}

on_each! { from_commitment_to_reward with_a_public_nonce cancelled_lotteries entered_while_the_cutoff_passes }

#[test]
fn sqlite_killed_at_each_step() {
    killed_at_each_step(TestEngine::Sqlite);
}

#[test]
fn postgres_killed_at_each_step() {
    killed_at_each_step(TestEngine::Postgres);
}

#[test]
fn sqlite_swept() {
    swept(TestEngine::Sqlite);
}

#[test]
fn postgres_swept() {
    swept(TestEngine::Postgres);
}

#[test]
fn sqlite_nobody_entered() {
    nobody_entered(TestEngine::Sqlite);
}

#[test]
fn postgres_nobody_entered() {
    nobody_entered(TestEngine::Postgres);
}
