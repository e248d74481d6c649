//! Twenty thousand people for a thousand coupons, while servers and Redis are killed.

use super::{Issuer, PATIENCE, Stage, id_of, try_issue};
use crate::support::at_once;
use guerdon_harness::{Api, Server, TestEngine, until};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

mod store {
    #[test]
    fn sqlite_killed_during_a_drop() {
        super::drop_while_killed(super::Issuer::Store, super::TestEngine::Sqlite, 1);
    }

    #[test]
    fn postgres_killed_during_a_drop() {
        super::drop_while_killed(super::Issuer::Store, super::TestEngine::Postgres, 2);
    }
}

mod redis {
    #[test]
    fn outbox_on_sqlite_killed_during_a_drop() {
        super::drop_while_killed(super::Issuer::Outbox, super::TestEngine::Sqlite, 1);
    }

    #[test]
    fn outbox_on_postgres_killed_during_a_drop() {
        super::drop_while_killed(super::Issuer::Outbox, super::TestEngine::Postgres, 2);
    }

    #[test]
    fn stream_on_sqlite_killed_during_a_drop() {
        super::drop_while_killed(super::Issuer::Stream, super::TestEngine::Sqlite, 1);
    }

    #[test]
    fn stream_on_postgres_killed_during_a_drop() {
        super::drop_while_killed(super::Issuer::Stream, super::TestEngine::Postgres, 2);
    }
}

const PEOPLE: usize = 20_000;
const COUPONS: i64 = 1_000;
const KILLS: usize = 6;

/// Who was answered what.
#[derive(Default)]
struct Told {
    accepted: BTreeSet<String>,
    refused: usize,
}

fn drop_while_killed(issuer: Issuer, engine: TestEngine, servers: usize) {
    let mut stage = Stage::set(issuer, engine, servers);
    stage.make("ten", COUPONS, json!({}));
    let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let apis = Mutex::new(addresses(&stage));
    let told = Mutex::new(Told::default());
    std::thread::scope(|scope| {
        let surge = scope.spawn(|| {
            at_once(16, |_| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= PEOPLE {
                        return;
                    }
                    ask(&apis, number, "first", &told);
                    // Some come twice.
                    if number % 10 == 0 {
                        ask(&apis, number, "second", &told);
                    }
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        for kill in 1..=KILLS {
            // While there are coupons left, and afterwards.
            let least = kill * 300;
            until("more answers", PATIENCE, || (answered.load(Ordering::Relaxed) >= least).then_some(()));
            if kill % 3 == 0 && issuer != Issuer::Store {
                stage.redis().kill();
                stage.redis().restart();
            } else {
                stage.servers.remove(0).kill();
                stage.start(&[]);
                *apis.lock().unwrap() = addresses(&stage);
            }
        }
        surge.join().unwrap();
    });
    stage.until_decided("ten");
    // Redis kept every change: nothing that was accepted is lost, and all are issued.
    assert_eq!(stage.issued("ten"), COUPONS);
    let mut sql = stage.database.sql();
    assert_eq!(
        sql.number("SELECT COUNT(DISTINCT user_id) FROM user_coupon WHERE status = 'CONFIRMED'"),
        COUPONS
    );
    let hex = match engine {
        TestEngine::Sqlite => "lower(hex(user_coupon_id))",
        TestEngine::Postgres => "encode(user_coupon_id, 'hex')",
    };
    let stored: BTreeSet<_> = sql.texts(&format!("SELECT {hex} FROM user_coupon")).into_iter().collect();
    let told = told.into_inner().unwrap();
    let lost: Vec<_> = told.accepted.iter().filter(|id| !stored.contains(&id.replace('-', ""))).collect();
    assert!(lost.is_empty(), "{lost:?}");
    if issuer != Issuer::Outbox {
        // Where a refusal is said at once, everybody else heard it.
        assert!(told.refused >= PEOPLE - 1_000, "{}", told.refused);
    }
    stage.assert_clean();
}

fn addresses(stage: &Stage) -> Vec<Api> {
    stage.servers.iter().map(Server::api).collect()
}

/// Asks until there is an answer, wherever it comes from.
fn ask(apis: &Mutex<Vec<Api>>, number: usize, key: &str, told: &Mutex<Told>) {
    let token = crate::support::token(&format!("u-{number}"), "USER");
    until("an answer", PATIENCE, || {
        let api = {
            let apis = apis.lock().unwrap();
            apis[number % apis.len()].with_token(&token)
        };
        let answer = try_issue(&api, "ten", key, &[]).ok()?;
        match answer.status {
            201 | 202 => {
                told.lock().unwrap().accepted.insert(id_of(&answer));
            }
            409 => told.lock().unwrap().refused += 1,
            503 => return None,
            _ => panic!("{}", answer.text),
        }
        Some(())
    });
}
