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
    sqlite_rows: OnceLock<Option<String>>,
}

/// The schemas that become prefixes on SQLite.
const SCHEMAS: [&str; 2] = ["core", "integration"];

impl Statement {
    pub const fn portable(sql: &'static str) -> Self {
        Self { portable: sql, postgres: None, sqlite: OnceLock::new(), sqlite_rows: OnceLock::new() }
    }

    pub const fn dialects(sqlite: &'static str, postgres: &'static str) -> Self {
        Self {
            portable: sqlite,
            postgres: Some(postgres),
            sqlite: OnceLock::new(),
            sqlite_rows: OnceLock::new(),
        }
    }

    pub fn text(&self, engine: Engine) -> &str {
        match engine {
            Engine::Sqlite => self.sqlite.get_or_init(|| for_sqlite(self.portable)),
            Engine::Postgres => self.postgres.unwrap_or(self.portable),
        }
    }

    /// For SQLite: the same for [`ROWS`] rows, if it inserts the values of one.
    pub(crate) fn for_rows(&self) -> Option<&str> {
        let text = self.sqlite_rows.get_or_init(|| for_rows(self.text(Engine::Sqlite)));
        text.as_deref()
    }
}

/// Rows that one statement inserts on SQLite where there are many: it opens the table and each of its indexes, whatever it
/// finds to do there.
pub(crate) const ROWS: usize = 8;

/// A failure undoes the whole group, so none of its statements has to be able to undo itself: hence `OR FAIL`.
fn for_rows(sql: &str) -> Option<String> {
    let (table, rest) = sql.strip_prefix("INSERT INTO ")?.split_once("VALUES (")?;
    let mut open = 1;
    let end = rest.find(|letter| {
        open += i32::from(letter == '(') - i32::from(letter == ')');
        open == 0
    })?;
    let (values, then) = (&rest[..end], &rest[end + 1..]);
    let numbers =
        values.split('?').skip(1).map(|part| part.split(|letter: char| !letter.is_ascii_digit()).next());
    let params = numbers.map(|number| number?.parse::<usize>().ok()).max()??;
    if then.contains('?') {
        return None;
    }
    let renumbered = |nth: usize, part: &str| {
        let text = part.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let number = part[..part.len() - text.len()].parse::<usize>().unwrap_or_default();
        format!("?{}{text}", number + nth * params)
    };
    let (first, others) = values.split_once('?')?;
    let row = |nth: usize| {
        let others: String = others.split('?').map(|part| renumbered(nth, part)).collect();
        format!("({first}{others})")
    };
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    Some(format!("INSERT OR FAIL INTO {table}VALUES {}{then}", rows.join(", ")))
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
    use super::{ROWS, for_rows, for_sqlite};

    #[test]
    fn placeholders_and_schemas() {
        assert_eq!(for_sqlite("SELECT $2, $1 FROM core.transfer"), "SELECT ?2, ?1 FROM core_transfer");
    }
    #[test]
    fn an_insert_of_one_row_becomes_one_of_several() {
        let many =
            for_rows("INSERT INTO t (a, b) VALUES (?2, NULLIF(?1, '')) ON CONFLICT DO NOTHING").unwrap();
        assert!(
            many.starts_with(
                "INSERT OR FAIL INTO t (a, b) VALUES (?2, NULLIF(?1, '')), (?4, NULLIF(?3, '')), "
            )
        );
        assert!(many.ends_with(&format!(
            "(?{}, NULLIF(?{}, '')) ON CONFLICT DO NOTHING",
            2 * ROWS,
            2 * ROWS - 1
        )));
        for other in [
            "UPDATE t SET a = ?1",
            "INSERT INTO t (a) SELECT a FROM u WHERE b = ?1",
            "INSERT INTO t (a) VALUES (?1) ON CONFLICT (a) DO UPDATE SET b = ?2",
            "INSERT INTO t (a) VALUES (1)",
        ] {
            assert_eq!(for_rows(other), None, "{other}");
        }
    }
}
