//! How accounts, transfers and entries read.

use super::{Account, AccountId, AccountStatus, Posted, Side, Transfer, TransferId, TransferKind};
use crate::id::Currency;
use crate::money::Decimal;
use crate::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A key that we issued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    pub idempotency_key: String,
    pub scope: &'static str,
    /// Until when it can be used for the first time.
    #[schema(value_type = i64)]
    pub expires_at: Timestamp,
}

/// What the caller of a transfer reads: all of it, and the same again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub transfer_id: String,
    pub status: &'static str,
}

impl Receipt {
    pub fn of(id: TransferId) -> Self {
        Self { transfer_id: id.to_string(), status: "SUCCEEDED" }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccountView {
    pub account_id: i64,
    pub owner_id: String,
    pub currency: String,
    /// How many decimals the currency has.
    pub scale: u8,
    #[schema(value_type = f64)]
    pub balance: Decimal,
    pub status: AccountStatus,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
    /// The moment that the balance is of, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<i64>)]
    pub at: Option<Timestamp>,
}

impl From<Account> for AccountView {
    fn from(account: Account) -> Self {
        Self {
            account_id: account.id.number(),
            balance: Decimal::from_minor(account.balance, account.scale),
            owner_id: account.owner,
            currency: account.currency.into(),
            scale: account.scale,
            status: account.status,
            created_at: account.created_at,
            at: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransferView {
    pub transfer_id: String,
    pub kind: TransferKind,
    pub from_account_id: i64,
    pub to_account_id: i64,
    #[schema(value_type = f64)]
    pub amount: Decimal,
    pub currency: String,
    /// A transfer that exists was made.
    pub status: &'static str,
    /// How much of it was given back.
    #[schema(value_type = f64)]
    pub refunded: Decimal,
    /// The transfer that this one gives back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund_of: Option<String>,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
}

impl TransferView {
    pub fn of(transfer: &Transfer, currency: &Currency, scale: u8) -> Self {
        Self {
            transfer_id: transfer.id.to_string(),
            kind: transfer.kind,
            from_account_id: transfer.posted.from.account.number(),
            to_account_id: transfer.posted.to.account.number(),
            amount: Decimal::from_minor(transfer.posted.amount, scale),
            currency: currency.to_string(),
            status: "SUCCEEDED",
            refunded: Decimal::from_minor(transfer.refunded, scale),
            refund_of: transfer.refund_of.map(|id| id.to_string()),
            created_at: transfer.posted.at,
        }
    }
}

/// What others are told of a transfer.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TransferNews<'a> {
    pub transfer_id: String,
    pub kind: TransferKind,
    pub from_account_id: i64,
    pub to_account_id: i64,
    #[schema(value_type = f64)]
    pub amount: Decimal,
    pub currency: &'a str,
    /// The transfer that this one gives back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refund_of: Option<String>,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
}

impl<'a> TransferNews<'a> {
    pub fn of(transfer: &Transfer, currency: &'a Currency, scale: u8) -> Self {
        let Posted { from, to, amount, at } = transfer.posted;
        Self {
            transfer_id: transfer.id.to_string(),
            kind: transfer.kind,
            from_account_id: from.account.number(),
            to_account_id: to.account.number(),
            amount: Decimal::from_minor(amount, scale),
            currency: currency.as_str(),
            refund_of: transfer.refund_of.map(|id| id.to_string()),
            created_at: at,
        }
    }
}

/// A line of an account's statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    pub transfer: TransferId,
    pub account: AccountId,
    pub slot: i64,
    pub number: i64,
    pub side: Side,
    pub amount: i64,
    pub balance_after: i64,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EntryView {
    pub entry_id: String,
    pub transfer_id: String,
    pub account_id: i64,
    pub side: Side,
    #[schema(value_type = f64)]
    pub amount: Decimal,
    /// What the account held after it; of a system account that several servers pay out of, this server's share.
    #[schema(value_type = f64)]
    pub balance_after: Decimal,
    #[schema(value_type = i64)]
    pub created_at: Timestamp,
}

impl EntryView {
    pub fn of(entry: &LedgerEntry, scale: u8) -> Self {
        Self {
            entry_id: format!("{}-{}", entry.transfer, entry.side.as_str()),
            transfer_id: entry.transfer.to_string(),
            account_id: entry.account.number(),
            side: entry.side,
            amount: Decimal::from_minor(entry.amount, scale),
            balance_after: Decimal::from_minor(entry.balance_after, scale),
            created_at: entry.created_at,
        }
    }
}
