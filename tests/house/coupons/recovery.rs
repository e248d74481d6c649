//! The ten recovery scenarios: the process dies at the exact point, and whoever comes next makes it good.

use super::{Issuer, PATIENCE, Stage, id_of, try_issue};
use crate::support::as_user;
use guerdon_harness::{TestEngine, until};
use serde_json::json;

/// Six of the outbox, four of the stream, each on both engines.
macro_rules! scenarios {
    ($($name:ident $issuer:ident $place:literal;)+) => {
        mod redis_sqlite {
            $(#[test] fn $name() { super::dies(super::Issuer::$issuer, guerdon_harness::TestEngine::Sqlite, $place); })+
        }
        mod redis_postgres {
            $(#[test] fn $name() { super::dies(super::Issuer::$issuer, guerdon_harness::TestEngine::Postgres, $place); })+
        }
    };
}

scenarios! {
    outbox_1_before_the_commit_of_the_call Outbox "a coupon was asked for, before the commit";
    outbox_2_after_the_commit_of_the_call Outbox "a coupon was asked for, after the commit";
    outbox_3_after_the_worker_took_it_up Outbox "coupons were taken up";
    outbox_4_after_the_count_before_the_confirmation Outbox "coupons were counted";
    outbox_5_between_the_confirmation_and_sent Outbox "coupons are confirmed, before the commit";
    outbox_6_after_both Outbox "coupons were confirmed";
    stream_1_before_redis_is_asked Stream "Redis is asked";
    stream_1_after_redis_has_answered Stream "Redis has answered";
    stream_2_after_the_worker_read_it Stream "coupons were read";
    stream_3_after_the_count_before_the_store Stream "coupons are stored, before the commit";
    stream_4_after_the_store_before_the_acknowledgement Stream "coupons were stored";
}

fn dies(issuer: Issuer, engine: TestEngine, place: &str) {
    let mut stage = Stage::set(issuer, engine, 0);
    stage.start(&[("FAILPOINT_AT", place)]);
    stage.make("ten", 3, json!({}));
    // Whether there is an answer depends on where it dies.
    let first = try_issue(&as_user(&stage.servers[0], 1), "ten", "k-1", &[]).ok();
    until("the server to die there", PATIENCE, || stage.servers[0].has_ended().then_some(()));
    assert!(stage.servers[0].log_text().contains("a place to fail at"), "{}", stage.servers[0].log_text());
    stage.servers.clear();

    // What the store and Redis have now: at no point more than one is counted.
    let left = stage.redis().command(&["GET", "stock:{ten}"]);
    assert!(["", "2", "3"].contains(&left.as_str()), "{left}");

    // The client asks again with the same key, whoever answers.
    stage.start(&[]);
    let again = try_issue(&stage.user(1), "ten", "k-1", &[("Prefer", "wait=20")]).unwrap().expect(201);
    assert_eq!(again.json()["status"], "CONFIRMED");
    if let Some(first) = first.filter(|first| first.status == 202) {
        assert_eq!(id_of(&first), id_of(&again), "what was accepted is what was confirmed");
    }
    // Somebody else with another key gets another, and the first user nothing more.
    try_issue(&stage.user(2), "ten", "k-1", &[("Prefer", "wait=20")]).unwrap().expect(201);
    let more = try_issue(&stage.user(1), "ten", "k-2", &[("Prefer", "wait=20")]).unwrap();
    assert_eq!(more.expect(409).code(), "DUPLICATE");
    stage.until_decided("ten");
    assert_eq!(stage.issued("ten"), 2);
    until("the count to be right", PATIENCE, || {
        (stage.redis().command(&["GET", "stock:{ten}"]) == "1").then_some(())
    });
    // What Redis had to know meanwhile is settled, and goes by itself.
    until("Redis to have settled it", PATIENCE, || {
        let keys = stage.redis().command(&["KEYS", "event_processed:*"]);
        let mut stays = |key: &str| !key.is_empty() && stage.redis().command(&["PTTL", key]) == "-1";
        let stay = keys.lines().filter(|key| stays(key)).count();
        (stay == 0 && stage.redis().command(&["ZCARD", "taking:{ten}"]) == "0").then_some(())
    });
    stage.assert_clean();
}

/// A process that dies after it raised the epoch and before Redis heard of it: Redis looks sound, and counts in an epoch that
/// is over.
#[test]
fn redis_dies_before_it_is_counted_anew() {
    for issuer in [Issuer::Outbox, Issuer::Stream] {
        let mut stage = Stage::set(issuer, TestEngine::Sqlite, 1);
        stage.make("ten", 3, json!({}));
        try_issue(&stage.user(1), "ten", "k-1", &[("Prefer", "wait=20")]).unwrap().expect(201);
        stage.until_decided("ten");
        stage.servers.pop().unwrap().stop();
        // Another Redis, with the same data.
        stage.redis().kill();
        stage.redis().restart();
        stage.start(&[("FAILPOINT_AT", "Redis is about to be counted")]);
        let _ = try_issue(&as_user(&stage.servers[0], 2), "ten", "k-1", &[]);
        until("the server to die there", PATIENCE, || stage.servers[0].has_ended().then_some(()));
        stage.servers.clear();
        stage.start(&[]);
        let again = until("the lease to end", PATIENCE, || {
            let answer = try_issue(&stage.user(2), "ten", "k-1", &[("Prefer", "wait=20")]).unwrap();
            (answer.status != 503).then_some(answer)
        });
        assert_eq!(again.expect(201).json()["status"], "CONFIRMED");
        stage.until_decided("ten");
        assert_eq!(stage.issued("ten"), 2);
        stage.assert_clean();
    }
}
