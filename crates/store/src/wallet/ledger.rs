//! The ledger: two entries for each transfer, copied from it after it was made.

use super::transfers;
use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use guerdon_core::wallet::view::LedgerEntry;
use guerdon_core::wallet::{AccountId, Side, TransferId};

macro_rules! entry_columns {
    () => {
        "transfer_id, account_id, slot, number, side, amount, balance_after, created_at"
    };
}

/// Both sides of the transfers that the condition names.
macro_rules! copy_entries {
    ($which:literal) => {
        concat!(
            "INSERT INTO core.ledger_entry (",
            entry_columns!(),
            ") SELECT transfer_id, from_account_id, from_slot, from_number, 'DEBIT', amount, from_balance, created_at
                FROM core.transfer WHERE ",
            $which,
            " UNION ALL SELECT transfer_id, to_account_id, to_slot, to_number, 'CREDIT', amount, to_balance, created_at
                FROM core.transfer WHERE ",
            $which,
            " ON CONFLICT (transfer_id, account_id, side) DO NOTHING"
        )
    };
}

statements! {
    OWED = "SELECT transfer_id FROM core.ledger_backlog ORDER BY transfer_id LIMIT $1";
    /// On PostgreSQL for many at once, with what takes them off the backlog; what another process is at is left to it.
    COPY = copy_entries!("transfer_id = $1"),
        postgres: concat!("WITH paid AS (DELETE FROM core.ledger_backlog WHERE transfer_id IN (
            SELECT transfer_id FROM core.ledger_backlog WHERE transfer_id = ANY(CAST($1 AS BYTEA[]))
            ORDER BY transfer_id FOR UPDATE SKIP LOCKED) RETURNING transfer_id) ",
            copy_entries!("transfer_id IN (SELECT transfer_id FROM paid)"));
    /// For SQLite.
    PAID = "DELETE FROM core.ledger_backlog WHERE transfer_id = $1";
    NEWEST = "SELECT transfer_id FROM core.transfer ORDER BY transfer_id DESC LIMIT 1";
    /// Counted up to a limit: it is looked at every second, also when much is owed.
    BACKLOG = "SELECT COUNT(*), MIN(created_at) FROM (
            SELECT created_at FROM core.ledger_backlog ORDER BY transfer_id LIMIT $1) owed";
    /// Transfers after one, each with how many entries it has, and whether it is owed any.
    WALK = "SELECT t.transfer_id, (SELECT COUNT(*) FROM core.ledger_entry e WHERE e.transfer_id = t.transfer_id),
            (SELECT COUNT(*) FROM core.ledger_backlog b WHERE b.transfer_id = t.transfer_id)
        FROM core.transfer t WHERE t.transfer_id > $1 ORDER BY t.transfer_id LIMIT $2";
    OWE = "INSERT INTO core.ledger_backlog (transfer_id, created_at)
        SELECT transfer_id, created_at FROM core.transfer WHERE transfer_id = $1
        ON CONFLICT (transfer_id) DO NOTHING";
    PAGE = concat!("SELECT ", entry_columns!(), " FROM core.ledger_entry
        WHERE account_id = $1 AND slot = $2 AND (created_at, number) < ($3, $4)
        ORDER BY created_at DESC, number DESC LIMIT $5");
    BALANCE_AT = "SELECT balance_after FROM core.ledger_entry WHERE account_id = $1 AND slot = $2 AND created_at <= $3
        ORDER BY created_at DESC, number DESC LIMIT 1";
}

/// How far the ledger is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    pub transfers: i64,
    pub oldest: Option<Timestamp>,
}

/// Transfers that are owed their entries, the oldest first.
pub fn owed(tx: &mut Tx<'_>, limit: i64) -> Result<Vec<TransferId>, Fault> {
    tx.query(&OWED, &[limit.into()], |row| transfers::id(row, 0))
}

/// Writes the entries of those among these that are owed them.
pub fn enter(tx: &mut Tx<'_>, wanted: &[TransferId]) -> Result<(), Fault> {
    if tx.engine() == Engine::Sqlite {
        for id in wanted {
            let id = [Param::Blob(id.as_bytes())];
            if tx.execute(&PAID, &id)? == 1 {
                tx.execute(&COPY, &id)?;
            }
        }
        return Ok(());
    }
    let wanted: Vec<&[u8]> = wanted.iter().map(|id| id.as_bytes().as_slice()).collect();
    tx.execute(&COPY, &[Param::Blobs(&wanted)]).map(drop)
}

pub fn newest(tx: &mut Tx<'_>) -> Result<Option<TransferId>, Fault> {
    tx.query_one(&NEWEST, &[], |row| transfers::id(row, 0))
}

pub fn backlog(tx: &mut Tx<'_>, most: i64) -> Result<Backlog, Fault> {
    let found = tx.query_one(&BACKLOG, &[most.into()], |row| {
        Ok(Backlog { transfers: row.int(0)?, oldest: row.optional_timestamp(1)? })
    })?;
    Ok(found.unwrap_or_default())
}

/// Looks at transfers after one: the last that was looked at, and those that lack entries and are not owed any.
pub fn walk(
    tx: &mut Tx<'_>,
    after: TransferId,
    limit: i64,
) -> Result<(Option<TransferId>, Vec<TransferId>), Fault> {
    let looked = tx.query(&WALK, &[Param::Blob(after.as_bytes()), limit.into()], |row| {
        Ok((transfers::id(row, 0)?, row.int(1)? != 2 && row.int(2)? == 0))
    })?;
    let last = looked.last().map(|(id, _)| *id);
    Ok((last, looked.into_iter().filter(|(_, lacks)| *lacks).map(|(id, _)| id).collect()))
}

/// Owes these transfers their entries once more.
pub fn owe(tx: &mut Tx<'_>, ids: &[TransferId]) -> Result<u64, Fault> {
    tx.execute_rows(&OWE, ids.iter().map(|id| [Param::Blob(id.as_bytes())]))
}

/// Where a page of a statement begins: before this time, slot and number.
pub type EntryPlace = (Timestamp, i64, i64);

/// Entries of an account, the newest first, of all of its slots.
pub fn entries(
    tx: &mut Tx<'_>,
    account: AccountId,
    slots: &[i64],
    before: EntryPlace,
    limit: i64,
) -> Result<Vec<LedgerEntry>, Fault> {
    let (at, before_slot, before_number) = before;
    let mut found = Vec::new();
    for slot in slots {
        // Of one time, the entries of a later slot come first.
        let number = match slot.cmp(&before_slot) {
            std::cmp::Ordering::Less => i64::MAX,
            std::cmp::Ordering::Equal => before_number,
            std::cmp::Ordering::Greater => 0,
        };
        let params = [account.number().into(), (*slot).into(), at.into(), number.into(), limit.into()];
        found.extend(tx.query(&PAGE, &params, entry)?);
    }
    found.sort_by_key(|entry| std::cmp::Reverse((entry.created_at, entry.slot, entry.number)));
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

/// What an account held at a time, as far as the ledger has come.
pub fn balance_at(tx: &mut Tx<'_>, account: AccountId, slots: &[i64], at: Timestamp) -> Result<i64, Fault> {
    let mut sum = 0_i64;
    for slot in slots {
        let params = [account.number().into(), (*slot).into(), at.into()];
        sum += tx.query_one(&BALANCE_AT, &params, |row| row.int(0))?.unwrap_or(0);
    }
    Ok(sum)
}

fn entry(row: &Row<'_>) -> Result<LedgerEntry, Fault> {
    let side = row.text(4)?;
    Ok(LedgerEntry {
        transfer: transfers::id(row, 0)?,
        account: AccountId::new(row.int(1)?),
        slot: row.int(2)?,
        number: row.int(3)?,
        side: Side::parse(side).ok_or_else(|| Fault::inconsistent(format!("an entry on the side {side}")))?,
        amount: row.int(5)?,
        balance_after: row.int(6)?,
        created_at: row.timestamp(7)?,
    })
}
