//! A database for one test, gone when the test is.

use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestEngine {
    Sqlite,
    Postgres,
}

pub struct TestDatabase {
    pub engine: TestEngine,
    pub url: String,
    keep: Keep,
}

enum Keep {
    Folder { _path: TempDir },
    Database { admin_url: String, name: String },
}

/// Where the tests' PostgreSQL is. There is no way around it: a test that needs it fails without it.
pub fn postgres_url() -> String {
    std::env::var("TEST_POSTGRES_URL").unwrap_or_else(|_| {
        panic!(
            "TEST_POSTGRES_URL is not set: this test needs a PostgreSQL. ./scripts/test starts one; \
             ./scripts/test quick leaves these tests out"
        )
    })
}

impl TestDatabase {
    pub fn new(engine: TestEngine) -> Self {
        match engine {
            TestEngine::Sqlite => {
                let folder = tempfile::tempdir().expect("a folder for the test");
                let url = format!("sqlite:{}", folder.path().join("guerdon.db").display());
                Self { engine, url, keep: Keep::Folder { _path: folder } }
            }
            TestEngine::Postgres => Self::on_postgres(&postgres_url()),
        }
    }

    /// A new database on the server that `admin_url` leads to.
    pub fn on_postgres(admin_url: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        let mut admin = connect(admin_url);
        admin
            .batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"))
            .expect("drop a leftover");
        admin.batch_execute(&format!("CREATE DATABASE {name}")).expect("create the test's database");
        let (server, _) = admin_url.rsplit_once('/').expect("an address with a database");
        let url = format!("{server}/{name}");
        let keep = Keep::Database { admin_url: admin_url.into(), name };
        Self { engine: TestEngine::Postgres, url, keep }
    }

    /// The same once more, to be broken; nobody may be connected to the first.
    pub fn copy(&self) -> Self {
        match &self.keep {
            Keep::Folder { .. } => {
                let copy = Self::new(TestEngine::Sqlite);
                self.sql().run(&format!("VACUUM INTO '{}'", copy.path()));
                copy
            }
            Keep::Database { admin_url, name } => {
                let copy = Self::on_postgres(admin_url);
                let Keep::Database { name: copy_name, .. } = &copy.keep else { unreachable!("just made") };
                let mut admin = connect(admin_url);
                for sql in [
                    format!("DROP DATABASE {copy_name}"),
                    format!("CREATE DATABASE {copy_name} TEMPLATE {name}"),
                ] {
                    admin.batch_execute(&sql).expect(&sql);
                }
                copy
            }
        }
    }

    /// The file, on SQLite.
    pub fn path(&self) -> &str {
        self.url.strip_prefix("sqlite:").expect("a SQLite database")
    }

    /// A connection past the product, to look and to break.
    pub fn sql(&self) -> Sql {
        match self.engine {
            TestEngine::Sqlite => {
                let connection = rusqlite::Connection::open(self.path()).expect("open the test's file");
                connection.busy_timeout(std::time::Duration::from_secs(10)).expect("set the timeout");
                Sql::Sqlite(connection)
            }
            TestEngine::Postgres => Sql::Postgres(Box::new(connect(&self.url))),
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Keep::Database { admin_url, name } = &self.keep
            && let Ok(mut admin) = postgres::Client::connect(admin_url, postgres::NoTls)
        {
            let _ = admin.batch_execute(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        }
    }
}

pub fn connect(url: &str) -> postgres::Client {
    postgres::Client::connect(url, postgres::NoTls)
        .unwrap_or_else(|error| panic!("PostgreSQL at {url}: {error}"))
}

pub enum Sql {
    Sqlite(rusqlite::Connection),
    Postgres(Box<postgres::Client>),
}

impl Sql {
    pub fn run(&mut self, sql: &str) {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql).expect(sql),
            Self::Postgres(client) => client.batch_execute(sql).expect(sql),
        }
    }

    pub fn number(&mut self, sql: &str) -> i64 {
        match self {
            Self::Sqlite(connection) => connection.query_row(sql, [], |row| row.get(0)).expect(sql),
            Self::Postgres(client) => client.query_one(sql, &[]).expect(sql).get(0),
        }
    }

    pub fn texts(&mut self, sql: &str) -> Vec<String> {
        match self {
            Self::Sqlite(connection) => {
                let mut prepared = connection.prepare(sql).expect(sql);
                let rows = prepared.query_map([], |row| row.get(0)).expect(sql);
                rows.map(|row| row.expect(sql)).collect()
            }
            Self::Postgres(client) => {
                client.query(sql, &[]).expect(sql).iter().map(|row| row.get(0)).collect()
            }
        }
    }

    /// Makes the database refuse an event with this id, as a broken constraint would.
    pub fn poison_event(&mut self, event_id: &str) {
        match self {
            Self::Sqlite(_) => self.run(&format!(
                "CREATE TRIGGER poison BEFORE INSERT ON events WHEN NEW.event_id = '{event_id}'
                 BEGIN SELECT RAISE(ABORT, 'poison'); END"
            )),
            Self::Postgres(_) => self.run(&format!(
                "CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'poison'; END $$;
                 CREATE TRIGGER poison BEFORE INSERT ON events FOR EACH ROW
                 WHEN (NEW.event_id = '{event_id}') EXECUTE FUNCTION poison()"
            )),
        }
    }

    /// A table of a schema, as this engine names it.
    pub fn table(&self, name: &str) -> String {
        match self {
            Self::Sqlite(_) => name.replace('.', "_"),
            Self::Postgres(_) => name.into(),
        }
    }

    /// Makes the database refuse every new row of a table, until [`Sql::allow_rows`].
    pub fn refuse_rows(&mut self, table: &str) {
        let table = self.table(table);
        match self {
            Self::Sqlite(_) => self.run(&format!(
                "CREATE TRIGGER refuse BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )),
            Self::Postgres(_) => self.run(&format!(
                "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
                 CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
            )),
        }
    }

    /// Makes the database refuse every change of a table's rows, until [`Sql::allow_rows`].
    pub fn refuse_changes(&mut self, table: &str) {
        let table = self.table(table);
        match self {
            Self::Sqlite(_) => self.run(&format!(
                "CREATE TRIGGER refuse BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'refused'); END"
            )),
            Self::Postgres(_) => self.run(&format!(
                "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
                 CREATE TRIGGER refuse BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
            )),
        }
    }

    pub fn allow_rows(&mut self, table: &str) {
        let table = self.table(table);
        match self {
            Self::Sqlite(_) => self.run("DROP TRIGGER refuse"),
            Self::Postgres(_) => self.run(&format!("DROP TRIGGER refuse ON {table}")),
        }
    }

    /// Holds every writer up until `release`.
    pub fn hold_writers(&mut self) {
        match self {
            Self::Sqlite(_) => self.run("BEGIN IMMEDIATE"),
            Self::Postgres(_) => self.run("BEGIN; LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE"),
        }
    }

    pub fn release(&mut self) {
        self.run("ROLLBACK");
    }
}
