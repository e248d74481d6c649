//! Values on their way into a statement, and rows on their way out.

use crate::fault::Fault;
use guerdon_core::Timestamp;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// A parameter. The stored types are text, 64-bit integer and blob; lists exist on PostgreSQL alone, for `unnest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Blob(&'a [u8]),
    Ints(&'a [i64]),
    Texts(&'a [&'a str]),
    Blobs(&'a [&'a [u8]]),
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Timestamp> for Param<'_> {
    fn from(value: Timestamp) -> Self {
        Self::Int(value.as_millis())
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a String> for Param<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Blob(value)
    }
}

impl<'a, T: Into<Param<'a>>> From<Option<T>> for Param<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl rusqlite::ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        use rusqlite::types::{ToSqlOutput, ValueRef};
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
            Self::Ints(_) | Self::Texts(_) | Self::Blobs(_) => {
                return Err(rusqlite::Error::ToSqlConversionFailure("SQLite has no lists".into()));
            }
        }))
    }
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql_checked(ty, out),
            Self::Text(text) => text.to_sql_checked(ty, out),
            Self::Blob(bytes) => bytes.to_sql_checked(ty, out),
            Self::Ints(list) => list.to_sql_checked(ty, out),
            Self::Texts(list) => list.to_sql_checked(ty, out),
            Self::Blobs(list) => list.to_sql_checked(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// One row of a result. Columns are read by position.
#[derive(Debug)]
pub struct Row<'r>(pub(crate) Columns<'r>);

#[derive(Debug)]
pub(crate) enum Columns<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    pub fn int(&self, column: usize) -> Result<i64, Fault> {
        self.optional_int(column)?.ok_or_else(|| null(column))
    }

    pub fn optional_int(&self, column: usize) -> Result<Option<i64>, Fault> {
        match &self.0 {
            Columns::Sqlite(row) => row.get(column).map_err(|error| unreadable(column, &error)),
            Columns::Postgres(row) => row.try_get(column).map_err(|error| unreadable(column, &error)),
        }
    }

    /// An id of 16 bytes.
    pub fn uuid(&self, column: usize) -> Result<[u8; 16], Fault> {
        self.blob(column)?.try_into().map_err(|_| Fault::inconsistent("an id of the wrong length"))
    }

    pub fn text(&self, column: usize) -> Result<&str, Fault> {
        self.optional_text(column)?.ok_or_else(|| null(column))
    }

    pub fn optional_text(&self, column: usize) -> Result<Option<&str>, Fault> {
        match &self.0 {
            Columns::Sqlite(row) => {
                let value = row.get_ref(column).map_err(|error| unreadable(column, &error))?;
                value.as_str_or_null().map_err(|error| unreadable(column, &error))
            }
            Columns::Postgres(row) => row.try_get(column).map_err(|error| unreadable(column, &error)),
        }
    }

    pub fn blob(&self, column: usize) -> Result<&[u8], Fault> {
        match &self.0 {
            Columns::Sqlite(row) => {
                let value = row.get_ref(column).map_err(|error| unreadable(column, &error))?;
                value.as_blob().map_err(|error| unreadable(column, &error))
            }
            Columns::Postgres(row) => row.try_get(column).map_err(|error| unreadable(column, &error)),
        }
    }

    pub fn optional_blob(&self, column: usize) -> Result<Option<&[u8]>, Fault> {
        match &self.0 {
            Columns::Sqlite(row) => {
                let value = row.get_ref(column).map_err(|error| unreadable(column, &error))?;
                value.as_blob_or_null().map_err(|error| unreadable(column, &error))
            }
            Columns::Postgres(row) => row.try_get(column).map_err(|error| unreadable(column, &error)),
        }
    }

    pub fn timestamp(&self, column: usize) -> Result<Timestamp, Fault> {
        self.int(column).map(Timestamp::from_millis)
    }

    pub fn optional_timestamp(&self, column: usize) -> Result<Option<Timestamp>, Fault> {
        Ok(self.optional_int(column)?.map(Timestamp::from_millis))
    }
}

fn null(column: usize) -> Fault {
    Fault::inconsistent(format!("column {column} is null"))
}

fn unreadable(column: usize, error: &dyn std::fmt::Display) -> Fault {
    Fault::inconsistent(format!("column {column}: {error}"))
}
