//! One suite for every engine: each test below runs on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test may look at the clock to give up in time")]

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
