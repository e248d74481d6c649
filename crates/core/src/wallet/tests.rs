use super::*;
use proptest::prelude::{prop, prop_assert, prop_assert_eq, proptest};

fn book(number: i64, kind: AccountKind, currency: &str, balance: i64) -> Book {
    Book {
        account: AccountId::new(number),
        slot: 0,
        kind,
        status: if number == 9 { AccountStatus::Frozen } else { AccountStatus::Active },
        currency: Currency::parse(currency).unwrap(),
        scale: 2,
        balance,
        entries: 5,
        changed_at: Timestamp::from_millis(100),
    }
}

/// Two members, a system account, one in another currency, one that is full, one that is frozen.
fn books() -> Books {
    Books::of([
        book(1, AccountKind::Member, "KRW", 1_000),
        book(2, AccountKind::Member, "KRW", 0),
        book(3, AccountKind::System, "KRW", -500),
        book(4, AccountKind::Member, "POINT", 1_000),
        book(5, AccountKind::Member, "KRW", i64::MAX),
        book(6, AccountKind::System, "KRW", i64::MIN + 10),
        book(9, AccountKind::Member, "KRW", 1_000),
    ])
}

#[test]
fn money_moves_or_nothing_does() {
    for (from, to, amount, outcome) in [
        (1, 2, 1_000, Ok((0, 1_000))),
        (1, 2, 1_001, Err("INSUFFICIENT_BALANCE")),
        (2, 1, 1, Err("INSUFFICIENT_BALANCE")),
        (3, 2, 700, Ok((-1_200, 700))),
        (2, 3, 1, Err("INSUFFICIENT_BALANCE")),
        (1, 4, 1, Err("CURRENCY_MISMATCH")),
        (1, 1, 1, Err("CURRENCY_MISMATCH")),
        (1, 2, 0, Err("CURRENCY_MISMATCH")),
        (1, 5, 1, Err("BALANCE_OUT_OF_RANGE")),
        (6, 2, 11, Err("BALANCE_OUT_OF_RANGE")),
        (1, 9, 1, Err("ACCOUNT_NOT_ACTIVE")),
        (9, 1, 1, Err("ACCOUNT_NOT_ACTIVE")),
        (1, 7, 1, Err("ACCOUNT_NOT_FOUND")),
    ] {
        let mut books = books();
        let found = books.post(AccountId::new(from), AccountId::new(to), amount, Timestamp::from_millis(50));
        let changed = books.changed().len();
        match (&found, outcome) {
            (Ok(posted), Ok((left, held))) => {
                assert_eq!((posted.from.balance, posted.to.balance), (left, held), "{from} to {to}");
                assert_eq!((posted.from.number, posted.to.number), (6, 6));
                assert_eq!(posted.at.as_millis(), 100, "no earlier than what came before");
                assert_eq!(changed, 2);
            }
            (Err(rejection), Err(code)) => {
                assert_eq!(rejection.code.as_str(), code, "{from} to {to}");
                assert_eq!(changed, 0, "{from} to {to}");
            }
            _ => panic!("{from} to {to}: {found:?}"),
        }
    }
}

proptest! {
    /// Whatever is tried: the sum stays, no member is below zero, and every book's entries tell its balance.
    #[test]
    fn sums_are_constant(tried in prop::collection::vec((1_i64..8, 1_i64..8, 1_i64..2_000), 0..200)) {
        let mut books = Books::of((1..8).map(|number| {
            let kind = if number == 1 { AccountKind::System } else { AccountKind::Member };
            Book { entries: 0, ..book(number, kind, "KRW", 0) }
        }));
        let mut told = std::collections::BTreeMap::<AccountId, (i64, i64)>::new();
        for (from, to, amount) in tried {
            let (from, to) = (AccountId::new(from), AccountId::new(to));
            let Ok(posted) = books.post(from, to, amount, Timestamp::from_millis(1)) else { continue };
            for (entry, signed) in [(posted.from, -amount), (posted.to, amount)] {
                let (number, balance) = told.entry(entry.account).or_default();
                *number += 1;
                *balance += signed;
                prop_assert_eq!((entry.number, entry.balance), (*number, *balance));
            }
        }
        let held: Vec<_> = (1..8).map(|number| books.book(AccountId::new(number)).unwrap().balance).collect();
        prop_assert_eq!(held.iter().sum::<i64>(), 0);
        prop_assert!(held[1..].iter().all(|balance| *balance >= 0));
    }

    /// The same amount has one fingerprint however it is written, and another amount another one.
    #[test]
    fn one_wish_one_fingerprint(whole in 0_i64..1_000_000, cents in 0_i64..100, other in 0_i64..100) {
        let wish = |text: &str| Wish::Transfer(Order {
            from: AccountId::new(1), to: AccountId::new(2), amount: text.parse().unwrap(),
        });
        let plain = wish(&format!("{whole}.{cents:02}")).fingerprint();
        prop_assert_eq!(wish(&format!("{whole}.{cents:02}00")).fingerprint(), plain);
        prop_assert_eq!(wish(&format!("{}e-2", whole * 100 + cents)).fingerprint(), plain);
        prop_assert_eq!(wish(&format!("{whole}.{other:02}")).fingerprint() == plain, other == cents);
    }
}

#[test]
fn the_canonical_form() {
    let order = |amount: &str| {
        Wish::Transfer(Order {
            from: AccountId::new(1),
            to: AccountId::new(2),
            amount: amount.parse().unwrap(),
        })
    };
    for amount in ["10000", "10000.0", "1e4"] {
        assert_eq!(order(amount).canonical(), r#"{"fromAccountId":1,"toAccountId":2,"amount":10000}"#);
    }
    assert_eq!(
        order("10000").fingerprint().to_string(),
        "45462e2e0858e7a27cb224ee54f44736269116b6501bd841f1d144ce56266009",
        "by sha256sum"
    );
    let deposit = Wish::Deposit { to: AccountId::new(7), amount: "0.50".parse().unwrap() };
    assert_eq!(deposit.canonical(), r#"{"accountId":7,"amount":0.5}"#);
    let of = TransferId::from_bytes([0; 16]);
    let refund = |amount: Option<&str>| Wish::Refund { of, amount: amount.map(|text| text.parse().unwrap()) };
    assert_eq!(refund(None).canonical(), r#"{"transferId":"00000000-0000-0000-0000-000000000000"}"#);
    assert_ne!(refund(None).fingerprint(), refund(Some("5")).fingerprint());
}

fn account(number: i64, owner: &str, currency: &str, balance: i64) -> Account {
    Account {
        id: AccountId::new(number),
        owner: owner.into(),
        kind: if owner.contains('#') { AccountKind::System } else { AccountKind::Member },
        currency: Currency::parse(currency).unwrap(),
        scale: 2,
        status: AccountStatus::Active,
        balance,
        created_at: Timestamp::from_millis(0),
    }
}

#[test]
fn orders_that_make_sense() {
    let asking = |user: &str| Asking { user: UserId::parse(user).unwrap(), operates: false };
    for (user, from, to, amount, outcome) in [
        ("ann", account(1, "ann", "KRW", 0), Some(account(2, "bob", "KRW", 0)), "1.25", Ok(125)),
        (
            "ann",
            account(1, "bob", "KRW", 0),
            Some(account(2, "ann", "KRW", 0)),
            "1",
            Err("ACCOUNT_FORBIDDEN"),
        ),
        ("guerdon", account(1, "guerdon#issue", "KRW", 0), None, "1", Err("ACCOUNT_FORBIDDEN")),
        (
            "ann",
            account(1, "ann", "KRW", 0),
            Some(account(2, "guerdon#issue", "KRW", 0)),
            "1",
            Err("ACCOUNT_FORBIDDEN"),
        ),
        ("ann", account(1, "ann", "KRW", 0), None, "1", Err("ACCOUNT_NOT_FOUND")),
        (
            "ann",
            account(1, "ann", "KRW", 0),
            Some(account(2, "bob", "POINT", 0)),
            "1",
            Err("CURRENCY_MISMATCH"),
        ),
        (
            "ann",
            account(1, "ann", "KRW", 0),
            Some(account(2, "bob", "KRW", 0)),
            "1.255",
            Err("INVALID_FIELDS"),
        ),
        (
            "ann",
            account(1, "ann", "KRW", 0),
            Some(account(2, "bob", "KRW", i64::MAX)),
            "1",
            Err("BALANCE_OUT_OF_RANGE"),
        ),
        (
            "ann",
            account(1, "ann", "KRW", 0),
            Some(account(2, "bob", "KRW", 0)),
            "9e18",
            Err("INVALID_FIELDS"),
        ),
    ] {
        let order = Order { from: from.id, to: AccountId::new(2), amount: amount.parse().unwrap() };
        let found = check_order(&asking(user), &order, Some(&from), to.as_ref());
        let found =
            found.map(|movement| movement.amount.unwrap()).map_err(|rejection| rejection.code.as_str());
        assert_eq!(found, outcome, "{user} {amount}");
    }
}

#[test]
fn refunds_within_what_was_moved() {
    use TransferKind::{Deposit, Refund, Transfer as Plain};
    let posted = |from: i64, to: i64| {
        let entry = |account| Entry { account: AccountId::new(account), slot: 0, number: 1, balance: 0 };
        Posted { from: entry(from), to: entry(to), amount: 1_000, at: Timestamp::from_millis(1) }
    };
    let transfer = |kind, refunded| Transfer {
        id: TransferId::from_bytes([1; 16]),
        kind,
        posted: posted(1, 2),
        refunded,
        refund_of: None,
        client: UserId::parse("ann").unwrap(),
        key: IdempotencyKey::parse("k").unwrap(),
    };
    for (user, operates, kind, refunded, amount, outcome) in [
        ("bob", false, Plain, 0, None, Ok(None)),
        ("bob", false, Plain, 0, Some("10"), Ok(Some(1_000))),
        ("bob", false, Plain, 999, Some("0.01"), Ok(Some(1))),
        ("bob", false, Plain, 999, Some("0.02"), Err("REFUND_EXCEEDS_TRANSFER")),
        ("bob", false, Plain, 1_000, None, Err("REFUND_EXCEEDS_TRANSFER")),
        ("bob", false, Plain, 0, Some("0.001"), Err("INVALID_FIELDS")),
        ("ann", false, Plain, 0, None, Err("TRANSFER_NOT_FOUND")),
        ("op", true, Deposit, 0, None, Ok(None)),
        ("op", true, Refund, 0, None, Err("TRANSFER_NOT_REFUNDABLE")),
        ("bob", false, Refund, 0, None, Err("TRANSFER_NOT_REFUNDABLE")),
    ] {
        let asking = Asking { user: UserId::parse(user).unwrap(), operates };
        let amount = amount.map(|text: &str| text.parse().unwrap());
        let found = check_refund(&asking, &transfer(kind, refunded), &account(2, "bob", "KRW", 0), amount);
        let found = found.map_err(|rejection| rejection.code.as_str()).map(|movement| {
            assert_eq!((movement.from.number(), movement.to.number()), (2, 1), "the other way");
            movement.amount
        });
        assert_eq!(found, outcome, "{user} {kind:?} {refunded} {amount:?}");
    }
}
