use super::{Hints, HolderIndex, Run, UserCouponId, run_left, tail};
use crate::coupons::held::{insert, mine};
use crate::database::Engine;
use crate::fault::Fault;
use crate::tx::{Connection, Moment, Tx};
use guerdon_core::coupons::{State, UserCoupon};
use guerdon_core::{CouponId, Timestamp, UserId};
use std::hash::RandomState;

#[test]
fn a_user_may_have_several() {
    let (hasher, id) = (RandomState::new(), |byte: u8| UserCouponId::from_bytes([byte; 16]));
    let mut hints = Hints::default();
    for (user, byte) in [("u-1", 1), ("u-2", 9), ("u-1", 2), ("u-1", 1), ("u-1", 3)] {
        hints.insert(&hasher, user, id(byte));
    }
    assert_eq!(hints.find(&hasher, "u-1").collect::<Vec<_>>(), [id(1), id(2), id(3)]);
    assert_eq!(hints.find(&hasher, "u-2").collect::<Vec<_>>(), [id(9)]);
    assert_eq!(hints.find(&hasher, "u-3").count(), 0);
    assert_eq!(hints.0.len(), 4);
}

/// A database with coupons, and whoever serves it.
struct Served {
    connection: rusqlite::Connection,
    index: HolderIndex,
    given: Vec<(String, UserCouponId)>,
}

impl Served {
    fn start() -> Self {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        for sql in [
            include_str!("../../../migrations/0001_house.sql"),
            include_str!("../../../migrations/0002_requests.sql"),
            include_str!("../../../migrations/0007_publishing.sql"),
            include_str!("../../../migrations/0010_coupons.sql"),
            include_str!("../../../migrations/0013_coupon_holders.sql"),
        ] {
            connection.execute_batch(&crate::migrate::for_engine(sql, Engine::Sqlite)).unwrap();
        }
        let index = HolderIndex::on(Engine::Sqlite);
        let served = Self { connection, index, given: Vec::new() };
        served.commit(|tx| tx.holders().load(tx));
        served
    }

    /// Dies and is started again: what was in memory is gone.
    fn restart(self) -> Self {
        let served = Self { index: HolderIndex::on(Engine::Sqlite), ..self };
        served.commit(|tx| tx.holders().load(tx));
        served
    }

    fn run<T>(&self, end: &str, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Fault>) -> T {
        self.connection.execute_batch("BEGIN").unwrap();
        let done =
            work(&mut Tx::new(Connection::Sqlite(&self.connection), Moment::NONE, &self.index)).unwrap();
        self.connection.execute_batch(end).unwrap();
        done
    }

    fn commit<T>(&self, work: impl FnOnce(&mut Tx<'_>) -> Result<T, Fault>) -> T {
        self.run("COMMIT", work)
    }

    /// Gives coupons to users by number, and remembers those that were committed.
    fn give(&mut self, users: std::ops::Range<usize>, end: &str) {
        let coupon_id = CouponId::parse("ten").unwrap();
        let now = Timestamp::from_millis(1);
        let held: Vec<_> = users
            .map(|number| {
                let mut id = [0; 16];
                id[..8].copy_from_slice(&u64::try_from(self.given.len() + number).unwrap().to_be_bytes());
                id[8..].copy_from_slice(&u64::try_from(number).unwrap().to_be_bytes());
                let pending = UserCoupon {
                    id: UserCouponId::from_bytes(id),
                    coupon_id: coupon_id.clone(),
                    // Not in the order in which they come.
                    user_id: UserId::parse(format!("u-{}", number * 7_919 % 10_007)).unwrap(),
                    key: format!("k-{number}"),
                    version: 0,
                    requested_at: now,
                    state: State::Pending,
                };
                pending.decided(Ok(1), now)
            })
            .collect();
        let written = self.run(end, |tx| insert(tx, &coupon_id, &held));
        assert_eq!(written, u64::try_from(held.len()).unwrap());
        if end == "COMMIT" {
            self.given.extend(held.iter().map(|held| (held.user_id.to_string(), held.id)));
        }
    }

    fn begin_run(&self) -> usize {
        let end = self.commit(|tx| tx.holders().gather(tx));
        let mut run = Run::with_capacity(10);
        for (_, user, id) in self.commit(|tx| tail(tx, 0, end)) {
            run.add(id, &user).unwrap();
        }
        run.sort();
        self.index.begin(run);
        self.index.run_length().unwrap()
    }

    fn end_run(&self) {
        let length = self.index.run_length().unwrap();
        assert_eq!(self.commit(|tx| run_left(tx, length)), 0);
        while !self.commit(|tx| tx.holders().cut(tx)) {}
        self.index.end();
    }

    fn count(&self, table: &str) -> u32 {
        let sql = format!("SELECT COUNT(*) FROM {table}");
        self.connection.query_row(&sql, [], |row| row.get::<_, u32>(0)).unwrap()
    }

    /// Everybody is found with what they have, and nobody with what was undone.
    fn assert_all_found(&self) {
        for (user, _) in &self.given {
            let mut expected: Vec<_> =
                self.given.iter().filter(|(owner, _)| owner == user).map(|(_, id)| *id).collect();
            expected.sort_unstable_by(|a, b| b.cmp(a));
            let user = UserId::parse(user).unwrap();
            let last = UserCouponId::from_bytes([0xff; 16]);
            let found: Vec<_> =
                self.commit(|tx| mine(tx, &user, last, 100)).into_iter().map(|held| held.id).collect();
            assert_eq!(found, expected, "{user}");
        }
    }
}

#[test]
fn everybody_is_found_whatever_is_undone_and_whenever_it_is_killed() {
    let mut served = Served::start();
    served.give(0..300, "COMMIT");
    served.give(300..400, "ROLLBACK");
    served.assert_all_found();

    // A run is carried along, by some who are undone.
    assert_eq!(served.begin_run(), 300);
    served.run("ROLLBACK", |tx| tx.holders().carry(tx, 200));
    served.give(400..450, "COMMIT");
    served.give(450..500, "ROLLBACK");
    let length = served.index.run_length().unwrap();
    let left = served.commit(|tx| run_left(tx, length));
    assert_eq!(left, 250, "only those who were committed carried any of it");
    served.assert_all_found();
    assert_eq!(served.commit(|tx| tx.holders().carry(tx, 1_000)), 0);
    // The same user is given another one meanwhile.
    served.give(0..3, "ROLLBACK");
    served.end_run();
    served.assert_all_found();
    assert_eq!((served.count("user_coupon_holders"), served.count("user_coupon_tail")), (300, 50));

    // Killed in the middle of a run, and before its tail is cut.
    assert_eq!(served.begin_run(), 50);
    served.commit(|tx| tx.holders().carry(tx, 20));
    let mut served = served.restart();
    served.assert_all_found();
    served.give(500..600, "COMMIT");
    assert_eq!(served.begin_run(), 150);
    served.commit(|tx| tx.holders().carry(tx, 1_000));
    let mut served = served.restart();
    served.assert_all_found();
    served.begin_run();
    served.commit(|tx| tx.holders().carry(tx, 1_000));
    served.end_run();
    // With the filter whole, whoever is new is not looked up.
    let page = served.commit(|tx| super::page(tx, ("", &[])));
    served.index.filter_page(&page);
    served.index.filter_page(&[]);
    served.give(600..650, "COMMIT");
    served.assert_all_found();
    assert_eq!(served.count("user_coupon_holders"), 450);
    // The last of the tail stays, so that numbers go on.
    assert_eq!(served.count("user_coupon_tail"), 51);
}

#[test]
fn whoever_only_looks_finds_what_was_given_since() {
    let mut served = Served::start();
    served.give(0..30, "COMMIT");
    // An audit beside the server, with an index of its own.
    let looks = HolderIndex::on(Engine::Sqlite);
    let finds = |served: &Served| {
        let mut tx = Tx::new(Connection::Sqlite(&served.connection), Moment::NONE, &looks);
        served.given.iter().filter(|(user, id)| looks.all_of(&mut tx, user).unwrap().contains(id)).count()
    };
    assert_eq!(finds(&served), 30);
    served.give(30..50, "COMMIT");
    assert_eq!(finds(&served), 30);
    looks.follow(&mut Tx::new(Connection::Sqlite(&served.connection), Moment::NONE, &looks)).unwrap();
    assert_eq!(finds(&served), 50);
    // What left the tail before it was read is in the index.
    served.give(50..80, "COMMIT");
    served.begin_run();
    served.commit(|tx| tx.holders().carry(tx, 1_000));
    served.end_run();
    looks.follow(&mut Tx::new(Connection::Sqlite(&served.connection), Moment::NONE, &looks)).unwrap();
    assert_eq!(finds(&served), 80);
}
