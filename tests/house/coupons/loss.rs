//! Redis that is away, emptied, restored from the past, or replaced by one that lagged: nothing is oversold, and what can be
//! known of what was lost is said.

use super::{Counter, Issuer, PATIENCE, Stage, id_of, issue, issue_now, try_issue};
use crate::support::{as_user, at_once};
use guerdon_harness::{Keeps, OwnRedis, Switch, TestEngine, until};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

mod redis {
    use guerdon_harness::TestEngine::{Postgres, Sqlite};

    #[test]
    fn unreachable_the_outbox_keeps_accepting() {
        super::unreachable_the_outbox_keeps_accepting(Sqlite);
    }

    #[test]
    fn unreachable_the_stream_says_so() {
        super::unreachable_the_stream_says_so();
    }

    #[test]
    fn emptied_in_the_middle_of_a_drop() {
        super::in_the_middle_of_a_drop(super::Issuer::Outbox, Sqlite, super::Loss::Flushed);
        super::in_the_middle_of_a_drop(super::Issuer::Stream, Sqlite, super::Loss::Flushed);
    }

    #[test]
    fn restarted_empty_in_the_middle_of_a_drop() {
        super::in_the_middle_of_a_drop(super::Issuer::Outbox, Sqlite, super::Loss::RestartedEmpty);
        super::in_the_middle_of_a_drop(super::Issuer::Stream, Sqlite, super::Loss::RestartedEmpty);
    }

    #[test]
    fn restored_from_an_older_snapshot() {
        super::in_the_middle_of_a_drop(super::Issuer::Outbox, Sqlite, super::Loss::OlderSnapshot);
        super::in_the_middle_of_a_drop(super::Issuer::Stream, Sqlite, super::Loss::OlderSnapshot);
    }

    mod postgres {
        use super::Postgres;

        #[test]
        fn a_lagging_replica_is_promoted() {
            super::super::a_lagging_replica_is_promoted(super::super::Issuer::Outbox, Postgres);
            super::super::a_lagging_replica_is_promoted(super::super::Issuer::Stream, Postgres);
        }

        #[test]
        fn emptied_with_two_servers() {
            super::super::in_the_middle_of_a_drop(
                super::super::Issuer::Outbox,
                Postgres,
                super::super::Loss::Flushed,
            );
        }

        #[test]
        fn a_worker_that_is_paused_while_redis_is_counted_anew() {
            super::super::a_paused_worker();
        }
    }

    #[test]
    fn scripts_that_are_flushed_change_nothing() {
        super::scripts_that_are_flushed_change_nothing();
    }

    #[test]
    fn one_that_may_throw_keys_away_is_not_used() {
        super::one_that_may_throw_keys_away_is_not_used();
    }

    #[test]
    fn every_coupon_notices_that_redis_was_replaced() {
        super::every_coupon_notices_that_redis_was_replaced();
    }

    #[test]
    fn keys_outlive_the_loss_of_redis() {
        super::keys_outlive_the_loss_of_redis();
    }

    #[test]
    fn from_the_outbox_to_the_stream_and_back() {
        super::from_the_outbox_to_the_stream_and_back();
    }

    #[test]
    fn a_coupon_that_cannot_be_counted_holds_up_no_other() {
        super::a_coupon_that_cannot_be_counted_holds_up_no_other();
    }

    #[test]
    fn another_issuer_and_back() {
        super::another_issuer_and_back();
    }

    #[test]
    fn reconcile_finds_and_mends_a_wrong_count() {
        super::reconcile_finds_and_mends_a_wrong_count();
    }

    #[test]
    fn a_coupon_whose_time_is_over() {
        super::a_coupon_whose_time_is_over();
    }
}

fn unreachable_the_outbox_keeps_accepting(engine: TestEngine) {
    let mut stage = Stage::set(Issuer::Outbox, engine, 1);
    stage.make("ten", 2, json!({}));
    issue_now(&stage.user(0), "ten", "k").expect(201);
    stage.redis().kill();
    let ids: Vec<_> =
        (1..4).map(|user| id_of(&issue(&stage.user(user), "ten", "k", &[]).expect(202))).collect();
    let view = stage.user(1).get(&format!("/v1/user-coupons/{}", ids[0])).expect(200).json();
    assert_eq!(view["status"], "PENDING");
    let api = stage.servers[0].api();
    until("the backlog to be told", PATIENCE, || (api.metric("guerdon_coupons_waiting") > 2.5).then_some(()));
    assert_eq!(stage.issued("ten"), 1);
    stage.redis().restart();
    stage.until_decided("ten");
    // In the order in which they came.
    let statuses: Vec<_> = (1..4)
        .map(|user| {
            let path = format!("/v1/user-coupons/{}", ids[user - 1]);
            stage.user(user).get(&path).expect(200).json()["status"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(statuses, ["CONFIRMED", "REJECTED", "REJECTED"]);
    stage.assert_clean();
}

fn unreachable_the_stream_says_so() {
    let mut stage = Stage::set(Issuer::Stream, TestEngine::Sqlite, 1);
    stage.make("ten", 2, json!({}));
    issue_now(&stage.user(0), "ten", "k").expect(201);
    stage.redis().kill();
    let refused = issue(&stage.user(1), "ten", "k", &[]).expect(503);
    assert_eq!((refused.code().as_str(), refused.header("retry-after")), ("ISSUER_UNAVAILABLE", Some("1")));
    assert_eq!(refused.json()["retryWithSameKey"], true);
    // Whether Redis has something cannot be known either. The number in the id is that of the coupon.
    let unknown = "0192aaaa-bbbb-7ccc-8000-000080ff0001";
    assert_eq!(stage.user(1).get(&format!("/v1/user-coupons/{unknown}")).status, 503);
    stage.redis().restart();
    until("Redis to be asked", PATIENCE, || {
        (stage.user(1).get(&format!("/v1/user-coupons/{unknown}")).status == 404).then_some(())
    });
    // The key is as good as new.
    until("it to be issued", PATIENCE, || {
        (issue_now(&stage.user(1), "ten", "k").status == 201).then_some(())
    });
    assert_eq!(issue_now(&stage.user(2), "ten", "k").expect(409).code(), "OUT_OF_STOCK");
    stage.until_decided("ten");
    stage.assert_clean();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Flushed,
    RestartedEmpty,
    OlderSnapshot,
}

/// Six hundred people for two hundred coupons; somewhere in the middle Redis loses something.
fn in_the_middle_of_a_drop(issuer: Issuer, engine: TestEngine, accident: Loss) {
    const PEOPLE: usize = 600;
    const COUPONS: i64 = 200;
    let counter = Counter::One(OwnRedis::start(Keeps::Snapshots));
    let servers = if engine == TestEngine::Postgres { 2 } else { 1 };
    let mut stage = Stage::set_with(issuer, engine, servers, counter);
    stage.make("ten", COUPONS, json!({}));
    for user in 0..30 {
        issue_now(&stage.user(user), "ten", "k").expect(201);
    }
    let saved = stage.redis().save();
    let accepted = Mutex::new(BTreeSet::new());
    let (next, answered) = (AtomicUsize::new(30), AtomicUsize::new(0));
    let apis: Vec<_> = stage.servers.iter().map(guerdon_harness::Server::api).collect();
    std::thread::scope(|scope| {
        let surge = scope.spawn(|| {
            at_once(8, |_| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= PEOPLE {
                        return;
                    }
                    let token = crate::support::token(&format!("u-{number}"), "USER");
                    let api = apis[number % apis.len()].with_token(&token);
                    until("an answer", PATIENCE, || {
                        let answer = try_issue(&api, "ten", "k", &[]).ok()?;
                        if answer.status == 202 {
                            accepted.lock().unwrap().insert(id_of(&answer));
                        }
                        (answer.status != 503).then_some(())
                    });
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        until("the drop to be under way", PATIENCE, || (answered.load(Ordering::Relaxed) > 60).then_some(()));
        match accident {
            Loss::Flushed => assert_eq!(stage.redis().command(&["FLUSHALL"]), "OK"),
            Loss::RestartedEmpty => {
                stage.redis().kill();
                stage.redis().wipe();
                stage.redis().restart();
            }
            Loss::OlderSnapshot => {
                stage.redis().kill();
                stage.redis().put_back(&saved);
                stage.redis().restart();
            }
        }
        surge.join().unwrap();
    });
    stage.until_decided("ten");
    let given = stage.issued("ten");
    let stored: BTreeSet<_> = {
        let mut sql = stage.database.sql();
        let hex = match engine {
            TestEngine::Sqlite => "lower(hex(user_coupon_id))",
            TestEngine::Postgres => "encode(user_coupon_id, 'hex')",
        };
        sql.texts(&format!("SELECT {hex} FROM user_coupon")).into_iter().collect()
    };
    let accepted = accepted.into_inner().unwrap();
    let lost: BTreeSet<_> = accepted.iter().filter(|id| !stored.contains(&id.replace('-', ""))).collect();
    match issuer {
        // Whoever asked is in the store: exactly as many as there are, and everybody is decided.
        Issuer::Outbox => assert_eq!((given, lost.len()), (COUPONS, 0), "{accident:?}"),
        // What only Redis had is lost with it, and is counted and named.
        _ => {
            assert!(given <= COUPONS, "{given}");
            let metric = || {
                stage
                    .servers
                    .iter()
                    .map(|server| server.api().metric("guerdon_coupons_lost_total"))
                    .sum::<f64>()
            };
            let wanted = f64::from(u32::try_from(lost.len()).unwrap());
            until("the lost ones to be counted", PATIENCE, || {
                ((metric() - wanted).abs() < 0.5).then_some(())
            });
            let log: String = stage.servers.iter().map(guerdon_harness::Server::log_text).collect();
            for id in &lost {
                assert!(log.contains(id.as_str()), "{id} is not named");
            }
            // Whoever lost theirs asks again; then all are issued.
            for user in 0..PEOPLE {
                let answer = issue_now(&stage.user(user), "ten", "k");
                assert!([201, 409].contains(&answer.status), "{}", answer.text);
            }
            stage.until_decided("ten");
            assert_eq!(stage.issued("ten"), COUPONS);
        }
    }
    assert!(
        stage.servers.iter().map(|server| server.api().metric("guerdon_coupon_recounts_total")).sum::<f64>()
            > 1.5
    );
    stage.assert_clean();
}

fn a_lagging_replica_is_promoted(issuer: Issuer, engine: TestEngine) {
    let master = OwnRedis::start(Keeps::Snapshots);
    let replica = OwnRedis::start(Keeps::Snapshots);
    let switch = Switch::start(master.address());
    let mut stage = Stage::empty(issuer, engine, Counter::One(master));
    stage.url = switch.url();
    stage.start(&[]);
    stage.start(&[]);
    stage.make("ten", 50, json!({}));
    issue_now(&stage.user(0), "ten", "k").expect(201);
    let port = stage.redis().port.to_string();
    replica.command(&["REPLICAOF", "127.0.0.1", &port]);
    until("the replica to follow", PATIENCE, || {
        (replica.command(&["GET", "stock:{ten}"]) == "49").then_some(())
    });
    // From here on it lags behind.
    assert_eq!(replica.command(&["REPLICAOF", "NO", "ONE"]), "OK");
    for user in 1..40 {
        issue_now(&stage.user(user), "ten", "k").expect(201);
    }
    stage.until_decided("ten");
    stage.redis().kill();
    switch.lead_to(replica.address());
    let Counter::One(_) = std::mem::replace(&mut stage.counter, Counter::One(replica)) else {
        panic!("the master")
    };
    // It knows of one coupon, and the store of forty: ten are left, and nobody gets a second.
    let answers = at_once(60, |user| {
        until("an answer", PATIENCE, || {
            let answer = issue_now(&stage.user(user), "ten", "k-2");
            (answer.status != 503).then_some(answer)
        })
    });
    let won = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!((won, stage.issued("ten")), (10, 50));
    for answer in &answers[..40] {
        assert_eq!(answer.code(), "DUPLICATE");
    }
    stage.until_decided("ten");
    stage.assert_clean();
}

/// A server is stopped in the middle, with messages in its hands; Redis is emptied and counted by the other; then it goes on.
fn a_paused_worker() {
    const PEOPLE: usize = 400;
    let mut stage = Stage::set(Issuer::Outbox, TestEngine::Postgres, 2);
    stage.make("ten", 100, json!({}));
    issue_now(&stage.user(0), "ten", "k").expect(201);
    let next = AtomicUsize::new(1);
    let (apis, paused) = (stage.servers[1].api(), stage.servers[0].process_id().to_string());
    std::thread::scope(|scope| {
        let surge = scope.spawn(|| {
            at_once(8, |_| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= PEOPLE {
                        return;
                    }
                    let token = crate::support::token(&format!("u-{number}"), "USER");
                    issue(&apis.with_token(&token), "ten", "k", &[]).expect(202);
                }
            });
        });
        let signal = |name: &str| {
            assert!(std::process::Command::new("kill").args([name, &paused]).status().unwrap().success());
        };
        for round in 1..=3 {
            until("more people", PATIENCE, || (next.load(Ordering::Relaxed) > round * 90).then_some(()));
            signal("-STOP");
            assert_eq!(stage.redis().command(&["FLUSHALL"]), "OK");
            // Beyond its lease: the other has taken up what it held, and counted Redis anew.
            let since = std::time::Instant::now();
            until("its lease to end", PATIENCE, || (since.elapsed().as_millis() > 1_500).then_some(()));
            until("Redis to be counted", PATIENCE, || {
                (!stage.redis().command(&["GET", "stock:{ten}"]).is_empty()
                    || next.load(Ordering::Relaxed) >= PEOPLE)
                    .then_some(())
            });
            signal("-CONT");
        }
        surge.join().unwrap();
    });
    stage.until_decided("ten");
    assert_eq!((stage.issued("ten"), stage.standing("ten", "REJECTED")), (100, 300));
    stage.assert_clean();
}

fn scripts_that_are_flushed_change_nothing() {
    for issuer in [Issuer::Outbox, Issuer::Stream] {
        let mut stage = Stage::set(issuer, TestEngine::Sqlite, 1);
        stage.make("ten", 10, json!({}));
        for user in 0..5 {
            issue_now(&stage.user(user), "ten", "k").expect(201);
            assert_eq!(stage.redis().command(&["SCRIPT", "FLUSH"]), "OK");
        }
        let coupon = stage.operator().get("/v1/admin/coupons/ten").expect(200).json();
        assert_eq!((&coupon["epoch"], &coupon["issued"]), (&json!(1), &json!(5)), "it is not counted anew");
        stage.assert_clean();
    }
}

fn one_that_may_throw_keys_away_is_not_used() {
    let redis = OwnRedis::start_with(&["--save", "", "--maxmemory-policy", "allkeys-lru"]);
    let mut stage = Stage::empty(Issuer::Stream, TestEngine::Sqlite, Counter::One(redis));
    let refused =
        guerdon_harness::Server::try_start(crate::support::BINARY, &stage.options(&[])).err().unwrap();
    assert!(refused.contains("noeviction"), "{refused}");
    let policy = |stage: &mut Stage, policy: &str| {
        assert_eq!(stage.redis().command(&["CONFIG", "SET", "maxmemory-policy", policy]), "OK");
    };
    policy(&mut stage, "noeviction");
    stage.start(&[]);
    stage.make("ten", 2, json!({}));
    issue_now(&stage.user(0), "ten", "k").expect(201);
    // One that is replaced by such a one is not used either.
    stage.redis().kill();
    stage.redis().restart();
    assert_eq!(issue(&stage.user(1), "ten", "k", &[]).expect(503).code(), "ISSUER_UNAVAILABLE");
    policy(&mut stage, "noeviction");
    until("it to be used", PATIENCE, || (issue_now(&stage.user(1), "ten", "k").status == 201).then_some(()));
    stage.until_decided("ten");
    stage.assert_clean();
}

/// Two coupons on one Redis that is replaced by an older one: whoever asks for the one first must not make it look familiar
/// to whoever asks for the other.
fn every_coupon_notices_that_redis_was_replaced() {
    let counter = Counter::One(OwnRedis::start(Keeps::Snapshots));
    let mut stage = Stage::set_with(Issuer::Outbox, TestEngine::Sqlite, 1, counter);
    stage.make("ten", 2, json!({}));
    let held: Vec<_> =
        (0..2).map(|user| id_of(&issue_now(&stage.user(user), "ten", "k").expect(201))).collect();
    stage.until_decided("ten");
    let saved = stage.redis().save();
    for id in &held {
        stage
            .operator()
            .post(&format!("/v1/admin/user-coupons/{id}/revoke"), &json!({"note": "n"}))
            .expect(200);
    }
    until("Redis to hear of it", PATIENCE, || {
        (stage.redis().command(&["GET", "stock:{ten}"]) == "2").then_some(())
    });
    stage.redis().kill();
    stage.redis().put_back(&saved);
    stage.redis().restart();
    stage.make("other", 2, json!({}));
    issue_now(&stage.user(5), "other", "k").expect(201);
    issue_now(&stage.user(3), "ten", "k").expect(201);
    stage.until_decided("ten");
    assert_eq!(stage.issued("ten"), 1);
    stage.assert_clean();
}

/// Keys that ended badly before Redis was emptied are still known afterwards: nothing is accepted under them again.
fn keys_outlive_the_loss_of_redis() {
    let mut stage = Stage::set(Issuer::Stream, TestEngine::Sqlite, 1);
    stage.make("ten", 3, json!({}));
    let taken_back = id_of(&issue_now(&stage.user(1), "ten", "k-1").expect(201));
    stage.until_decided("ten");
    let path = format!("/v1/admin/user-coupons/{taken_back}/revoke");
    stage.operator().post(&path, &json!({"note": "n"})).expect(200);
    assert_eq!(stage.redis().command(&["FLUSHALL"]), "OK");
    issue_now(&stage.user(2), "ten", "k-1").expect(201);
    let epoch =
        |stage: &Stage| stage.operator().get("/v1/admin/coupons/ten").expect(200).json()["epoch"].clone();
    let before = epoch(&stage);
    for _ in 0..3 {
        let again = issue_now(&stage.user(1), "ten", "k-1");
        assert_eq!((id_of(&again), &again.json()["status"]), (taken_back.clone(), &json!("REVOKED")));
    }
    assert_eq!(epoch(&stage), before, "nothing had to be counted anew");
    issue_now(&stage.user(1), "ten", "k-2").expect(201);
    stage.until_decided("ten");
    stage.assert_clean();
}

/// From Redis to the store and back: what was changed without Redis is known there afterwards.
fn another_issuer_and_back() {
    let mut stage = Stage::set(Issuer::Outbox, TestEngine::Sqlite, 1);
    stage.make("ten", 2, json!({}));
    let held = id_of(&issue_now(&stage.user(1), "ten", "k").expect(201));
    stage.until_decided("ten");
    stage.redis().kill();
    let waiting = id_of(&issue(&stage.user(4), "ten", "k", &[]).expect(202));
    stage.servers.pop().unwrap().stop();
    stage.issuer = Issuer::Store;
    stage.start(&[]);
    // What waited for Redis is decided by the store.
    until("the store to decide", PATIENCE, || {
        let view = stage.user(4).get(&format!("/v1/user-coupons/{waiting}")).expect(200).json();
        (view["status"] == "CONFIRMED").then_some(())
    });
    assert_eq!(issue(&stage.user(2), "ten", "k", &[]).expect(409).code(), "OUT_OF_STOCK");
    stage
        .operator()
        .post(&format!("/v1/admin/user-coupons/{held}/revoke"), &json!({"note": "n"}))
        .expect(200);
    stage.servers.pop().unwrap().stop();
    stage.redis().restart();
    stage.issuer = Issuer::Outbox;
    stage.start(&[]);
    issue_now(&stage.user(2), "ten", "k").expect(201);
    assert_eq!(issue_now(&stage.user(4), "ten", "k-2").expect(409).code(), "DUPLICATE");
    assert_eq!(issue_now(&stage.user(3), "ten", "k").expect(409).code(), "OUT_OF_STOCK");
    stage.until_decided("ten");
    assert_eq!(stage.issued("ten"), 2);
    stage.assert_clean();
}

/// Redis has to know more with one issuer than with the other, and what is still in the stream is not forgotten.
fn from_the_outbox_to_the_stream_and_back() {
    let mut stage = Stage::set(Issuer::Outbox, TestEngine::Sqlite, 1);
    stage.make("ten", 5, json!({"perUserLimit": 2}));
    let first = id_of(&issue_now(&stage.user(1), "ten", "same").expect(201));
    stage.until_decided("ten");
    stage.servers.pop().unwrap().stop();
    stage.issuer = Issuer::Stream;
    stage.start(&[("FAILPOINT_AT", "coupons were read")]);
    assert_eq!(id_of(&issue(&stage.user(1), "ten", "same", &[])), first);
    // Accepted, and then the server dies before it is stored.
    let second = id_of(&issue(&stage.user(2), "ten", "k", &[]).expect(202));
    until("the server to die", PATIENCE, || stage.servers[0].has_ended().then_some(()));
    stage.servers.clear();
    stage.issuer = Issuer::Outbox;
    stage.start(&[]);
    let api = as_user(&stage.servers[0], 2);
    until("what the stream held to be stored", PATIENCE, || {
        let found = api.get(&format!("/v1/user-coupons/{second}"));
        (found.status == 200 && found.json()["status"] == "CONFIRMED").then_some(())
    });
    stage.until_decided("ten");
    assert_eq!(stage.issued("ten"), 2);
    stage.assert_clean();
}

fn a_coupon_that_cannot_be_counted_holds_up_no_other() {
    let mut stage = Stage::set(Issuer::Outbox, TestEngine::Sqlite, 1);
    stage.make("bad", 5_000, json!({}));
    stage.make("good", 10, json!({}));
    issue_now(&stage.user(1), "bad", "k").expect(201);
    // As a node of a cluster that is down: every call about it fails.
    stage.redis().command(&["DEL", "stock:{bad}"]);
    stage.redis().command(&["LPUSH", "stock:{bad}", "no number"]);
    at_once(8, |caller| {
        for number in 0..100 {
            issue(&stage.user(10 + caller * 100 + number), "bad", "k", &[]).expect(202);
        }
    });
    issue_now(&stage.user(1), "good", "other").expect(201);
    assert!(stage.standing("bad", "PENDING") >= 800);
    stage.redis().command(&["DEL", "stock:{bad}"]);
    stage.until_decided("bad");
    assert_eq!(stage.issued("bad"), 801);
    stage.assert_clean();
}

fn reconcile_finds_and_mends_a_wrong_count() {
    let mut stage = Stage::set(Issuer::Outbox, TestEngine::Sqlite, 1);
    stage.make("ten", 10, json!({}));
    for user in 0..4 {
        issue_now(&stage.user(user), "ten", "k").expect(201);
    }
    stage.until_decided("ten");
    let (code, said) = stage.reconcile(&["--dry-run"]);
    assert_eq!((code, said.contains("agree")), (Some(0), true), "{said}");
    // Somebody meddles with the count.
    stage.redis().command(&["SET", "stock:{ten}", "9"]);
    let api = stage.servers[0].api();
    until("the metric to tell", PATIENCE, || (api.metric("guerdon_coupon_drift") > 2.5).then_some(()));
    let (code, said) = stage.reconcile(&["--dry-run", "--json"]);
    let lines: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &lines[0]["drift"], &lines[0]["counted"]), (Some(1), &json!(3), &json!(1)), "{said}");
    // It is mended by whoever serves, though nobody asks for one.
    let (code, said) = stage.reconcile(&[]);
    assert_eq!((code, said.contains("disagreed by 3; counted anew")), (Some(0), true), "{said}");
    assert_eq!(stage.redis().command(&["GET", "stock:{ten}"]), "6");
    assert_eq!(stage.reconcile(&["--coupon", "none"]).0, Some(2));
    stage.assert_clean();
}

fn a_coupon_whose_time_is_over() {
    let mut stage = Stage::set(Issuer::Outbox, TestEngine::Sqlite, 1);
    let until_when = (crate::support::seconds_now() + 1_800) * 1_000;
    stage.make("ten", 10, json!({"validUntil": until_when}));
    let held: Vec<_> =
        (0..3).map(|user| id_of(&issue_now(&stage.user(user), "ten", "k").expect(201))).collect();
    stage.user(0).post(&format!("/v1/user-coupons/{}/use", held[0]), &json!({"orderId": "o-1"})).expect(200);
    stage.servers.pop().unwrap().stop();
    stage.start(&[("GUERDON_DEV__CLOCK_OFFSET", "50m")]);
    // Seen as expired at once, written down a moment later.
    let path = format!("/v1/user-coupons/{}", held[1]);
    assert_eq!(stage.user(1).get(&path).expect(200).json()["status"], "EXPIRED");
    assert_eq!(
        stage.user(1).post(&format!("{path}/use"), &json!({"orderId": "o"})).expect(409).code(),
        "COUPON_EXPIRED"
    );
    assert_eq!(issue(&stage.user(5), "ten", "k", &[]).expect(409).code(), "COUPON_NOT_VALID");
    until("it to be written down", PATIENCE, || (stage.standing("ten", "EXPIRED") == 2).then_some(()));
    // An order that is called off now gives back one that has expired.
    let path = format!("/v1/user-coupons/{}/cancel-use", held[0]);
    assert_eq!(stage.user(0).post(&path, &json!({"orderId": "o-1"})).expect(200).json()["status"], "EXPIRED");
    assert_eq!(stage.issued("ten"), 3);
    stage.assert_clean();
}
