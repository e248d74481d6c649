//! What the audit looks at in the wallet. Each statement is of one moment, so what it compares belongs together.

use super::for_ids;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use guerdon_core::wallet::view::LedgerEntry;
use guerdon_core::wallet::{AccountId, AccountKind, Side, TransferId, TransferKind};

statements! {
    /// In two parts each, so that no sum leaves what an integer holds.
    SUMS = "SELECT currency, CAST(SUM(balance / 1000000) AS BIGINT), CAST(SUM(balance % 1000000) AS BIGINT) FROM (
            SELECT currency, balance FROM core.account
            UNION ALL SELECT a.currency, s.balance FROM core.account_slot s
                JOIN core.account a ON a.account_id = s.account_id) held
        GROUP BY currency ORDER BY currency";
    BOOKS = "SELECT account_id, CAST(0 AS BIGINT), kind, balance, entries FROM core.account
        WHERE account_id > $1 ORDER BY account_id LIMIT $2";
    SLOTS = "SELECT account_id, slot, CAST('SYSTEM' AS TEXT), balance, entries FROM core.account_slot
        WHERE (account_id, slot) > ($1, $2) ORDER BY account_id, slot LIMIT $3";
    ENTRIES = "SELECT number, side, amount, balance_after, created_at, transfer_id FROM core.ledger_entry
        WHERE account_id = $1 AND slot = $2 AND (created_at, number) > ($3, $4) ORDER BY created_at, number LIMIT $5";
    OWED = "SELECT COUNT(*), COUNT(CASE WHEN (t.from_account_id = $1 AND t.from_slot = $2 AND t.from_number = $3)
            OR (t.to_account_id = $1 AND t.to_slot = $2 AND t.to_number = $3) THEN 1 END)
        FROM (SELECT transfer_id FROM core.ledger_backlog ORDER BY transfer_id LIMIT $4) b
            JOIN core.transfer t ON t.transfer_id = b.transfer_id";
    ENTRIES_NOW = "SELECT entries FROM core.account WHERE account_id = $1 AND CAST($2 AS BIGINT) = 0
        UNION ALL SELECT entries FROM core.account_slot WHERE account_id = $1 AND slot = $2";
    TRANSFERS = "SELECT t.transfer_id, t.created_at, t.refunded,
            (SELECT CAST(COALESCE(SUM(r.amount), 0) AS BIGINT) FROM core.transfer r WHERE r.refund_of = t.transfer_id),
            (SELECT COUNT(*) FROM core.ledger_entry e WHERE e.transfer_id = t.transfer_id),
            (SELECT COUNT(*) FROM core.ledger_entry e WHERE e.transfer_id = t.transfer_id AND e.amount = t.amount
                AND e.created_at = t.created_at AND (
                (e.side = 'DEBIT' AND e.account_id = t.from_account_id AND e.slot = t.from_slot
                    AND e.number = t.from_number AND e.balance_after = t.from_balance)
                OR (e.side = 'CREDIT' AND e.account_id = t.to_account_id AND e.slot = t.to_slot
                    AND e.number = t.to_number AND e.balance_after = t.to_balance))),
            (SELECT COUNT(*) FROM core.ledger_backlog b WHERE b.transfer_id = t.transfer_id),
            (SELECT k.resource_id FROM integration.idempotency_key k WHERE k.idempotency_key = t.idempotency_key
                AND k.client_id = t.client_id AND k.scope = t.kind AND k.status = 'SUCCEEDED'), t.kind
        FROM core.transfer t WHERE t.transfer_id > $1 ORDER BY t.transfer_id LIMIT $2";
    TRANSFERS_OF = "SELECT transfer_id FROM core.transfer WHERE transfer_id = $1",
        postgres: "SELECT transfer_id FROM core.transfer WHERE transfer_id = ANY(CAST($1 AS BYTEA[]))";
    KEYS = "SELECT k.idempotency_key, k.client_id, k.scope, k.status, k.deadline,
            (SELECT COUNT(*) FROM core.transfer t WHERE t.transfer_id = k.resource_id AND t.client_id = k.client_id
                AND t.idempotency_key = k.idempotency_key AND t.kind = k.scope)
        FROM integration.idempotency_key k WHERE (k.idempotency_key, k.client_id, k.scope) > ($1, $2, $3)
        ORDER BY k.idempotency_key, k.client_id, k.scope LIMIT $4";
}

/// What all accounts of each currency hold together; zero where every unit came from somewhere.
pub fn sums(tx: &mut Tx<'_>) -> Result<Vec<(String, i128)>, Fault> {
    tx.query(&SUMS, &[], |row| {
        Ok((row.text(0)?.to_owned(), i128::from(row.int(1)?) * 1_000_000 + i128::from(row.int(2)?)))
    })
}

/// An account, or a system account's share in a slot, at the moment at which it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookAt {
    pub account: AccountId,
    pub slot: i64,
    pub kind: AccountKind,
    pub balance: i64,
    pub entries: i64,
}

fn book(row: &Row<'_>) -> Result<BookAt, Fault> {
    let kind = row.text(2)?;
    Ok(BookAt {
        account: AccountId::new(row.int(0)?),
        slot: row.int(1)?,
        kind: AccountKind::parse(kind)
            .ok_or_else(|| Fault::inconsistent(format!("an account's kind {kind}")))?,
        balance: row.int(3)?,
        entries: row.int(4)?,
    })
}

pub fn books_page(tx: &mut Tx<'_>, after: i64, limit: i64) -> Result<Vec<BookAt>, Fault> {
    tx.query(&BOOKS, &[after.into(), limit.into()], book)
}

pub fn slots_page(tx: &mut Tx<'_>, after: (i64, i64), limit: i64) -> Result<Vec<BookAt>, Fault> {
    tx.query(&SLOTS, &[after.0.into(), after.1.into(), limit.into()], book)
}

/// Entries of a book in their order, after one.
pub fn entries_page(
    tx: &mut Tx<'_>,
    book: &BookAt,
    after: (Timestamp, i64),
    limit: i64,
) -> Result<Vec<LedgerEntry>, Fault> {
    let params =
        [book.account.number().into(), book.slot.into(), after.0.into(), after.1.into(), limit.into()];
    tx.query(&ENTRIES, &params, |row| {
        let side = row.text(1)?;
        Ok(LedgerEntry {
            transfer: TransferId::from_bytes(row.uuid(5)?),
            account: book.account,
            slot: book.slot,
            number: row.int(0)?,
            side: Side::parse(side)
                .ok_or_else(|| Fault::inconsistent(format!("an entry on the side {side}")))?,
            amount: row.int(2)?,
            balance_after: row.int(3)?,
            created_at: row.timestamp(4)?,
        })
    })
}

/// How much of a backlog is looked through; in a longer one anything may be owed.
const BACKLOG_MAX: i64 = 5_000;

/// Whether the ledger still owes a book the entry of this number, as far as can be told.
pub fn is_owed(tx: &mut Tx<'_>, book: &BookAt, number: i64) -> Result<bool, Fault> {
    let params = [book.account.number().into(), book.slot.into(), number.into(), BACKLOG_MAX.into()];
    let (looked, found) =
        tx.query_one(&OWED, &params, |row| Ok((row.int(0)?, row.int(1)?)))?.unwrap_or_default();
    Ok(found > 0 || looked >= BACKLOG_MAX)
}

/// How many entries a book has by now.
pub fn entries_now(tx: &mut Tx<'_>, book: &BookAt) -> Result<i64, Fault> {
    let params = [book.account.number().into(), book.slot.into()];
    Ok(tx.query_one(&ENTRIES_NOW, &params, |row| row.int(0))?.unwrap_or(0))
}

/// A transfer with what there is of it elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct TransferAt {
    pub id: TransferId,
    pub created_at: Timestamp,
    pub refunded: i64,
    /// The sum of the transfers that give it back.
    pub refunds: i64,
    pub entries: i64,
    /// Those among them that are as they have to be.
    pub sound_entries: i64,
    pub owed: bool,
    /// What its key says was made under it.
    pub made_by_key: Option<TransferId>,
    /// Whether it delivers a reward, which is done under no key of a client's.
    pub pays_out: bool,
    /// The same for one that takes a reward back.
    pub takes_back: bool,
}

pub fn transfers_page(tx: &mut Tx<'_>, after: &[u8], limit: i64) -> Result<Vec<TransferAt>, Fault> {
    tx.query(&TRANSFERS, &[Param::Blob(after), limit.into()], |row| {
        let made = row.optional_blob(7)?.and_then(|blob| <[u8; 16]>::try_from(blob).ok());
        Ok(TransferAt {
            id: TransferId::from_bytes(row.uuid(0)?),
            created_at: row.timestamp(1)?,
            refunded: row.int(2)?,
            refunds: row.int(3)?,
            entries: row.int(4)?,
            sound_entries: row.int(5)?,
            owed: row.int(6)? > 0,
            made_by_key: made.map(TransferId::from_bytes),
            pays_out: row.text(8)? == TransferKind::Reward.as_str(),
            takes_back: row.text(8)? == TransferKind::Revocation.as_str(),
        })
    })
}

/// Which of these transfers there are.
pub fn transfers_of(tx: &mut Tx<'_>, ids: &[[u8; 16]]) -> Result<Vec<[u8; 16]>, Fault> {
    for_ids(tx, &TRANSFERS_OF, ids, |row| row.uuid(0))
}

/// An idempotency key, and how many transfers were made under it with the id that it names.
#[derive(Clone, Debug)]
pub struct KeyAt {
    pub key: String,
    pub client: String,
    pub scope: String,
    pub status: Option<String>,
    pub deadline: Option<Timestamp>,
    pub transfers: i64,
}

pub fn keys_page(tx: &mut Tx<'_>, after: &(String, String, String), limit: i64) -> Result<Vec<KeyAt>, Fault> {
    let params = [(&after.0).into(), (&after.1).into(), (&after.2).into(), limit.into()];
    tx.query(&KEYS, &params, |row| {
        Ok(KeyAt {
            key: row.text(0)?.into(),
            client: row.text(1)?.into(),
            scope: row.text(2)?.into(),
            status: row.optional_text(3)?.map(Into::into),
            deadline: row.optional_timestamp(4)?,
            transfers: row.int(5)?,
        })
    })
}
