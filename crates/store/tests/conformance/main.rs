//! One suite for every engine: each test below runs on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    reason = "literals read best where they are used"
)]
#![allow(unreachable_pub, reason = "nothing here is reached from outside")]

mod committing;
mod fixture;
mod migrations;
mod parts;
mod two_processes;

/// Declares each test once for each engine. An engine that is not there fails; it does not skip.
macro_rules! on_every_engine {
    ($($name:ident)+) => {
        mod sqlite {
            $(#[test] fn $name() { super::$name(&crate::fixture::Fixture::new(guerdon_harness::TestEngine::Sqlite)); })+
        }
        mod postgres {
            $(#[test] fn $name() { super::$name(&crate::fixture::Fixture::new(guerdon_harness::TestEngine::Postgres)); })+
        }
    };
}
pub(crate) use on_every_engine;
