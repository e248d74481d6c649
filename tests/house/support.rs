//! What the tests of this binary share.

use guerdon_harness::api::drop_body;
use guerdon_harness::{Api, Server, ServerOptions, TestDatabase, TestEngine, until};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_guerdon");

pub(crate) fn seconds_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

/// A token with exactly these claims.
pub(crate) fn sign(claims: &Value) -> String {
    sign_with(claims, Algorithm::HS256, guerdon_harness::server::SECRET)
}

pub(crate) fn sign_with(claims: &Value, algorithm: Algorithm, secret: &str) -> String {
    jsonwebtoken::encode(&Header::new(algorithm), claims, &EncodingKey::from_secret(secret.as_bytes()))
        .unwrap()
}

pub(crate) fn token(user: &str, role: &str) -> String {
    sign(&json!({"sub": user, "roles": [role], "exp": seconds_now() + 3_600}))
}

/// One or more servers on one database.
pub(crate) struct Cluster {
    pub(crate) database: TestDatabase,
    pub(crate) servers: Vec<Server>,
}

impl Cluster {
    pub(crate) fn start(engine: TestEngine, servers: usize) -> Self {
        Self::start_with(engine, servers, &[])
    }

    /// The same with settings, by their environment variables.
    pub(crate) fn start_with(engine: TestEngine, servers: usize, settings: &[(&str, &str)]) -> Self {
        let database = TestDatabase::new(engine);
        let mut options = ServerOptions::on(&database.url);
        for (name, value) in settings {
            options = options.with(name, value);
        }
        let servers = (0..servers).map(|_| Server::start(BINARY, &options)).collect();
        Self { database, servers }
    }

    /// An operator at one of the servers.
    pub(crate) fn operator(&self, server: usize) -> Api {
        operator(&self.servers[server % self.servers.len()])
    }

    /// Keeps each server's committer busy with one command while the database holds its writers up; whatever is sent
    /// meanwhile waits, and is committed in one group for each server. The names of the events that this creates.
    pub(crate) fn plug<'scope>(&'scope self, scope: &'scope std::thread::Scope<'scope, '_>) -> Vec<String> {
        let ids: Vec<_> = (0..self.servers.len()).map(|server| format!("plug_{server}")).collect();
        for (server, id) in ids.iter().enumerate() {
            let (api, body) = (self.operator(server), drop_body(id));
            scope.spawn(move || api.post("/v1/admin/events", &body).expect(201));
        }
        for server in &self.servers {
            until("the committer to be held up", Duration::from_secs(2), || {
                (server.api().metric("guerdon_store_running_commands") > 0.5).then_some(())
            });
        }
        ids
    }

    /// Waits until this many commands wait, over all servers.
    pub(crate) fn until_waiting(&self, count: u32) {
        until("the commands to pile up", Duration::from_secs(2), || {
            (self.metric("guerdon_store_waiting_commands") >= f64::from(count)).then_some(())
        });
    }

    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.servers.iter().map(|server| server.api().metric(name)).sum()
    }
}

/// A server on SQLite with settings, by their environment variables.
pub(crate) fn on_sqlite(settings: &[(&str, &str)]) -> (TestDatabase, Server) {
    let Cluster { database, mut servers } = Cluster::start_with(TestEngine::Sqlite, 1, settings);
    (database, servers.remove(0))
}

/// Declares each test for the same setups, with the engine and the number of servers, for those that start them as they
/// need them.
macro_rules! for_every_setup {
    ($($name:ident)+) => {
        mod sqlite_alone {
            $(#[test] fn $name() { super::$name(guerdon_harness::TestEngine::Sqlite, 1); })+
        }
        mod postgres_alone {
            $(#[test] fn $name() { super::$name(guerdon_harness::TestEngine::Postgres, 1); })+
        }
        mod postgres_shared {
            $(#[test] fn $name() { super::$name(guerdon_harness::TestEngine::Postgres, 2); })+
        }
    };
}
pub(crate) use for_every_setup;

/// Runs calls at once, each on a thread of its own; their results in order.
pub(crate) fn at_once<T: Send>(count: usize, call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let call = &call;
        let calls: Vec<_> = (0..count).map(|number| scope.spawn(move || call(number))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

pub(crate) fn operator(server: &Server) -> Api {
    server.api().with_token(&token("op", "OPERATOR"))
}

/// Somebody by number, at a server.
pub(crate) fn as_user(server: &Server, number: usize) -> Api {
    server.api().with_token(&token(&format!("u-{number}"), "USER"))
}

/// A first-come event with this many places, open, with a reward of limited stock.
pub(crate) fn open_drop(api: &Api, id: &str, capacity: i64) {
    let mut body = drop_body(id);
    body["capacityTotal"] = json!(capacity);
    body["rewards"][1]["totalStock"] = json!(capacity);
    api.post("/v1/admin/events", &body).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

/// Declares each test for SQLite, for PostgreSQL, and for two servers on one PostgreSQL.
macro_rules! on_every_setup {
    ($($name:ident)+) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name(&crate::support::Cluster::start(guerdon_harness::TestEngine::Sqlite, 1)); })+
        }
        mod postgres {
            $(#[test] fn $name() { super::$name(&crate::support::Cluster::start(guerdon_harness::TestEngine::Postgres, 1)); })+
        }
        mod two_servers_on_postgres {
            $(#[test] fn $name() { super::$name(&crate::support::Cluster::start(guerdon_harness::TestEngine::Postgres, 2)); })+
        }
    };
}
pub(crate) use on_every_setup;
