//! Moving money between accounts that a transaction holds.

use super::{AccountId, AccountKind, AccountStatus, out_of_range};
use crate::code::Code;
use crate::id::Currency;
use crate::money::Decimal;
use crate::named::named;
use crate::rejection::Rejection;
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

named! {
    Side {
        Debit "DEBIT",
        Credit "CREDIT",
    }
}

/// An account as a transaction holds it. A system account has one for each process slot, so that processes which pay out
/// of it do not wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Book {
    pub account: AccountId,
    pub slot: i64,
    pub kind: AccountKind,
    pub status: AccountStatus,
    pub currency: Currency,
    pub scale: u8,
    pub balance: i64,
    /// How many entries it has; they are numbered from 1.
    pub entries: i64,
    /// When its last entry was made.
    pub changed_at: Timestamp,
}

/// An entry in a book: its number, and what the book held after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub account: AccountId,
    pub slot: i64,
    pub number: i64,
    pub balance: i64,
}

/// A movement that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    pub from: Entry,
    pub to: Entry,
    pub amount: i64,
    /// No earlier than any earlier entry of either account.
    pub at: Timestamp,
}

/// The accounts that a transaction holds.
#[derive(Clone, Debug, Default)]
pub struct Books {
    books: BTreeMap<AccountId, Book>,
    changed: BTreeSet<AccountId>,
}

impl Books {
    pub fn of(books: impl IntoIterator<Item = Book>) -> Self {
        let books = books.into_iter().map(|book| (book.account, book)).collect();
        Self { books, changed: BTreeSet::new() }
    }

    /// Moves money, or says why not and changes nothing.
    pub fn post(
        &mut self,
        from: AccountId,
        to: AccountId,
        amount: i64,
        now: Timestamp,
    ) -> Result<Posted, Rejection> {
        let (giver, receiver) = (self.book(from)?, self.book(to)?);
        if giver.currency != receiver.currency || from == to || amount <= 0 {
            return Err(Rejection::new(Code::CurrencyMismatch, "the movement makes no sense"));
        }
        for book in [giver, receiver] {
            if book.status != AccountStatus::Active {
                let detail = format!("the account {} is {}", book.account, book.status.as_str());
                return Err(Rejection::new(Code::AccountNotActive, detail));
            }
        }
        if giver.kind == AccountKind::Member && giver.balance < amount {
            let held = Decimal::from_minor(giver.balance, giver.scale);
            let detail = format!("the account {from} holds {held} {}", giver.currency);
            return Err(Rejection::new(Code::InsufficientBalance, detail));
        }
        let left = giver.balance.checked_sub(amount).ok_or_else(|| out_of_range(from))?;
        let held = receiver.balance.checked_add(amount).ok_or_else(|| out_of_range(to))?;
        let at = now.max(giver.changed_at).max(receiver.changed_at);
        let from = self.enter(from, left, at)?;
        let to = self.enter(to, held, at)?;
        Ok(Posted { from, to, amount, at })
    }

    /// What has to be written, each account once.
    pub fn changed(&self) -> Vec<&Book> {
        self.changed.iter().filter_map(|id| self.books.get(id)).collect()
    }

    pub fn book(&self, id: AccountId) -> Result<&Book, Rejection> {
        self.books.get(&id).ok_or_else(|| super::no_account(id))
    }

    fn enter(&mut self, id: AccountId, balance: i64, at: Timestamp) -> Result<Entry, Rejection> {
        let book = self.books.get_mut(&id).ok_or_else(|| super::no_account(id))?;
        book.balance = balance;
        book.entries += 1;
        book.changed_at = at;
        self.changed.insert(id);
        Ok(Entry { account: id, slot: book.slot, number: book.entries, balance })
    }
}
