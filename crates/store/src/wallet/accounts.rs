//! Accounts, and what a transaction holds of them.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::wallet::{Account, AccountId, AccountKind, AccountStatus, Book, Books};
use guerdon_core::{Currency, UserId};
use std::collections::{BTreeMap, BTreeSet};

macro_rules! account_select {
    () => {
        "SELECT a.account_id, a.owner_id, a.kind, a.currency, a.scale, a.status,
            a.balance + CASE a.kind WHEN 'SYSTEM' THEN (SELECT CAST(COALESCE(SUM(s.balance), 0) AS BIGINT)
                FROM core.account_slot s WHERE s.account_id = a.account_id) ELSE 0 END,
            a.created_at FROM core.account a "
    };
}

macro_rules! book_columns {
    () => {
        "account_id, kind, status, currency, scale, balance, entries, changed_at"
    };
}

statements! {
    FIND = concat!(account_select!(), "WHERE a.account_id = $1"),
        postgres: concat!(account_select!(), "WHERE a.account_id = ANY(CAST($1 AS BIGINT[]))");
    FIND_OWNED = concat!(account_select!(), "WHERE a.owner_id = $1 AND a.currency = $2");
    FIND_MANY_OWNED = concat!(account_select!(), "WHERE a.owner_id = $1 AND a.currency = $2"),
        postgres: concat!(account_select!(), "WHERE (a.owner_id, a.currency) IN
        (SELECT owner, currency FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[])) AS row (owner, currency))");
    LIST_OWNED = concat!(account_select!(), "WHERE a.owner_id = $1 AND a.currency > $2 ORDER BY a.currency LIMIT $3");
    LIST = concat!(account_select!(), "WHERE a.account_id > $1 ORDER BY a.account_id LIMIT $2");
    BOOKS = concat!("SELECT ", book_columns!(), " FROM core.account WHERE account_id = $1"),
        postgres: concat!("SELECT ", book_columns!(), " FROM core.account WHERE account_id = ANY(CAST($1 AS BIGINT[]))");
    LOCK_BOOKS = concat!("SELECT ", book_columns!(), " FROM core.account WHERE account_id = $1"),
        postgres: concat!("SELECT ", book_columns!(), " FROM core.account WHERE account_id = ANY(CAST($1 AS BIGINT[]))
        ORDER BY account_id FOR UPDATE");
    WRITE_BOOKS = "UPDATE core.account SET balance = $2, entries = $3, changed_at = $4 WHERE account_id = $1";
    MAKE_SLOT = "INSERT INTO core.account_slot (account_id, slot, balance, entries, changed_at) VALUES ($1, $2, 0, 0, 0)
        ON CONFLICT (account_id, slot) DO NOTHING";
    LOCK_SLOT = "SELECT balance, entries, changed_at FROM core.account_slot WHERE account_id = $1 AND slot = $2",
        postgres: "SELECT balance, entries, changed_at FROM core.account_slot WHERE account_id = $1 AND slot = $2 FOR UPDATE";
    WRITE_SLOT = "UPDATE core.account_slot SET balance = $3, entries = $4, changed_at = $5
        WHERE account_id = $1 AND slot = $2";
    SLOTS = "SELECT slot FROM core.account_slot WHERE account_id = $1 ORDER BY slot";
    TAKE_NUMBER = "UPDATE counters SET value = value + 1 WHERE name = 'account' RETURNING value";
    TAKE_NUMBERS = "UPDATE counters SET value = value + $1 WHERE name = 'account' RETURNING value";
    INSERT_MEMBERS = "INSERT INTO core.account (account_id, owner_id, kind, currency, scale, status, balance, entries,
            changed_at, created_at)
        VALUES ($1, $2, 'MEMBER', $3, $4, 'ACTIVE', 0, 0, $5, $5)",
        postgres: "INSERT INTO core.account (account_id, owner_id, kind, currency, scale, status, balance, entries,
            changed_at, created_at)
        SELECT number, owner, 'MEMBER', $3, $4, 'ACTIVE', 0, 0, $5, $5
        FROM unnest(CAST($1 AS BIGINT[]), CAST($2 AS TEXT[])) AS row (number, owner)";
    CURRENCY = "SELECT scale, issue_account_id FROM core.currency WHERE currency = $1";
    INSERT_CURRENCY = "INSERT INTO core.currency (currency, scale, issue_account_id) VALUES ($1, $2, $3)";
    INSERT = "INSERT INTO core.account (account_id, owner_id, kind, currency, scale, status, balance, entries, changed_at,
            created_at)
        VALUES ($1, $2, $3, $4, $5, 'ACTIVE', 0, 0, $6, $6)";
}

/// Whom a currency's issue account belongs to: a name that no user can have.
const ISSUE_OWNER: &str = "guerdon#issue";

/// A currency, and the account that its money comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrencyAt {
    pub scale: u8,
    pub issue: AccountId,
}

/// What became of an account that somebody wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    New(Account),
    Known(Account),
    /// The currency has another scale than was asked for.
    OtherScale(u8),
}

/// Accounts by their numbers; those that there are.
pub fn find(tx: &mut Tx<'_>, ids: &BTreeSet<AccountId>) -> Result<BTreeMap<AccountId, Account>, Fault> {
    let found = for_each(tx, &FIND, ids, account)?;
    Ok(found.into_iter().map(|account| (account.id, account)).collect())
}

/// The account of a user in a currency.
pub fn find_owned(tx: &mut Tx<'_>, owner: &str, currency: &Currency) -> Result<Option<Account>, Fault> {
    tx.query_one(&FIND_OWNED, &[owner.into(), currency.as_str().into()], account)
}

/// The accounts of many users, each in a currency; those that there are.
pub fn find_many_owned(tx: &mut Tx<'_>, wanted: &[(&str, Currency)]) -> Result<Vec<Account>, Fault> {
    if tx.engine() == Engine::Postgres {
        let owners: Vec<_> = wanted.iter().map(|(owner, _)| *owner).collect();
        let currencies: Vec<_> = wanted.iter().map(|(_, currency)| currency.as_str()).collect();
        return tx.query(&FIND_MANY_OWNED, &[Param::Texts(&owners), Param::Texts(&currencies)], account);
    }
    let mut found = Vec::with_capacity(wanted.len());
    for (owner, currency) in wanted {
        found.extend(tx.query_one(
            &FIND_MANY_OWNED,
            &[(*owner).into(), currency.as_str().into()],
            account,
        )?);
    }
    Ok(found)
}

/// The accounts of a user, by currency, after one.
pub fn of_owner(tx: &mut Tx<'_>, owner: &UserId, after: &str, limit: i64) -> Result<Vec<Account>, Fault> {
    tx.query(&LIST_OWNED, &[owner.as_str().into(), after.into(), limit.into()], account)
}

/// All accounts in the order of their numbers, after the given one.
pub fn list(tx: &mut Tx<'_>, after: i64, limit: i64) -> Result<Vec<Account>, Fault> {
    tx.query(&LIST, &[after.into(), limit.into()], account)
}

pub fn currency(tx: &mut Tx<'_>, currency: &Currency) -> Result<Option<CurrencyAt>, Fault> {
    tx.query_one(&CURRENCY, &[currency.as_str().into()], |row| {
        Ok(CurrencyAt { scale: scale(row, 0)?, issue: AccountId::new(row.int(1)?) })
    })
}

/// The account of a user in a currency, which is made if there is none, and the currency with it.
pub fn open(
    tx: &mut Tx<'_>,
    owner: &UserId,
    wanted: &Currency,
    wanted_scale: Option<u8>,
) -> Result<Opened, Fault> {
    let known = |tx: &mut Tx<'_>| find_owned(tx, owner.as_str(), wanted);
    let answer = |account: Account| match wanted_scale {
        Some(scale) if scale != account.scale => Opened::OtherScale(account.scale),
        _ => Opened::Known(account),
    };
    if let Some(account) = known(tx)? {
        return Ok(answer(account));
    }
    // From here on nobody else opens an account: what is not there now will not be there in a moment.
    let number = take_number(tx)?;
    if let Some(account) = known(tx)? {
        return Ok(answer(account));
    }
    let scale = match (currency(tx, wanted)?, wanted_scale) {
        (Some(present), Some(scale)) if scale != present.scale => {
            return Ok(Opened::OtherScale(present.scale));
        }
        (Some(present), _) => present.scale,
        (None, scale) => {
            let (scale, issue) = (scale.unwrap_or(0), take_number(tx)?);
            let params = [wanted.as_str().into(), i64::from(scale).into(), issue.into()];
            tx.execute(&INSERT_CURRENCY, &params)?;
            insert(tx, issue, ISSUE_OWNER, AccountKind::System, wanted, scale)?;
            scale
        }
    };
    insert(tx, number, owner.as_str(), AccountKind::Member, wanted, scale)?;
    let account =
        known(tx)?.ok_or_else(|| Fault::inconsistent("an account that was just made is not there"))?;
    Ok(Opened::New(account))
}

/// The accounts of many users in a currency, each of whom is named once; those that are missing are made, and the currency
/// with them, which gets this scale if nobody has heard of it.
pub fn open_many(
    tx: &mut Tx<'_>,
    owners: &[&str],
    wanted: &Currency,
    scale: u8,
) -> Result<Vec<(String, AccountId)>, Fault> {
    let count = i64::try_from(owners.len()).map_err(|_| Fault::inconsistent("too many accounts"))?;
    // From here on nobody else opens an account.
    let last = tx
        .query_one(&TAKE_NUMBERS, &[count.into()], |row| row.int(0))?
        .ok_or_else(|| Fault::inconsistent("the counter of accounts is missing"))?;
    let pairs: Vec<_> = owners.iter().map(|owner| (*owner, wanted.clone())).collect();
    let mut found: Vec<_> =
        find_many_owned(tx, &pairs)?.into_iter().map(|account| (account.owner, account.id)).collect();
    let known: BTreeSet<_> = found.iter().map(|(owner, _)| owner.clone()).collect();
    let missing: Vec<_> = owners.iter().filter(|owner| !known.contains(**owner)).copied().collect();
    if missing.is_empty() {
        return Ok(found);
    }
    let scale = match currency(tx, wanted)? {
        Some(present) => present.scale,
        None => {
            let issue = take_number(tx)?;
            let params = [wanted.as_str().into(), i64::from(scale).into(), issue.into()];
            tx.execute(&INSERT_CURRENCY, &params)?;
            insert(tx, issue, ISSUE_OWNER, AccountKind::System, wanted, scale)?;
            scale
        }
    };
    let numbers: Vec<_> = (last - count + 1..).take(missing.len()).collect();
    let (now, scale) = (tx.now(), i64::from(scale));
    if tx.engine() == Engine::Postgres {
        let params =
            [Param::Ints(&numbers), Param::Texts(&missing), wanted.as_str().into(), scale.into(), now.into()];
        tx.execute(&INSERT_MEMBERS, &params)?;
    } else {
        let rows = numbers.iter().zip(&missing).map(|(number, owner)| {
            [(*number).into(), (*owner).into(), wanted.as_str().into(), scale.into(), now.into()]
        });
        tx.execute_rows(&INSERT_MEMBERS, rows)?;
    }
    found.extend(missing.into_iter().map(str::to_owned).zip(numbers.into_iter().map(AccountId::new)));
    Ok(found)
}

fn take_number(tx: &mut Tx<'_>) -> Result<i64, Fault> {
    tx.query_one(&TAKE_NUMBER, &[], |row| row.int(0))?
        .ok_or_else(|| Fault::inconsistent("the counter of accounts is missing"))
}

fn insert(
    tx: &mut Tx<'_>,
    number: i64,
    owner: &str,
    kind: AccountKind,
    currency: &Currency,
    scale: u8,
) -> Result<(), Fault> {
    let now = tx.now();
    let params = [
        number.into(),
        owner.into(),
        kind.as_str().into(),
        currency.as_str().into(),
        i64::from(scale).into(),
        now.into(),
    ];
    tx.execute(&INSERT, &params).map(drop)
}

/// Holds these accounts until the transaction ends, in the order of their numbers. Of a system account a process holds
/// the row of its own slot.
pub fn lock(tx: &mut Tx<'_>, ids: &BTreeSet<AccountId>) -> Result<Books, Fault> {
    let slot = tx.slot();
    if slot == 0 {
        return Ok(Books::of(for_each(tx, &LOCK_BOOKS, ids, book)?));
    }
    let (system, members): (Vec<_>, Vec<_>) = for_each(tx, &BOOKS, ids, book)?
        .into_iter()
        .partition(|book: &Book| book.kind == AccountKind::System);
    let members = members.into_iter().map(|book| book.account).collect();
    let mut books = for_each(tx, &LOCK_BOOKS, &members, book)?;
    for mut book in system {
        let key = [book.account.number().into(), slot.into()];
        let share = |row: &Row<'_>| Ok((row.int(0)?, row.int(1)?, row.timestamp(2)?));
        let mut held = tx.query_one(&LOCK_SLOT, &key, share)?;
        if held.is_none() {
            tx.execute(&MAKE_SLOT, &key)?;
            held = tx.query_one(&LOCK_SLOT, &key, share)?;
        }
        let (balance, entries, changed_at) = held.ok_or_else(|| Fault::inconsistent("a slot is missing"))?;
        book.slot = slot;
        (book.balance, book.entries, book.changed_at) = (balance, entries, changed_at);
        books.push(book);
    }
    Ok(Books::of(books))
}

/// Writes what changed in accounts that are held, each of them once.
pub(super) fn write(tx: &mut Tx<'_>, books: &Books) -> Result<(), Fault> {
    let accounts = write_slots(tx, books)?;
    let count = accounts.len();
    let rows = accounts.into_iter().map(|book| {
        [book.account.number().into(), book.balance.into(), book.entries.into(), book.changed_at.into()]
    });
    expect_rows(tx.execute_rows(&WRITE_BOOKS, rows)?, count)
}

/// Writes what changed in slots that are held; the accounts whose own row is still to be written.
pub(super) fn write_slots<'b>(tx: &mut Tx<'_>, books: &'b Books) -> Result<Vec<&'b Book>, Fault> {
    let (slots, accounts): (Vec<_>, Vec<_>) = books.changed().into_iter().partition(|book| book.slot > 0);
    for book in slots {
        let params = [
            book.account.number().into(),
            book.slot.into(),
            book.balance.into(),
            book.entries.into(),
            book.changed_at.into(),
        ];
        expect_rows(tx.execute(&WRITE_SLOT, &params)?, 1)?;
    }
    Ok(accounts)
}

pub(super) fn expect_rows(changed: u64, wanted: usize) -> Result<(), Fault> {
    if usize::try_from(changed) == Ok(wanted) {
        return Ok(());
    }
    Err(Fault::inconsistent(format!("{changed} accounts were written where {wanted} are held")))
}

/// The slots that an account has a share in.
pub fn slots(tx: &mut Tx<'_>, id: AccountId) -> Result<Vec<i64>, Fault> {
    let mut slots = vec![0];
    slots.extend(tx.query(&SLOTS, &[id.number().into()], |row| row.int(0))?);
    Ok(slots)
}

/// Runs a statement for many accounts: at once on PostgreSQL, where each would cost a round trip.
fn for_each<T>(
    tx: &mut Tx<'_>,
    statement: &'static crate::Statement,
    ids: &BTreeSet<AccountId>,
    read: impl Fn(&Row<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    if tx.engine() == Engine::Postgres {
        let ids: Vec<_> = ids.iter().map(|id| id.number()).collect();
        return if ids.is_empty() { Ok(Vec::new()) } else { tx.query(statement, &[Param::Ints(&ids)], read) };
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(tx.query_one(statement, &[id.number().into()], &read)?);
    }
    Ok(found)
}

fn odd(id: AccountId, what: &str) -> Fault {
    Fault::inconsistent(format!("the account {id}: {what}"))
}

fn scale(row: &Row<'_>, column: usize) -> Result<u8, Fault> {
    u8::try_from(row.int(column)?).map_err(|_| Fault::inconsistent("a scale that cannot be"))
}

fn account(row: &Row<'_>) -> Result<Account, Fault> {
    let id = AccountId::new(row.int(0)?);
    Ok(Account {
        id,
        owner: row.text(1)?.into(),
        kind: AccountKind::parse(row.text(2)?).ok_or_else(|| odd(id, "its kind"))?,
        currency: Currency::parse(row.text(3)?).map_err(Fault::inconsistent)?,
        scale: scale(row, 4)?,
        status: AccountStatus::parse(row.text(5)?).ok_or_else(|| odd(id, "its status"))?,
        balance: row.int(6)?,
        created_at: row.timestamp(7)?,
    })
}

fn book(row: &Row<'_>) -> Result<Book, Fault> {
    let id = AccountId::new(row.int(0)?);
    Ok(Book {
        account: id,
        slot: 0,
        kind: AccountKind::parse(row.text(1)?).ok_or_else(|| odd(id, "its kind"))?,
        status: AccountStatus::parse(row.text(2)?).ok_or_else(|| odd(id, "its status"))?,
        currency: Currency::parse(row.text(3)?).map_err(Fault::inconsistent)?,
        scale: scale(row, 4)?,
        balance: row.int(5)?,
        entries: row.int(6)?,
        changed_at: row.timestamp(7)?,
    })
}
