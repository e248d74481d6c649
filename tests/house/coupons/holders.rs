//! SQLite's index of who has which coupons is written later: nobody can tell.

use super::{Issuer, PATIENCE, Stage, id_of, issue_now};
use guerdon_harness::{Server, TestEngine, until};
use serde_json::json;

const USERS: usize = 40;

fn until_indexed(stage: &Stage) {
    until("everything to be in the index", PATIENCE, || {
        (stage.servers[0].api().metric("guerdon_coupon_holders_pending") < 0.5).then_some(())
    });
}

/// Each has these, by the list and by being refused one more; and a key again is the same again.
fn assert_each_has(stage: &Stage, rounds: &[Vec<String>]) {
    for number in 0..USERS {
        let user = stage.user(number);
        let mine = user.get("/v1/me/coupons").expect(200).json();
        let found: Vec<_> =
            mine["items"].as_array().unwrap().iter().map(|one| one["userCouponId"].clone()).collect();
        let expected: Vec<_> = rounds.iter().rev().map(|ids| json!(ids[number])).collect();
        assert_eq!(found, expected, "u-{number}");
        for (round, ids) in rounds.iter().enumerate() {
            let coupon = ["one", "two"][round % 2];
            let again = issue_now(&user, coupon, &format!("k-{round}")).expect(201);
            assert_eq!(id_of(&again), ids[number]);
            assert_eq!(issue_now(&user, coupon, "another").expect(409).code(), "DUPLICATE");
        }
    }
}

#[test]
fn nobody_can_tell_what_is_indexed() {
    let mut stage = Stage::set(Issuer::Store, TestEngine::Sqlite, 1);
    stage.make("one", 1_000, json!({}));
    stage.make("two", 1_000, json!({}));
    let give = |stage: &Stage, round: usize| -> Vec<String> {
        let coupon = ["one", "two"][round % 2];
        (0..USERS)
            .map(|number| id_of(&issue_now(&stage.user(number), coupon, &format!("k-{round}")).expect(201)))
            .collect()
    };
    let mut rounds = vec![give(&stage, 0)];
    assert_each_has(&stage, &rounds);
    until_indexed(&stage);
    assert_each_has(&stage, &rounds);
    // Killed with some in the index and some in the tail alone.
    rounds.push(give(&stage, 1));
    stage.servers.drain(..).for_each(Server::kill);
    stage.start(&[]);
    assert_each_has(&stage, &rounds);
    until_indexed(&stage);
    assert_each_has(&stage, &rounds);
    stage.servers.drain(..).for_each(Server::kill);
    stage.start(&[]);
    assert_each_has(&stage, &rounds);
    let mut sql = stage.database.sql();
    let indexed = sql.number("SELECT COUNT(*) FROM user_coupon_holders");
    assert_eq!(usize::try_from(indexed).unwrap(), 2 * USERS);
    drop(sql);
    stage.assert_clean();
}
