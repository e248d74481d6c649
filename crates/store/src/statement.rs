//! A statement's text: portable, with a second one only where that earns its place.

use crate::database::Engine;
use std::sync::OnceLock;

/// SQL with `$1`, `$2`, … for its parameters. Tables of a PostgreSQL schema are written `core.transfer`; on SQLite the
/// schema is a prefix, `core_transfer`.
#[derive(Debug)]
pub struct Statement {
    portable: &'static str,
    postgres: Option<&'static str>,
    sqlite: OnceLock<String>,
}

/// The schemas that become prefixes on SQLite.
const SCHEMAS: [&str; 2] = ["core", "integration"];

impl Statement {
    pub const fn portable(sql: &'static str) -> Self {
        Self { portable: sql, postgres: None, sqlite: OnceLock::new() }
    }

    pub const fn dialects(sqlite: &'static str, postgres: &'static str) -> Self {
        Self { portable: sqlite, postgres: Some(postgres), sqlite: OnceLock::new() }
    }

    pub fn text(&self, engine: Engine) -> &str {
        match engine {
            Engine::Sqlite => self.sqlite.get_or_init(|| for_sqlite(self.portable)),
            Engine::Postgres => self.postgres.unwrap_or(self.portable),
        }
    }
}

/// SQLite numbers `$1` by first appearance, as it would a name; `?1` is a position.
pub(crate) fn for_sqlite(sql: &str) -> String {
    let mut text = sql.replace('$', "?");
    for schema in SCHEMAS {
        text = text.replace(&format!("{schema}."), &format!("{schema}_"));
    }
    text
}

/// Declares the statements of a part, and the list that the preparation test walks.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $sqlite:expr $(, postgres: $postgres:expr)?;)+) => {
        $($(#[$doc])* static $name: $crate::Statement =
            $crate::statement::statements!(@make $sqlite $(, $postgres)?);)+
        pub(crate) static STATEMENTS: &[&$crate::Statement] = &[$(&$name),+];
    };
    (@make $portable:expr) => { $crate::Statement::portable($portable) };
    (@make $sqlite:expr, $postgres:expr) => { $crate::Statement::dialects($sqlite, $postgres) };
}
pub(crate) use statements;

#[cfg(test)]
mod tests {
    use super::for_sqlite;

    #[test]
    fn placeholders_and_schemas() {
        assert_eq!(for_sqlite("SELECT $2, $1 FROM core.transfer"), "SELECT ?2, ?1 FROM core_transfer");
    }
}
