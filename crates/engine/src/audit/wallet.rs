//! What is looked at in the wallet: the books with their entries, the transfers, and the keys that they were made under.
//!
//! A book is looked at as it was when its turn came: its balance and the number of its entries are one row. The ledger
//! follows the transfers, so an entry may be missing that is owed; then the book is checked as far as the ledger has come.

use super::{Audit, Phase};
use crate::idempotency::RETENTION;
use guerdon_core::Timestamp;
use guerdon_core::wallet::{AccountKind, Side};
use guerdon_store::audit::wallet::{self, BookAt};
use guerdon_store::{Fault, Tx, audit};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

const ROWS: i64 = 500;
const TRANSFERS: i64 = 200;
/// How long after its lease a claim may still stand: the watchdog comes by now and then.
const OVERDUE_MS: i64 = 60 * 60_000;
const SLACK: Duration = Duration::from_hours(24);

/// Books whose entries are being read.
#[derive(Default)]
pub(super) struct BookScan {
    /// Where the next books come from.
    after: Next,
    books: VecDeque<BookAt>,
    /// Of the first of them: up to where it was read, and what it held then.
    read: Option<Read>,
}

#[derive(Clone, Copy)]
enum Next {
    Accounts(i64),
    Slots(i64, i64),
}

impl Default for Next {
    fn default() -> Self {
        Self::Accounts(0)
    }
}

#[derive(Clone, Copy)]
struct Read {
    at: Timestamp,
    number: i64,
    balance: i64,
    /// Whether the entry after this one was missing when it was looked for, and owed to nobody.
    doubted: bool,
}

impl Default for Read {
    fn default() -> Self {
        Self { at: Timestamp::from_millis(-1), number: 0, balance: 0, doubted: false }
    }
}

impl Audit {
    pub(super) fn look_at_books(&mut self, tx: &mut Tx<'_>, mut scan: BookScan) -> Result<Phase, Fault> {
        if scan.books.is_empty() {
            let page = match scan.after {
                Next::Accounts(after) => wallet::books_page(tx, after, ROWS)?,
                Next::Slots(account, slot) => wallet::slots_page(tx, (account, slot), ROWS)?,
            };
            scan.after = match (scan.after, page.last()) {
                (Next::Accounts(_), Some(last)) => Next::Accounts(last.account.number()),
                (Next::Accounts(_), None) => Next::Slots(0, 0),
                (Next::Slots(..), Some(last)) => Next::Slots(last.account.number(), last.slot),
                (Next::Slots(..), None) => return Ok(Phase::Transfers { after: Vec::new() }),
            };
            for book in &page {
                let holds = book.kind == AccountKind::System || book.balance >= 0;
                self.checks
                    .members
                    .expect(holds, || format!("account {} holds {}", book.account, book.balance));
            }
            scan.books.extend(page);
        }
        let mut rows = 0;
        while let (Some(book), true) = (scan.books.front().copied(), rows < ROWS) {
            let (read, looked) = self.read_book(tx, &book, scan.read.unwrap_or_default())?;
            rows += looked + 1;
            scan.read = read;
            if read.is_none() {
                scan.books.pop_front();
            }
        }
        self.looked_at += rows.unsigned_abs();
        Ok(Phase::Books(Box::new(scan)))
    }

    /// Reads on in a book; where to go on, or nothing when it was read to its end.
    fn read_book(
        &mut self,
        tx: &mut Tx<'_>,
        book: &BookAt,
        mut read: Read,
    ) -> Result<(Option<Read>, i64), Fault> {
        let name = || match book.slot {
            0 => format!("account {}", book.account),
            slot => format!("slot {slot} of account {}", book.account),
        };
        let page = wallet::entries_page(tx, book, (read.at, read.number), ROWS)?;
        let (mut count, mut gap) = (i64::try_from(page.len()).unwrap_or(ROWS), false);
        for entry in page {
            // What came after this book was looked at is left for another time; but it must have come after it.
            if read.number == book.entries {
                let now = wallet::entries_now(tx, book)?;
                self.checks.account_entries.expect(entry.number <= now, || {
                    format!("{} has {now} entries, and the ledger has entry {}", name(), entry.number)
                });
                break;
            }
            if entry.number != read.number + 1 {
                gap = true;
                break;
            }
            let signed = match entry.side {
                Side::Debit => -entry.amount,
                Side::Credit => entry.amount,
            };
            let balance = read.balance.checked_add(signed);
            let sound = balance == Some(entry.balance_after);
            self.checks.account_entries.expect(sound, || {
                let told = (read.balance, signed, entry.balance_after);
                format!(
                    "entry {} of {}: {} and {} are told to be {}",
                    entry.number,
                    name(),
                    told.0,
                    told.1,
                    told.2
                )
            });
            let below = book.kind == AccountKind::Member && entry.balance_after < 0;
            self.checks.members.expect(!below, || format!("entry {} of {}", entry.number, name()));
            read = Read {
                at: entry.created_at,
                number: entry.number,
                balance: entry.balance_after,
                doubted: false,
            };
        }
        if read.number == book.entries {
            self.checks.account_entries.expect(read.balance == book.balance, || {
                format!("{} holds {}, and its entries come to {}", name(), book.balance, read.balance)
            });
            return Ok((None, count));
        }
        if !gap && count == ROWS {
            return Ok((Some(read), count));
        }
        // A look through the backlog: enough for one step.
        count = ROWS;
        if wallet::is_owed(tx, book, read.number + 1)? {
            return Ok((None, count));
        }
        if !read.doubted {
            // It may have been written since we looked for it, and then it is owed no more.
            return Ok((Some(Read { doubted: true, ..read }), count));
        }
        self.checks.account_entries.expect(false, || format!("{} lacks entry {}", name(), read.number + 1));
        Ok((None, count))
    }

    pub(super) fn look_at_sums(&mut self, tx: &mut Tx<'_>) -> Result<Phase, Fault> {
        for (currency, sum) in wallet::sums(tx)? {
            self.checks.money.expect(sum == 0, || format!("all accounts in {currency} hold {sum} together"));
        }
        Ok(Phase::Books(Box::default()))
    }

    pub(super) fn look_at_transfers(&mut self, tx: &mut Tx<'_>, after: &[u8]) -> Result<Phase, Fault> {
        let page = wallet::transfers_page(tx, after, TRANSFERS)?;
        let Some(after) = page.last().map(|transfer| transfer.id.as_bytes().to_vec()) else {
            return Ok(Phase::Keys { after: Default::default() });
        };
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        let messages: Vec<_> =
            page.iter().map(|transfer| (transfer.id.message_id(), transfer.created_at)).collect();
        let untold = audit::missing_messages(tx, &messages)?;
        let payments = page.iter().filter(|transfer| transfer.pays_out);
        let payments: Vec<_> = payments.map(|transfer| *transfer.id.as_bytes()).collect();
        self.look_at_payments(tx, &payments)?;
        // Keys are forgotten while we look, so those that are nearly old enough may be gone as well.
        let retention = i64::try_from(RETENTION.saturating_sub(SLACK).as_millis()).unwrap_or(i64::MAX);
        for transfer in page {
            let id = transfer.id;
            let due = if transfer.owed { 0 } else { 2 };
            self.checks.transfers.expect((transfer.entries, transfer.sound_entries) == (due, due), || {
                format!("{id} has {} entries, {} of them sound", transfer.entries, transfer.sound_entries)
            });
            self.checks.transfers.expect(transfer.refunded == transfer.refunds, || {
                format!("{id}: {} was given back, by transfers {}", transfer.refunded, transfer.refunds)
            });
            self.checks
                .transfer_messages
                .expect(!untold.contains(&id.message_id()), || format!("{id} has no message"));
            let forgotten =
                transfer.made_by_key.is_none() && transfer.created_at.plus_millis(retention) < self.now;
            if !transfer.pays_out && !transfer.takes_back {
                self.checks.transfer_keys.expect(forgotten || transfer.made_by_key == Some(id), || {
                    format!("{id} was made under a key that does not name it")
                });
            }
        }
        Ok(Phase::Transfers { after })
    }

    /// Messages about transfers: each of them must be there.
    pub(super) fn look_at_transfer_messages(
        &mut self,
        tx: &mut Tx<'_>,
        ids: &[[u8; 16]],
    ) -> Result<(), Fault> {
        // A message's id is the transfer's with one bit turned, and turned again it is the transfer's.
        let of = |id: &[u8; 16]| guerdon_core::wallet::TransferId::from_bytes(*id).message_id();
        let wanted: Vec<_> = ids.iter().map(of).collect();
        let found: HashSet<_> = wallet::transfers_of(tx, &wanted)?.into_iter().collect();
        for id in wanted {
            self.checks.transfer_messages.expect(found.contains(&id), || {
                let id = guerdon_core::wallet::TransferId::from_bytes(id);
                format!("a message about {id}, which was never made")
            });
        }
        Ok(())
    }

    pub(super) fn look_at_keys(
        &mut self,
        tx: &mut Tx<'_>,
        after: &(String, String, String),
    ) -> Result<Phase, Fault> {
        let page = wallet::keys_page(tx, after, ROWS)?;
        let Some(last) = page.last() else { return Ok(Phase::Log(None)) };
        let after = (last.key.clone(), last.client.clone(), last.scope.clone());
        self.looked_at += u64::try_from(page.len()).unwrap_or(0);
        for key in page {
            let due = i64::from(key.status.as_deref() == Some("SUCCEEDED"));
            self.checks.transfer_keys.expect(key.transfers == due, || {
                let status = key.status.as_deref().unwrap_or("unused");
                format!(
                    "{} of {} for {} is {status}, with {} transfers",
                    key.key, key.client, key.scope, key.transfers
                )
            });
            let ends_by_itself = key.status.as_deref() == Some("IN_PROGRESS") && key.scope == "TRANSFER";
            let late = |deadline: Timestamp| deadline.plus_millis(OVERDUE_MS) < self.now;
            self.checks.leases.expect(!ends_by_itself || !key.deadline.is_none_or(late), || {
                format!("the key {} of {} is past its lease", key.key, key.client)
            });
        }
        Ok(Phase::Keys { after })
    }
}
