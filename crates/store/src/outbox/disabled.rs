//! Addresses that said that they want nothing more.

use crate::fault::Fault;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;

statements! {
    FIND = "SELECT disabled_at, reason FROM integration.outbox_disabled WHERE address = $1";
    DISABLE = "INSERT INTO integration.outbox_disabled (address, disabled_at, reason) VALUES ($1, $2, $3)
        ON CONFLICT (address) DO NOTHING";
    ENABLE = "DELETE FROM integration.outbox_disabled WHERE address = $1";
}

pub fn find(tx: &mut Tx<'_>, address: &str) -> Result<Option<(Timestamp, String)>, Fault> {
    tx.query_one(&FIND, &[address.into()], |row| Ok((row.timestamp(0)?, row.text(1)?.to_owned())))
}

pub fn disable(tx: &mut Tx<'_>, address: &str, reason: &str) -> Result<(), Fault> {
    tx.execute(&DISABLE, &[address.into(), tx.now().into(), reason.into()]).map(drop)
}

/// Whether it was disabled.
pub fn enable(tx: &mut Tx<'_>, address: &str) -> Result<bool, Fault> {
    Ok(tx.execute(&ENABLE, &[address.into()])? == 1)
}
