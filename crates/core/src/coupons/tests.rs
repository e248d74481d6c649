use super::{
    About, Coupon, CouponBody, CouponResult, MOVES, State, UserCoupon, UserCouponId, UserCouponStatus,
    cancel_use, check_issuing, decide, expire, revoke, use_for,
};
use crate::code::Code;
use crate::id::{CouponId, UserId};
use crate::time::Timestamp;
use serde_json::json;
use std::collections::BTreeSet;

const FROM: i64 = 1_000;
const UNTIL: i64 = 2_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn coupon(limit: i64) -> Coupon {
    Coupon {
        id: CouponId::parse("c_1").unwrap(),
        number: 7,
        name: "Ten off".into(),
        total_quantity: 10,
        per_user_limit: limit,
        valid_from: at(FROM),
        valid_until: at(UNTIL),
        benefit: json!({}),
        created_at: at(0),
    }
}

fn held(state: State) -> UserCoupon {
    UserCoupon {
        id: UserCouponId::made(7, at(1), 9),
        coupon_id: CouponId::parse("c_1").unwrap(),
        user_id: UserId::parse("u-1").unwrap(),
        key: "k".into(),
        version: 3,
        requested_at: at(1),
        state,
    }
}

fn confirmed(cancelled: Option<&str>) -> State {
    State::Confirmed { slot: 1, at: at(5), cancelled_order: cancelled.map(String::from), changed_at: at(5) }
}

fn used(order: &str) -> State {
    State::Used { slot: 1, at: at(5), order: order.into(), used_at: at(6) }
}

fn every_state() -> Vec<State> {
    vec![
        State::Pending,
        confirmed(None),
        confirmed(Some("o-1")),
        State::Rejected { why: CouponResult::OutOfStock, at: at(5) },
        used("o-1"),
        State::Expired { slot: 1, at: at(5), expired_at: at(UNTIL) },
        State::Revoked { at: Some(at(5)), revoked_at: at(8), note: String::new() },
        State::Revoked { at: None, revoked_at: at(8), note: String::new() },
    ]
}

#[test]
fn ids_hold_the_number_of_their_coupon_and_are_ordered_by_time() {
    for number in [0, 1, 2, 3, 65_535, 1 << 20, super::NUMBER_MAX - 1, super::NUMBER_MAX] {
        for random in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            let id = UserCouponId::made(number, at(1_700_000_000_000), random);
            assert_eq!(id.coupon_number(), number);
            let text = id.to_string();
            assert_eq!((&text[14..15], &text[19..20] >= "8" && &text[19..20] <= "b"), ("7", true), "{text}");
            assert_eq!(UserCouponId::parse(&text), Some(id));
            let all = [*id.as_bytes(), id.message(About::Request), id.message(About::Decision)];
            assert_eq!(BTreeSet::from(all).len(), 3);
        }
    }
    let early = UserCouponId::made(super::NUMBER_MAX, at(1_700_000_000_000), u64::MAX);
    assert!(early < UserCouponId::made(0, at(1_700_000_000_001), 0));
    let ids: BTreeSet<_> = (0..5_000_u64).map(|n| UserCouponId::made(1, at(5), n << 16 | n)).collect();
    assert_eq!(ids.len(), 5_000);
}

#[test]
fn who_gets_one() {
    use CouponResult::{Duplicate, OutOfStock};
    for (limit, left, held, expected) in [
        (1, 10, vec![], Ok(1)),
        (1, 1, vec![], Ok(1)),
        (1, 0, vec![], Err(OutOfStock)),
        (1, -1, vec![], Err(OutOfStock)),
        (1, 10, vec![1], Err(Duplicate)),
        // Who has it already is told so, also when nothing is left.
        (1, 0, vec![1], Err(Duplicate)),
        (3, 10, vec![1], Ok(2)),
        (3, 10, vec![1, 3], Ok(2)),
        (3, 10, vec![2, 3], Ok(1)),
        (3, 10, vec![1, 2, 3], Err(Duplicate)),
    ] {
        let held: BTreeSet<_> = held.into_iter().collect();
        assert_eq!(decide(&coupon(limit), left, &held), expected, "{limit} {left} {held:?}");
    }
}

#[test]
fn when_it_is_issued() {
    for (now, fits) in [(FROM - 1, false), (FROM, true), (UNTIL - 1, true), (UNTIL, false)] {
        assert_eq!(check_issuing(&coupon(1), at(now)).is_ok(), fits, "{now}");
    }
}

#[test]
fn using_and_giving_back() {
    let coupon = coupon(1);
    let code = |moved: super::Moved| match moved {
        Ok(Some(moved)) => moved.status().as_str().to_owned(),
        Ok(None) => "unchanged".to_owned(),
        Err(rejection) => rejection.code.to_string(),
    };
    for (state, now, use_it, give_back) in [
        (State::Pending, 1_500, "COUPON_NOT_USABLE", "COUPON_NOT_USABLE"),
        (confirmed(None), FROM - 1, "COUPON_NOT_USABLE", "COUPON_NOT_USABLE"),
        (confirmed(None), FROM, "USED", "COUPON_NOT_USABLE"),
        (confirmed(None), UNTIL, "COUPON_EXPIRED", "COUPON_NOT_USABLE"),
        (confirmed(Some("o-1")), 1_500, "COUPON_NOT_USABLE", "unchanged"),
        (confirmed(Some("o-0")), 1_500, "USED", "COUPON_NOT_USABLE"),
        (used("o-1"), 1_500, "unchanged", "CONFIRMED"),
        (used("o-1"), UNTIL, "unchanged", "EXPIRED"),
        (used("o-2"), 1_500, "COUPON_ALREADY_USED", "COUPON_ALREADY_USED"),
        (State::Expired { slot: 1, at: at(5), expired_at: at(UNTIL) }, UNTIL, "COUPON_EXPIRED", "unchanged"),
        (
            State::Rejected { why: CouponResult::Duplicate, at: at(5) },
            1_500,
            "COUPON_NOT_USABLE",
            "COUPON_NOT_USABLE",
        ),
        (
            State::Revoked { at: None, revoked_at: at(8), note: String::new() },
            1_500,
            "COUPON_NOT_USABLE",
            "COUPON_NOT_USABLE",
        ),
    ] {
        let held = held(state);
        assert_eq!(code(use_for(&held, &coupon, "o-1", at(now))), use_it, "use {held:?} at {now}");
        assert_eq!(code(cancel_use(&held, &coupon, "o-1", at(now))), give_back, "cancel {held:?} at {now}");
    }
}

#[test]
fn taking_back_and_ending() {
    for state in every_state() {
        let held = held(state);
        let status = held.status();
        match revoke(&held, "wrong", at(9)) {
            Ok(Some(revoked)) => {
                assert!(status.is_issued() || status == UserCouponStatus::Pending);
                assert_eq!((revoked.status(), revoked.version), (UserCouponStatus::Revoked, 4));
            }
            Ok(None) => assert!(matches!(status, UserCouponStatus::Rejected | UserCouponStatus::Revoked)),
            Err(rejection) => {
                assert_eq!((status, rejection.code), (UserCouponStatus::Used, Code::CouponAlreadyUsed));
            }
        }
        assert_eq!(expire(&held, &coupon(1), at(UNTIL)).is_some(), status == UserCouponStatus::Confirmed);
        assert_eq!(expire(&held, &coupon(1), at(UNTIL - 1)), None);
    }
}

/// Whatever is done, in whatever state and at whatever time, leads along the table; and every pair of the table is reached.
#[test]
fn every_move_is_in_the_table_and_the_other_way_round() {
    let coupon = coupon(1);
    let mut seen = BTreeSet::new();
    for state in every_state() {
        let held = held(state);
        for now in [FROM - 1, FROM, UNTIL] {
            let mut moved = Vec::new();
            for order in ["o-1", "o-2"] {
                moved.extend(use_for(&held, &coupon, order, at(now)).ok().flatten());
                moved.extend(cancel_use(&held, &coupon, order, at(now)).ok().flatten());
            }
            moved.extend(expire(&held, &coupon, at(now)));
            moved.extend(revoke(&held, "", at(now)).ok().flatten());
            for decision in [Ok(1), Err(CouponResult::Duplicate), Err(CouponResult::OutOfStock)] {
                moved.push(held.decided(decision, at(now)));
            }
            for after in moved.into_iter().filter(|after| after.version != held.version) {
                let pair = (held.status(), after.status());
                assert!(MOVES.contains(&pair), "{pair:?}");
                // What counts is counted by where it stands.
                assert_eq!(after.state.slot().is_some(), after.status().is_issued());
                seen.insert(pair);
            }
        }
    }
    assert_eq!(seen, MOVES.iter().copied().collect());
}

#[test]
fn what_an_operator_can_ask_for() {
    let fine = json!({"couponId": "c_1", "name": "Ten off", "totalQuantity": 10});
    let with = |field: &str, value: serde_json::Value| {
        let mut body = fine.clone();
        body[field] = value;
        serde_json::from_value::<CouponBody>(body).unwrap().validate(at(500))
    };
    let made = with("name", json!(" Ten off ")).unwrap();
    assert_eq!((made.name.as_str(), made.per_user_limit, made.valid_from), ("Ten off", 1, at(500)));
    for (field, value, fits) in [
        ("couponId", json!("with-hyphen"), false),
        ("name", json!(""), false),
        ("name", json!("a\u{0}b"), false),
        ("totalQuantity", json!(0), false),
        ("totalQuantity", json!(-1), false),
        ("totalQuantity", json!(1_000_000_000), true),
        ("totalQuantity", json!(1_000_000_001), false),
        ("perUserLimit", json!(0), false),
        ("perUserLimit", json!(1_000), true),
        ("perUserLimit", json!(1_001), false),
        ("validUntil", json!(500), false),
        ("validUntil", json!(501), true),
        ("validFrom", json!(-1), false),
        ("benefit", json!({"text": "x".repeat(5_000)}), false),
        ("benefit", json!({"text": "a\u{0}b"}), false),
        ("benefit", json!({"percent": 10}), true),
        ("benefit", json!("ten"), true),
    ] {
        let outcome = with(field, value.clone());
        assert_eq!(outcome.is_ok(), fits, "{field} {value}");
        if let Err(rejection) = outcome {
            assert_eq!(rejection.fields[0].path, field);
        }
    }
}
