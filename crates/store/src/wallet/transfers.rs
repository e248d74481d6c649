//! Transfers, as they were made.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::wallet::{AccountId, Entry, Posted, Transfer, TransferId, TransferKind};
use guerdon_core::{IdempotencyKey, UserId};

macro_rules! transfer_columns {
    () => {
        "transfer_id, kind, from_account_id, from_slot, from_number, from_balance, to_account_id, to_slot, to_number,
        to_balance, amount, refunded, refund_of, client_id, idempotency_key, created_at"
    };
}

statements! {
    INSERT = concat!("INSERT INTO core.transfer (", transfer_columns!(), ", status)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, $13, $14, $15, 'SUCCEEDED')"),
        postgres: concat!("WITH made AS (INSERT INTO core.transfer (", transfer_columns!(), ", status)
        SELECT id, kind, from_id, from_slot, from_number, from_balance, to_id, to_slot, to_number, to_balance, amount, 0,
            NULLIF(refund_of, CAST('' AS BYTEA)), client, key, created_at, 'SUCCEEDED'
        FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS TEXT[]), CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[]),
            CAST($5 AS BIGINT[]), CAST($6 AS BIGINT[]), CAST($7 AS BIGINT[]), CAST($8 AS BIGINT[]), CAST($9 AS BIGINT[]),
            CAST($10 AS BIGINT[]), CAST($11 AS BIGINT[]), CAST($12 AS BYTEA[]), CAST($13 AS TEXT[]),
            CAST($14 AS TEXT[]), CAST($15 AS BIGINT[]))
            AS row (id, kind, from_id, from_slot, from_number, from_balance, to_id, to_slot, to_number, to_balance,
                amount, refund_of, client, key, created_at) RETURNING transfer_id, created_at)
        INSERT INTO core.ledger_backlog (transfer_id, created_at) SELECT transfer_id, created_at FROM made");
    /// For SQLite; PostgreSQL does it with the insert.
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

/// Writes transfers; the ledger owes them their entries from here on.
pub fn insert(tx: &mut Tx<'_>, transfers: &[Transfer]) -> Result<(), Fault> {
    if transfers.is_empty() {
        return Ok(());
    }
    if tx.engine() == Engine::Sqlite {
        let rows = transfers.iter().map(|transfer| -> [Param<'_>; 15] {
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
        let owed =
            transfers.iter().map(|transfer| [Param::Blob(transfer.id.as_bytes()), transfer.posted.at.into()]);
        return tx.execute_rows(&OWE_ENTRIES, owed).map(drop);
    }
    let numbers = |value: fn(&Posted) -> i64| {
        transfers.iter().map(|transfer| value(&transfer.posted)).collect::<Vec<_>>()
    };
    let columns = [
        numbers(|posted| posted.from.account.number()),
        numbers(|posted| posted.from.slot),
        numbers(|posted| posted.from.number),
        numbers(|posted| posted.from.balance),
        numbers(|posted| posted.to.account.number()),
        numbers(|posted| posted.to.slot),
        numbers(|posted| posted.to.number),
        numbers(|posted| posted.to.balance),
        numbers(|posted| posted.amount),
    ];
    let at = numbers(|posted| posted.at.as_millis());
    let ids: Vec<&[u8]> = transfers.iter().map(|transfer| transfer.id.as_bytes().as_slice()).collect();
    let kinds: Vec<_> = transfers.iter().map(|transfer| transfer.kind.as_str()).collect();
    let refunds: Vec<&[u8]> = transfers
        .iter()
        .map(|transfer| transfer.refund_of.as_ref().map_or(&[] as &[u8], |id| id.as_bytes()))
        .collect();
    let clients: Vec<_> = transfers.iter().map(|transfer| transfer.client.as_str()).collect();
    let keys: Vec<_> = transfers.iter().map(|transfer| transfer.key.as_str()).collect();
    let mut params = vec![Param::Blobs(&ids), Param::Texts(&kinds)];
    params.extend(columns.iter().map(|column| Param::Ints(column)));
    params.extend([Param::Blobs(&refunds), Param::Texts(&clients), Param::Texts(&keys), Param::Ints(&at)]);
    tx.execute(&INSERT, &params).map(drop)
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
