//! The database's clock, asked so that processes can agree. Nothing else asks a database what time it is.

use crate::fault::Fault;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;

statements! {
    NOW = "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        postgres: "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)";
}

pub fn now(tx: &mut Tx<'_>) -> Result<Timestamp, Fault> {
    tx.query_one(&NOW, &[], |row| row.timestamp(0))?.ok_or_else(|| Fault::inconsistent("no time"))
}
