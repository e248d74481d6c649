//! Many claims for a limited stock, partners that fail, and servers that are killed.

use super::{Asked, PATIENCE, Stage, claim, limited, points};
use crate::support::{at_once, for_every_setup};
use guerdon_harness::{TestEngine, until};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

for_every_setup! { two_thousand_claims_while_servers_are_killed }

fn two_thousand_claims_while_servers_are_killed(engine: TestEngine, count: usize) {
    const CLAIMS: usize = 2_000;
    const STOCK: i64 = 1_200;
    const KILLS: usize = 10;
    let settings = [
        ("GUERDON_CLAIMS__RETRIES", "5"),
        ("GUERDON_PROVIDERS__DEFAULT__CONCURRENCY", "32"),
        ("GUERDON_SERVICES__AUTH__RETRIES", "2"),
        ("GUERDON_SERVICES__GAME_DATA__RETRIES", "2"),
    ];
    let mut stage = Stage::set_with(engine, count, Asked::All, &settings);
    stage.open("gift", json!({"conditions": "true", "rewards": [points(), limited("sword", STOCK), limited("shield", STOCK)]}));
    stage.partners.faults(&json!({
        "seed": 5, "lateMs": 1_300, "delayMs": 2,
        "rates": {"fails": 0.03, "failsAfter": 0.03, "late": 0.01, "loses": 0.03, "conflicts": 0.02},
        "auth": {"fails": 0.05}, "gameData": {"fails": 0.05},
    }));
    let next = AtomicUsize::new(0);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut sql = stage.database.sql();
    let mut begun = || sql.number("SELECT COUNT(*) FROM user_reward_requests");
    let addresses = std::sync::Mutex::new(addresses(&stage));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= CLAIMS {
                        return;
                    }
                    // With the same key until there is an answer, wherever it comes from.
                    until("an answer", PATIENCE, || {
                        let servers = addresses.lock().unwrap().clone();
                        let api = servers[number % servers.len()]
                            .with_token(&crate::support::token(&format!("u-{number}"), "USER"));
                        let headers = [
                            ("X-Idempotency-Key", &*format!("claim-{number:05}")),
                            ("Prefer", "respond-async"),
                        ];
                        let answer =
                            api.try_send("POST", "/v1/event-claims/gift/claim", &headers, Some("{}"));
                        answer.ok().filter(|answer| answer.status != 503).map(drop)
                    });
                }
            });
        }
        for kill in 1..=KILLS {
            let least = i64::try_from(CLAIMS * kill / (KILLS + 2)).unwrap();
            until("some more claims", PATIENCE, || (begun() >= least).then_some(()));
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            // A moment of its own for each.
            let (pause, since) = (Duration::from_millis(seed % 50), std::time::Instant::now());
            until("the moment", PATIENCE, || (since.elapsed() > pause).then_some(()));
            let victim = usize::try_from(seed >> 40).unwrap() % stage.servers.len();
            stage.servers.remove(victim).kill();
            stage.start(&[]);
            *addresses.lock().unwrap() = self::addresses(&stage);
        }
    });
    let mut sql = stage.database.sql();
    let pending = "SELECT COUNT(*) FROM user_reward_requests WHERE next_at IS NOT NULL";
    until("every claim to end", Duration::from_mins(2), || (sql.number(pending) == 0).then_some(()));
    let mut counted = |status: &str| {
        sql.number(&format!("SELECT COUNT(*) FROM user_reward_requests WHERE status = '{status}'"))
    };
    let granted = counted("SUCCESS_ALL_GRANTED");
    assert_eq!(counted("COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED"), 0);
    let all: i64 = sql.number("SELECT COUNT(*) FROM user_reward_requests");
    assert_eq!(all, i64::try_from(CLAIMS).unwrap());
    for reward in ["sword", "shield"] {
        assert_eq!(stage.stock("gift", reward), STOCK - granted, "of {reward}");
    }
    assert!(granted > STOCK / 2, "{granted} of {STOCK}");
    // What is late comes to nothing, so that the partner's book is what we say.
    let wanted = usize::try_from(granted * 2).unwrap();
    until("the partner to hold what was granted", PATIENCE, || (stage.given().len() == wanted).then_some(()));
    let ours = sql.texts(
        "SELECT request_id FROM user_reward_requests WHERE status = 'SUCCESS_ALL_GRANTED' ORDER BY request_id",
    );
    let mut expected: Vec<_> =
        ours.iter().flat_map(|key| [format!("claim-{key}-shield"), format!("claim-{key}-sword")]).collect();
    expected.sort();
    assert_eq!(stage.given(), expected);
    let some =
        at_once(4, |number| claim(&stage.user(number), "gift", &format!("claim-{number:05}"), &[]).status);
    assert!(some.iter().all(|status| *status != 202), "{some:?}");
    stage.assert_clean();
}

fn addresses(stage: &Stage) -> Vec<guerdon_harness::Api> {
    stage.servers.iter().map(guerdon_harness::Server::api).collect()
}
