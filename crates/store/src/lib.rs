//! The system of record: one [`Tx`] over SQLite and PostgreSQL, written by group commit.
//!
//! Everything here is synchronous. A [`Command`] is handed to the committer, which owns the only write connection of
//! this process; a read runs on one of a few reader threads. Nothing else opens a transaction.

pub mod activity;
pub mod allocations;
pub mod audit;
pub mod audit_log;
pub mod claims;
pub mod clock;
pub mod coupons;
pub mod draws;
pub mod entries;
pub mod events;
pub mod idempotency;
pub mod outbox;
pub mod pace;
pub mod requests;
pub mod users;
pub mod wallet;

mod bell;
mod commit;
mod database;
mod deferred;
mod fault;
mod lanes;
mod listed;
mod metrics;
mod migrate;
mod param;
mod postgres;
mod readers;
mod reading;
mod sqlite;
mod statement;
mod stopwatch;
mod store;
mod tx;

pub use bell::ring_others;
pub use database::{Database, Engine};
pub use deferred::Run;
pub use fault::Fault;
pub use lanes::{Command, Intake, Pending, Priority, Silence, each};
pub use listed::{LOOKED_THROUGH_MAX, Listed};
pub use metrics::StoreMetrics;
pub use migrate::{migrate, schema_version};
pub use param::{Param, Row};
pub use reading::Reading;
pub use statement::Statement;
pub use stopwatch::Stopwatch;
pub use store::{Health, Store, StoreOptions};
pub use tx::Tx;

/// Every statement of the product, for the test that prepares each of them on each engine.
pub fn statements(engine: Engine) -> Vec<&'static Statement> {
    let mut all = [
        allocations::STATEMENTS,
        allocations::listing::STATEMENTS,
        allocations::moving::STATEMENTS,
        allocations::retries::STATEMENTS,
        audit::STATEMENTS,
        audit::claims::STATEMENTS,
        audit::coupons::STATEMENTS,
        audit::entries::STATEMENTS,
        audit::wallet::STATEMENTS,
        audit_log::STATEMENTS,
        activity::STATEMENTS,
        claims::STATEMENTS,
        claims::listing::STATEMENTS,
        claims::stock::STATEMENTS,
        clock::STATEMENTS,
        coupons::STATEMENTS,
        coupons::counting::STATEMENTS,
        coupons::held::STATEMENTS,
        coupons::queue::STATEMENTS,
        draws::STATEMENTS,
        entries::STATEMENTS,
        events::STATEMENTS,
        idempotency::STATEMENTS,
        bell::STATEMENTS,
        outbox::STATEMENTS,
        outbox::disabled::STATEMENTS,
        outbox::listing::STATEMENTS,
        outbox::processed::STATEMENTS,
        outbox::publishing::STATEMENTS,
        outbox::shards::STATEMENTS,
        outbox::told::STATEMENTS,
        pace::STATEMENTS,
        requests::STATEMENTS,
        requests::sweeping::STATEMENTS,
        users::STATEMENTS,
        wallet::accounts::STATEMENTS,
        wallet::ledger::STATEMENTS,
        wallet::transfers::STATEMENTS,
    ]
    .concat();
    match engine {
        Engine::Sqlite => {
            all.extend(
                [
                    requests::user_index::STATEMENTS,
                    audit::user_index::STATEMENTS,
                    coupons::holders::STATEMENTS,
                ]
                .concat(),
            );
        }
        Engine::Postgres => {
            all.extend([audit::postgres::STATEMENTS, wallet::at_once::STATEMENTS].concat());
        }
    }
    all
}
