//! Coupons: whoever counts them, there are never more than there are, and never more for one than one may have.

mod calls;
mod holders;
mod load;
mod loss;
mod recovery;
mod rewards;

use crate::support::{BINARY, as_user, operator};
use guerdon_harness::api::Answer;
use guerdon_harness::{
    Api, Keeps, OwnRedis, OwnRedisCluster, Server, ServerOptions, TestDatabase, TestEngine, until,
};
use serde_json::{Value, json};
use std::process::Command;
use std::time::Duration;

pub(super) const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Issuer {
    Store,
    Outbox,
    Stream,
}

impl Issuer {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Outbox => "redis-outbox",
            Self::Stream => "redis-stream",
        }
    }
}

/// Who counts, if it is not the store.
pub(super) enum Counter {
    Nobody,
    One(OwnRedis),
    Cluster(OwnRedisCluster),
}

/// Servers that issue coupons.
pub(super) struct Stage {
    pub(super) issuer: Issuer,
    pub(super) database: TestDatabase,
    pub(super) counter: Counter,
    pub(super) url: String,
    pub(super) servers: Vec<Server>,
}

impl Stage {
    pub(super) fn set(issuer: Issuer, engine: TestEngine, count: usize) -> Self {
        let counter = match issuer {
            Issuer::Store => Counter::Nobody,
            _ => Counter::One(OwnRedis::start(Keeps::Everything)),
        };
        Self::set_with(issuer, engine, count, counter)
    }

    pub(super) fn set_with(issuer: Issuer, engine: TestEngine, count: usize, counter: Counter) -> Self {
        let mut stage = Self::empty(issuer, engine, counter);
        for _ in 0..count {
            stage.start(&[]);
        }
        stage
    }

    /// Without a server yet.
    pub(super) fn empty(issuer: Issuer, engine: TestEngine, counter: Counter) -> Self {
        let url = match &counter {
            Counter::Nobody => String::new(),
            Counter::One(redis) => redis.url(),
            Counter::Cluster(cluster) => cluster.url(),
        };
        let database = TestDatabase::new(engine);
        Self { issuer, database, counter, url, servers: Vec::new() }
    }

    /// Starts one more server, with settings of its own.
    pub(super) fn start(&mut self, more: &[(&str, &str)]) {
        let server = Server::start(BINARY, &self.options(more));
        self.servers.push(server);
    }

    pub(super) fn options(&self, more: &[(&str, &str)]) -> ServerOptions {
        let mut options = ServerOptions::on(&self.database.url)
            .with("GUERDON_COUPONS__ISSUER", self.issuer.name())
            .with("GUERDON_COUPONS__LEASE", "1s");
        if self.issuer != Issuer::Store {
            options = options.with("GUERDON_REDIS__URL", &self.url);
        }
        more.iter().fold(options, |options, (name, value)| options.with(name, value))
    }

    pub(super) fn redis(&mut self) -> &mut OwnRedis {
        match &mut self.counter {
            Counter::One(redis) => redis,
            _ => panic!("there is no such Redis"),
        }
    }

    pub(super) fn operator(&self) -> Api {
        operator(&self.servers[0])
    }

    pub(super) fn user(&self, number: usize) -> Api {
        as_user(&self.servers[number % self.servers.len()], number)
    }

    pub(super) fn make(&self, id: &str, total: i64, fields: Value) {
        let mut body = json!({"couponId": id, "name": "Ten off", "totalQuantity": total});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        self.operator().post("/v1/admin/coupons", &body).expect(201);
    }

    /// How many are issued, by the count and by the rows, which have to agree.
    pub(super) fn issued(&self, id: &str) -> i64 {
        let mut sql = self.database.sql();
        let issued = sql.number(&format!("SELECT issued FROM coupon_count WHERE coupon_id = '{id}'"));
        let held = format!(
            "SELECT COUNT(*) FROM user_coupon WHERE coupon_id = '{id}' AND status IN ('CONFIRMED', 'USED', 'EXPIRED')"
        );
        assert_eq!(sql.number(&held), issued);
        issued
    }

    pub(super) fn standing(&self, id: &str, status: &str) -> i64 {
        let sql =
            format!("SELECT COUNT(*) FROM user_coupon WHERE coupon_id = '{id}' AND status = '{status}'");
        self.database.sql().number(&sql)
    }

    /// Waits until nothing is pending, in the store or in Redis.
    pub(super) fn until_decided(&self, id: &str) {
        until("every issue to be decided", PATIENCE, || (self.standing(id, "PENDING") == 0).then_some(()));
        let length = match &self.counter {
            Counter::Nobody => return,
            Counter::One(redis) => redis.command(&["XLEN", &format!("issue:{{{id}}}")]),
            Counter::Cluster(cluster) => cluster.command(&["XLEN", &format!("issue:{{{id}}}")]),
        };
        if length != "0" {
            until("the stream to be empty", PATIENCE, || {
                let length = match &self.counter {
                    Counter::One(redis) => redis.command(&["XLEN", &format!("issue:{{{id}}}")]),
                    Counter::Cluster(cluster) => cluster.command(&["XLEN", &format!("issue:{{{id}}}")]),
                    Counter::Nobody => String::from("0"),
                };
                (length == "0").then_some(())
            });
        }
    }

    /// `guerdon coupons reconcile`: its exit code, and what it says.
    pub(super) fn reconcile(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = Command::new(BINARY)
            .args(["coupons", "reconcile"])
            .args(arguments)
            .env("GUERDON_DATABASE", &self.database.url)
            .env("GUERDON_REDIS__URL", &self.url)
            .output()
            .unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code(), said)
    }

    /// Redis and the store agree, the audit is clean, and the metric says so too.
    pub(super) fn assert_clean(self) {
        if self.issuer != Issuer::Store {
            until("Redis and the store to agree", PATIENCE, || {
                let (code, said) = self.reconcile(&["--dry-run", "--json"]);
                let lines: Value = serde_json::from_str(&said).ok()?;
                let settled = lines.as_array()?.iter().all(|line| line["underWay"] == 0);
                (code == Some(0) && settled).then_some(())
            });
            let drift =
                || self.servers.iter().map(|server| server.api().metric("guerdon_coupon_drift")).sum::<f64>();
            until("the metric to say so", PATIENCE, || (drift() < 0.5).then_some(()));
        }
        for server in self.servers {
            server.stop();
        }
        crate::audit::assert_clean(&self.database);
    }
}

/// Asks for a coupon.
pub(crate) fn issue(api: &Api, coupon: &str, key: &str, headers: &[(&str, &str)]) -> Answer {
    try_issue(api, coupon, key, headers).unwrap_or_else(|error| panic!("no answer: {error}"))
}

pub(super) fn try_issue(
    api: &Api,
    coupon: &str,
    key: &str,
    headers: &[(&str, &str)],
) -> Result<Answer, String> {
    let mut all = vec![("Idempotency-Key", key)];
    all.extend(headers);
    api.try_send("POST", &format!("/v1/coupons/{coupon}/issue"), &all, None)
}

/// Asks, and waits for the decision.
pub(super) fn issue_now(api: &Api, coupon: &str, key: &str) -> Answer {
    issue(api, coupon, key, &[("Prefer", "wait=20")])
}

pub(super) fn id_of(answer: &Answer) -> String {
    answer.json()["userCouponId"].as_str().unwrap_or_else(|| panic!("{}", answer.text)).to_owned()
}

/// Declares each test for every issuer, on both engines, with two servers, and on a cluster of Redis.
macro_rules! for_every_issuer {
    ($($name:ident)+) => {
        mod store_sqlite {
            $(#[test] fn $name() { super::$name(crate::coupons::Stage::set(crate::coupons::Issuer::Store, guerdon_harness::TestEngine::Sqlite, 1)); })+
        }
        mod store_postgres {
            $(#[test] fn $name() { super::$name(crate::coupons::Stage::set(crate::coupons::Issuer::Store, guerdon_harness::TestEngine::Postgres, 2)); })+
        }
        mod redis_outbox_sqlite {
            $(#[test] fn $name() { super::$name(crate::coupons::Stage::set(crate::coupons::Issuer::Outbox, guerdon_harness::TestEngine::Sqlite, 1)); })+
        }
        mod redis_outbox_postgres {
            $(#[test] fn $name() { super::$name(crate::coupons::Stage::set(crate::coupons::Issuer::Outbox, guerdon_harness::TestEngine::Postgres, 2)); })+
        }
        mod redis_stream_sqlite {
            $(#[test] fn $name() { super::$name(crate::coupons::Stage::set(crate::coupons::Issuer::Stream, guerdon_harness::TestEngine::Sqlite, 1)); })+
        }
        mod redis_stream_postgres {
            $(#[test] fn $name() { super::$name(crate::coupons::Stage::set(crate::coupons::Issuer::Stream, guerdon_harness::TestEngine::Postgres, 2)); })+
        }
        mod redis_cluster {
            $(#[test] fn $name() {
                for issuer in [crate::coupons::Issuer::Outbox, crate::coupons::Issuer::Stream] {
                    let cluster = crate::coupons::Counter::Cluster(guerdon_harness::OwnRedisCluster::start());
                    super::$name(crate::coupons::Stage::set_with(issuer, guerdon_harness::TestEngine::Sqlite, 1, cluster));
                }
            })+
        }
    };
}
pub(super) use for_every_issuer;
