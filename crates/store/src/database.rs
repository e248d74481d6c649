//! Which database, as the configuration names it.

use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

#[derive(Clone)]
pub enum Database {
    Sqlite(PathBuf),
    Postgres(Box<tokio_postgres::Config>),
}

impl Database {
    /// Reads `sqlite:PATH` or `postgres://…`. An error never repeats the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            if path.is_empty() || path == ":memory:" {
                return Err("needs a file, as in sqlite:guerdon.db: rewards must outlive the process".into());
            }
            if path.starts_with("//") || path.starts_with("file:") {
                return Err(
                    "must be sqlite: and a plain path, as in sqlite:guerdon.db or sqlite:/data/guerdon.db"
                        .into(),
                );
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            let config: tokio_postgres::Config =
                text.parse().map_err(|error| format!("is not a PostgreSQL address: {error}"))?;
            return Ok(Self::Postgres(Box::new(config)));
        }
        Err("must be sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE".into())
    }

    pub const fn engine(&self) -> Engine {
        match self {
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Postgres(_) => Engine::Postgres,
        }
    }

    pub(crate) fn sqlite_path(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }
}

/// Without the password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(config) => {
                write!(f, "postgres database {}", config.get_dbname().unwrap_or("(default)"))
            }
        }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::Database;

    #[test]
    fn addresses() {
        for (text, reads) in [
            ("sqlite:guerdon.db", true),
            ("sqlite:/var/lib/guerdon/store.db", true),
            ("postgres://me:secret@127.0.0.1:5432/guerdon", true),
            ("postgresql://me@host/guerdon", true),
            ("sqlite:", false),
            ("sqlite::memory:", false),
            ("sqlite://guerdon.db", false),
            ("sqlite:file:guerdon.db?mode=memory", false),
            ("mysql://host/db", false),
            ("postgres://me:secret@host:notaport/x", false),
            ("", false),
        ] {
            let parsed = Database::parse(text);
            assert_eq!(parsed.is_ok(), reads, "{text}");
            let shown = parsed.map_or_else(|error| error, |database| format!("{database:?}"));
            assert!(!shown.contains("secret"), "{shown}");
        }
    }
}
