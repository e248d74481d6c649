//! Transfers, as they were made.

use crate::database::Engine;
use crate::fault::Fault;
use crate::outbox::{self, OutboxEvent, Publishing};
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use crate::wallet::{accounts, at_once};
use guerdon_core::wallet::{AccountId, Books, Entry, Posted, Transfer, TransferId, TransferKind};
use guerdon_core::{IdempotencyKey, UserId};
use std::collections::BTreeSet;

macro_rules! transfer_columns {
    () => {
        "transfer_id, kind, from_account_id, from_slot, from_number, from_balance, to_account_id, to_slot, to_number,
        to_balance, amount, refunded, refund_of, client_id, idempotency_key, created_at"
    };
}

statements! {
    INSERT = concat!("INSERT INTO core.transfer (", transfer_columns!(), ", status)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13, $14, $15, 'SUCCEEDED')");
    OWE_ENTRIES = "INSERT INTO core.ledger_backlog (transfer_id, created_at) VALUES ($1, $2)";
    FIND = concat!("SELECT ", transfer_columns!(), " FROM core.transfer WHERE transfer_id = $1");
    LOCK = concat!("SELECT ", transfer_columns!(), " FROM core.transfer WHERE transfer_id = $1"),
        postgres: concat!("SELECT ", transfer_columns!(), " FROM core.transfer WHERE transfer_id = $1 FOR UPDATE");
    REFUND = "UPDATE core.transfer SET refunded = refunded + $2 WHERE transfer_id = $1 AND refunded + $2 <= amount";
}

pub fn find(tx: &mut Tx<'_>, id: TransferId) -> Result<Option<Transfer>, Fault> {
    tx.query_one(&FIND, &[Param::Blob(id.as_bytes())], transfer)
}

/// Holds a transfer until the transaction ends; several are held in the order of their ids.
pub fn lock(tx: &mut Tx<'_>, id: TransferId) -> Result<Option<Transfer>, Fault> {
    tx.query_one(&LOCK, &[Param::Blob(id.as_bytes())], transfer)
}

/// Notes that so much of a transfer was given back; false when that is more than what was left.
pub fn refund(tx: &mut Tx<'_>, id: TransferId, amount: i64) -> Result<bool, Fault> {
    Ok(tx.execute(&REFUND, &[Param::Blob(id.as_bytes()), amount.into()])? == 1)
}

/// A transfer that was just made, and what others are told of it.
#[derive(Clone, Debug)]
pub struct Made {
    pub transfer: Transfer,
    pub payload: String,
}

/// Writes what a transaction has made of its movements: the accounts that it holds, the transfers, what the ledger owes
/// them, and the messages for others.
pub fn write(tx: &mut Tx<'_>, books: &Books, made: &[Made], publishing: Publishing) -> Result<(), Fault> {
    if made.is_empty() {
        return Ok(());
    }
    if tx.engine() == Engine::Postgres {
        return at_once::write(tx, books, made, publishing);
    }
    accounts::write(tx, books)?;
    let rows = made.iter().map(|Made { transfer, .. }| -> [Param<'_>; 15] {
        let Posted { from, to, amount, at } = transfer.posted;
        [
            Param::Blob(transfer.id.as_bytes()),
            transfer.kind.as_str().into(),
            from.account.number().into(),
            from.slot.into(),
            from.number.into(),
            from.balance.into(),
            to.account.number().into(),
            to.slot.into(),
            to.number.into(),
            to.balance.into(),
            amount.into(),
            transfer.refund_of.as_ref().map_or(Param::Null, |id| Param::Blob(id.as_bytes())),
            transfer.client.as_str().into(),
            transfer.key.as_str().into(),
            at.into(),
        ]
    });
    tx.execute_rows(&INSERT, rows)?;
    let owed = made
        .iter()
        .map(|Made { transfer, .. }| [Param::Blob(transfer.id.as_bytes()), transfer.posted.at.into()]);
    tx.execute_rows(&OWE_ENTRIES, owed)?;
    let created_at = tx.now();
    for event_type in TransferKind::ALL.iter().map(|kind| kind.message()).collect::<BTreeSet<_>>() {
        let of_type = made.iter().filter(|made| made.transfer.kind.message() == event_type);
        let events: Vec<_> = of_type
            .map(|Made { transfer, payload }| OutboxEvent {
                id: transfer.id.message_id(),
                sequence: 1,
                aggregate_id: transfer.id.to_string(),
                payload: payload.clone(),
            })
            .collect();
        let batch = outbox::Batch { aggregate_type: "TRANSFER", event_type, created_at, publishing };
        outbox::append(tx, batch, &events)?;
    }
    Ok(())
}

pub(super) fn id(row: &Row<'_>, column: usize) -> Result<TransferId, Fault> {
    let bytes = row.blob(column)?.try_into();
    Ok(TransferId::from_bytes(bytes.map_err(|_| Fault::inconsistent("a transfer's id of the wrong length"))?))
}

fn transfer(row: &Row<'_>) -> Result<Transfer, Fault> {
    let entry = |column: usize| {
        Ok::<_, Fault>(Entry {
            account: AccountId::new(row.int(column)?),
            slot: row.int(column + 1)?,
            number: row.int(column + 2)?,
            balance: row.int(column + 3)?,
        })
    };
    let kind = row.text(1)?;
    Ok(Transfer {
        id: id(row, 0)?,
        kind: TransferKind::parse(kind)
            .ok_or_else(|| Fault::inconsistent(format!("a transfer's kind {kind}")))?,
        posted: Posted { from: entry(2)?, to: entry(6)?, amount: row.int(10)?, at: row.timestamp(15)? },
        refunded: row.int(11)?,
        refund_of: row.optional_blob(12)?.is_some().then(|| id(row, 12)).transpose()?,
        client: UserId::parse(row.text(13)?).map_err(Fault::inconsistent)?,
        key: IdempotencyKey::parse(row.text(14)?).map_err(Fault::inconsistent)?,
    })
}
