//! The schema's history: forward only, applied at start, safe when several processes start at once.

use crate::database::{Database, Engine};
use crate::fault::Fault;
use crate::postgres::{PgConnection, Use};
use crate::sqlite;
use crate::statement::for_sqlite;
use guerdon_core::Timestamp;

struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "house", sql: include_str!("../migrations/0001_house.sql") },
    Migration { version: 2, name: "requests", sql: include_str!("../migrations/0002_requests.sql") },
    Migration {
        version: 3,
        name: "places_in_ids",
        sql: include_str!("../migrations/0003_places_in_ids.sql"),
    },
    Migration { version: 4, name: "draws", sql: include_str!("../migrations/0004_draws.sql") },
    Migration { version: 5, name: "audit_chain", sql: include_str!("../migrations/0005_audit_chain.sql") },
    Migration { version: 6, name: "wallet", sql: include_str!("../migrations/0006_wallet.sql") },
    Migration { version: 7, name: "publishing", sql: include_str!("../migrations/0007_publishing.sql") },
    Migration { version: 8, name: "allocations", sql: include_str!("../migrations/0008_allocations.sql") },
    Migration { version: 9, name: "claims", sql: include_str!("../migrations/0009_claims.sql") },
    Migration { version: 10, name: "coupons", sql: include_str!("../migrations/0010_coupons.sql") },
    Migration {
        version: 11,
        name: "plain_conditions",
        sql: include_str!("../migrations/0011_plain_conditions.sql"),
    },
    Migration { version: 12, name: "traces", sql: include_str!("../migrations/0012_traces.sql") },
    Migration {
        version: 13,
        name: "coupon_holders",
        sql: include_str!("../migrations/0013_coupon_holders.sql"),
    },
];

/// Taken for the time of a migration; any number that no other program would choose.
const ADVISORY_LOCK: i64 = 0x4775_6572_646F_6E01;

/// The version that this binary brings a database to.
pub fn schema_version() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Brings a database up to date that nobody serves; the versions that were applied just now.
pub fn migrate(database: &Database, now: Timestamp) -> Result<Vec<i64>, Fault> {
    let _serving = database.sqlite_path().map(sqlite::ServingLock::take).transpose()?;
    bring_up_to_date(database, now)
}

pub(crate) fn bring_up_to_date(database: &Database, now: Timestamp) -> Result<Vec<i64>, Fault> {
    match database {
        Database::Sqlite(path) => {
            let connection = sqlite::open_writer(path)?;
            let mut schema = Schema::Sqlite(&connection);
            schema.run("BEGIN IMMEDIATE")?;
            let applied = schema.bring_up_to_date(now);
            schema.run(if applied.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
            applied
        }
        Database::Postgres(config) => {
            let mut connection = PgConnection::connect(config, "guerdon-migrate".into(), Use::Migrate)?;
            let mut schema = Schema::Postgres(&mut connection);
            // In one transaction with the lock: a process that dies half-way leaves nothing and holds nothing.
            schema.run(&format!("BEGIN; SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))?;
            let applied = schema.bring_up_to_date(now);
            schema.run(if applied.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
            applied
        }
    }
}

enum Schema<'c> {
    Sqlite(&'c rusqlite::Connection),
    Postgres(&'c mut PgConnection),
}

impl Schema<'_> {
    fn run(&mut self, sql: &str) -> Result<(), Fault> {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).map_err(|error| sqlite::fault(&error)),
            Self::Postgres(connection) => connection.batch(sql),
        }
    }

    fn number(&mut self, sql: &str) -> Result<i64, Fault> {
        match self {
            Self::Sqlite(connection) => {
                connection.query_row(sql, [], |row| row.get(0)).map_err(|error| sqlite::fault(&error))
            }
            Self::Postgres(connection) => {
                connection.value(sql)?.parse().map_err(|_| Fault::inconsistent("the schema's version"))
            }
        }
    }

    fn engine(&self) -> Engine {
        match self {
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Postgres(_) => Engine::Postgres,
        }
    }

    fn bring_up_to_date(&mut self, now: Timestamp) -> Result<Vec<i64>, Fault> {
        let engine = self.engine();
        self.run(&for_engine(
            "CREATE TABLE IF NOT EXISTS schema_migrations (
                version INTEGER NOT NULL PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
            ) STRICT",
            engine,
        ))?;
        let present = self.number("SELECT COALESCE(MAX(version), 0) FROM schema_migrations")?;
        let newest = schema_version();
        if present > newest {
            return Err(Fault::Unavailable(format!(
                "the database is at schema version {present}, and this binary knows only {newest}: \
                 run a newer guerdon (nothing was changed)"
            )));
        }
        let mut applied = Vec::new();
        for migration in MIGRATIONS.iter().filter(|migration| migration.version > present) {
            self.run(&for_engine(migration.sql, engine))?;
            self.run(&format!(
                "INSERT INTO schema_migrations (version, name, applied_at) VALUES ({}, '{}', {})",
                migration.version,
                migration.name,
                now.as_millis()
            ))?;
            applied.push(migration.version);
        }
        Ok(applied)
    }
}

/// Definitions are written once, in SQLite's words; a line behind `-- sqlite:` or `-- postgres:` is for that engine
/// alone. On PostgreSQL text is compared byte by byte, as SQLite does.
pub(crate) fn for_engine(sql: &str, engine: Engine) -> String {
    let own = format!("-- {}:", engine.as_str());
    let mut text = String::with_capacity(sql.len() * 2);
    for line in sql.lines() {
        let (line, shared) = match line.strip_prefix(&own) {
            Some(line) => (line, engine == Engine::Sqlite),
            None if line.trim_start().starts_with("--") => continue,
            None => (line, true),
        };
        let line = match engine {
            Engine::Sqlite => for_sqlite(line),
            Engine::Postgres if shared => line
                .replace(") STRICT, WITHOUT ROWID", ")")
                .replace(") STRICT", ")")
                .replace(" INTEGER", " BIGINT")
                .replace(" BLOB", " BYTEA")
                .replace(" TEXT", " TEXT COLLATE \"C\""),
            Engine::Postgres => line.into(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{MIGRATIONS, for_engine};
    use crate::database::Engine;

    #[test]
    fn versions_count_up_from_one() {
        let versions: Vec<_> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=i64::try_from(MIGRATIONS.len()).unwrap()).collect::<Vec<_>>());
    }

    #[test]
    fn one_text_for_both() {
        let sql = "CREATE TABLE t (\n    a TEXT NOT NULL,\n    b INTEGER\n) STRICT;";
        assert_eq!(for_engine(sql, Engine::Sqlite).trim_end(), sql);
        let postgres = for_engine(sql, Engine::Postgres);
        assert_eq!(postgres, "CREATE TABLE t (\n    a TEXT COLLATE \"C\" NOT NULL,\n    b BIGINT\n);\n");
    }
}
