//! Looking at accounts, transfers and statements.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::wallet::view::{EntryView, TransferView};
use guerdon_core::wallet::{Account, AccountId, TransferId, no_account, no_transfer};
use guerdon_core::{Code, Rejection, Timestamp, UserId};
use guerdon_store::wallet::{accounts, ledger, transfers};
use std::collections::BTreeSet;

/// The place of an entry in a statement.
pub use guerdon_store::wallet::ledger::EntryPlace;

impl Engine {
    /// An account; for a user only their own. With a time, what it held then.
    pub async fn account(
        &self,
        id: AccountId,
        of: Option<&UserId>,
        at: Option<Timestamp>,
    ) -> Result<Account, Failure> {
        let found = self.read(move |tx| {
            let Some(mut account) = accounts::find(tx, &BTreeSet::from([id]))?.remove(&id) else {
                return Ok(None);
            };
            if let Some(at) = at {
                let slots = accounts::slots(tx, id)?;
                account.balance = ledger::balance_at(tx, id, &slots, at)?;
            }
            Ok(Some(account))
        });
        let account = found.await?.ok_or_else(|| no_account(id))?;
        check_owner(&account, of)?;
        Ok(account)
    }

    /// The accounts of a user, by currency.
    pub async fn accounts_of(
        &self,
        owner: &UserId,
        request: PageRequest<String>,
    ) -> Result<Page<Account, String>, Failure> {
        let (owner, rows) = (owner.clone(), request.rows());
        let after = request.after.clone().unwrap_or_default();
        let found = self.read(move |tx| accounts::of_owner(tx, &owner, &after, rows)).await?;
        Ok(request.page(found, |account| account.currency.to_string()))
    }

    /// All accounts in the order of their numbers.
    pub async fn all_accounts(&self, request: PageRequest<i64>) -> Result<Page<Account, i64>, Failure> {
        let (after, rows) = (request.after.unwrap_or(i64::MIN), request.rows());
        let found = self.read(move |tx| accounts::list(tx, after, rows)).await?;
        Ok(request.page(found, |account| account.id.number()))
    }

    /// An account's entries, the newest first, up to a time where one is given.
    pub async fn entries(
        &self,
        id: AccountId,
        of: Option<&UserId>,
        up_to: Option<Timestamp>,
        request: PageRequest<EntryPlace>,
    ) -> Result<Page<EntryView, EntryPlace>, Failure> {
        let rows = request.rows();
        let newest = (up_to.unwrap_or(Timestamp::MAX), i64::MAX, i64::MAX);
        let before = request.after.unwrap_or(newest).min(newest);
        let found = self.read(move |tx| {
            let Some(account) = accounts::find(tx, &BTreeSet::from([id]))?.remove(&id) else {
                return Ok(None);
            };
            let slots = accounts::slots(tx, id)?;
            Ok(Some((account, ledger::entries(tx, id, &slots, before, rows)?)))
        });
        let (account, entries) = found.await?.ok_or_else(|| no_account(id))?;
        check_owner(&account, of)?;
        let page = request.page(entries, |entry| (entry.created_at, entry.slot, entry.number));
        let items = page.items.iter().map(|entry| EntryView::of(entry, account.scale)).collect();
        Ok(Page { items, next: page.next })
    }

    /// A transfer; for a user only one that they have a part in.
    pub async fn transfer(&self, id: TransferId, of: Option<&UserId>) -> Result<TransferView, Failure> {
        let found = self.read(move |tx| {
            let Some(transfer) = transfers::find(tx, id)? else { return Ok(None) };
            let parties = BTreeSet::from([transfer.posted.from.account, transfer.posted.to.account]);
            let parties: Vec<_> = accounts::find(tx, &parties)?.into_values().collect();
            Ok(Some((transfer, parties)))
        });
        let found = found.await?.filter(|(_, parties)| {
            of.is_none_or(|user| parties.iter().any(|account| account.belongs_to(user)))
        });
        let (transfer, parties) = found.ok_or_else(|| no_transfer(id))?;
        let account = parties.first().ok_or_else(|| no_transfer(id))?;
        Ok(TransferView::of(&transfer, &account.currency, account.scale))
    }
}

fn check_owner(account: &Account, of: Option<&UserId>) -> Result<(), Rejection> {
    if of.is_none_or(|user| account.belongs_to(user)) {
        return Ok(());
    }
    Err(Rejection::new(Code::AccountForbidden, format!("the account {} is not yours", account.id)))
}
