//! The wallet: accounts, transfers between them, and the ledger that tells of each.

pub mod books;
pub mod view;

pub use books::{Book, Books, Entry, Posted, Side};

use crate::code::Code;
use crate::fields::FieldErrors;
use crate::hash::{Bytes, Hash};
use crate::id::{Currency, IdempotencyKey, UserId, uuid_id};
use crate::idempotency::{Advice, Scope};
use crate::money::Decimal;
use crate::named::named;
use crate::rejection::Rejection;
use crate::time::Timestamp;
use serde::Deserialize;
use std::fmt;
use utoipa::ToSchema;

/// An account's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(i64);

impl AccountId {
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    pub const fn number(self) -> i64 {
        self.0
    }

    /// As it stands in an address: digits, written in the one way that there is.
    pub fn parse(text: &str) -> Option<Self> {
        let number: i64 = text.parse().ok()?;
        (number >= 1 && number.to_string() == text).then_some(Self(number))
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

uuid_id! {
    /// A transfer's id: time-ordered, so that indexes append.
    TransferId
}

impl TransferId {
    /// The id of the one message that tells of it.
    pub fn message_id(&self) -> [u8; 16] {
        let mut bytes = *self.0.as_bytes();
        bytes[7] ^= 1;
        bytes
    }
}

named! {
    AccountKind {
        Member "MEMBER",
        System "SYSTEM",
    }
}

named! {
    AccountStatus {
        Active "ACTIVE",
        Frozen "FROZEN",
    }
}

/// An account and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    /// A user; of a system account, what it is for.
    pub owner: String,
    pub kind: AccountKind,
    pub currency: Currency,
    pub scale: u8,
    pub status: AccountStatus,
    /// In the currency's smallest unit.
    pub balance: i64,
    pub created_at: Timestamp,
}

impl Account {
    pub fn belongs_to(&self, user: &UserId) -> bool {
        self.kind == AccountKind::Member && self.owner == user.as_str()
    }
}

named! {
    TransferKind {
        Transfer "TRANSFER",
        Deposit "DEPOSIT",
        Refund "REFUND",
        Reward "REWARD",
        Revocation "REVOCATION",
    }
}

impl TransferKind {
    /// What others are told.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Transfer | Self::Deposit | Self::Reward => "TRANSFER_COMPLETED",
            Self::Refund | Self::Revocation => "TRANSFER_REFUNDED",
        }
    }
}

/// A transfer that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub id: TransferId,
    pub kind: TransferKind,
    pub posted: Posted,
    /// How much of it was given back since.
    pub refunded: i64,
    /// The transfer that this one gives back.
    pub refund_of: Option<TransferId>,
    /// The key that it was made under, and whose.
    pub client: UserId,
    pub key: IdempotencyKey,
}

/// What a client sends.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TransferBody {
    /// One of the caller's own.
    from_account_id: i64,
    to_account_id: i64,
    /// Exact, more than 0, with no more decimals than the currency has.
    #[schema(value_type = f64)]
    amount: Decimal,
}

/// A transfer that somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub from: AccountId,
    pub to: AccountId,
    pub amount: Decimal,
}

impl TransferBody {
    pub fn validate(self) -> Result<Order, Rejection> {
        let mut errors = FieldErrors::default();
        for (field, number) in [("fromAccountId", self.from_account_id), ("toAccountId", self.to_account_id)]
        {
            if number < 1 {
                errors.refuse(field, "must be an account's number");
            }
        }
        if self.from_account_id == self.to_account_id {
            errors.refuse("toAccountId", "must be another account than fromAccountId");
        }
        check_amount(self.amount, &mut errors);
        errors.into_result()?;
        let (from, to) = (AccountId::new(self.from_account_id), AccountId::new(self.to_account_id));
        Ok(Order { from, to, amount: self.amount })
    }
}

fn check_amount(amount: Decimal, errors: &mut FieldErrors) {
    if !amount.is_positive() {
        errors.refuse("amount", "must be more than 0");
    }
}

/// What an operator sends to put money into an account.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DepositBody {
    #[schema(value_type = f64)]
    amount: Decimal,
}

impl DepositBody {
    pub fn validate(self) -> Result<Decimal, Rejection> {
        let mut errors = FieldErrors::default();
        check_amount(self.amount, &mut errors);
        errors.into_result().map(|()| self.amount)
    }
}

/// What somebody sends to give a transfer back.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefundBody {
    /// All that is left of it unless set.
    #[serde(default)]
    #[schema(value_type = Option<f64>)]
    amount: Option<Decimal>,
}

impl RefundBody {
    pub fn validate(self) -> Result<Option<Decimal>, Rejection> {
        let mut errors = FieldErrors::default();
        if let Some(amount) = self.amount {
            check_amount(amount, &mut errors);
        }
        errors.into_result().map(|()| self.amount)
    }
}

/// What an operator sends to open an account.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AccountBody {
    /// The user whose account it is.
    owner_id: String,
    currency: String,
    /// How many decimals the currency has, 0 to 4. Its first account settles it: 0 unless set.
    #[serde(default)]
    scale: Option<u8>,
}

/// An account that an operator wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewAccount {
    pub owner: UserId,
    pub currency: Currency,
    pub scale: Option<u8>,
}

impl AccountBody {
    pub fn validate(self) -> Result<NewAccount, Rejection> {
        let mut errors = FieldErrors::default();
        let owner = errors.check("ownerId", UserId::parse(self.owner_id));
        let currency = errors.check("currency", Currency::parse(self.currency));
        if self.scale.is_some_and(|scale| scale > crate::money::SCALE_MAX) {
            errors.refuse("scale", format!("must be between 0 and {}", crate::money::SCALE_MAX));
        }
        match (owner, currency, errors.into_result()) {
            (Some(owner), Some(currency), Ok(())) => Ok(NewAccount { owner, currency, scale: self.scale }),
            (_, _, Err(rejection)) => Err(rejection),
            _ => Err(Rejection::new(Code::InvalidFields, "the account cannot be read")),
        }
    }
}

/// What somebody wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Transfer(Order),
    /// From the currency's issue account.
    Deposit {
        to: AccountId,
        amount: Decimal,
    },
    /// All that is left of the transfer, unless an amount is named.
    Refund {
        of: TransferId,
        amount: Option<Decimal>,
    },
}

impl Wish {
    pub const fn kind(&self) -> TransferKind {
        match self {
            Self::Transfer(_) => TransferKind::Transfer,
            Self::Deposit { .. } => TransferKind::Deposit,
            Self::Refund { .. } => TransferKind::Refund,
        }
    }

    /// The scope of the key that it is done under.
    pub const fn scope(&self) -> Scope {
        match self {
            Self::Transfer(_) => Scope::Transfer,
            Self::Deposit { .. } => Scope::Deposit,
            Self::Refund { .. } => Scope::Refund,
        }
    }

    /// What makes two wishes the same one: SHA-256 of the canonical JSON, fields in this order, the amount normalised.
    pub fn fingerprint(&self) -> Hash {
        Bytes::new().raw(self.canonical().as_bytes()).hash()
    }

    fn canonical(&self) -> String {
        match self {
            Self::Transfer(Order { from, to, amount }) => {
                format!(r#"{{"fromAccountId":{from},"toAccountId":{to},"amount":{amount}}}"#)
            }
            Self::Deposit { to, amount } => format!(r#"{{"accountId":{to},"amount":{amount}}}"#),
            Self::Refund { of, amount: None } => format!(r#"{{"transferId":"{of}"}}"#),
            Self::Refund { of, amount: Some(amount) } => {
                format!(r#"{{"transferId":"{of}","amount":{amount}}}"#)
            }
        }
    }
}

/// Who wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    pub user: UserId,
    /// Whether they run the place: they may give back what is not theirs.
    pub operates: bool,
}

/// A wish that can be granted, as far as can be told before the accounts are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Movement {
    pub from: AccountId,
    pub to: AccountId,
    /// In the currency's smallest unit. Of a refund that names none, what is left when its turn comes.
    pub amount: Option<i64>,
    pub refund_of: Option<TransferId>,
}

/// What an order comes to between these accounts.
pub fn check_order(
    asking: &Asking,
    order: &Order,
    from: Option<&Account>,
    to: Option<&Account>,
) -> Result<Movement, Rejection> {
    let from = from.ok_or_else(|| no_account(order.from))?;
    if !from.belongs_to(&asking.user) {
        let detail = format!("the account {} is not yours", from.id);
        return Err(Rejection::new(Code::AccountForbidden, detail));
    }
    let to = to.ok_or_else(|| no_account(order.to))?;
    if to.kind == AccountKind::System {
        let detail = format!("the account {} is the system's", to.id);
        return Err(Rejection::new(Code::AccountForbidden, detail));
    }
    if from.currency != to.currency {
        let detail = format!("{} is in {}, and {} in {}", from.id, from.currency, to.id, to.currency);
        return Err(Rejection::new(Code::CurrencyMismatch, detail));
    }
    let amount = minor_units(order.amount, from)?;
    if to.balance.checked_add(amount).is_none() {
        return Err(out_of_range(to.id));
    }
    Ok(Movement { from: from.id, to: to.id, amount: Some(amount), refund_of: None })
}

/// What a deposit comes to.
pub fn check_deposit(amount: Decimal, issue: AccountId, to: &Account) -> Result<Movement, Rejection> {
    if to.id == issue {
        return Err(Rejection::new(Code::AccountForbidden, "it is the account that deposits come from"));
    }
    let amount = minor_units(amount, to)?;
    if to.balance.checked_add(amount).is_none() {
        return Err(out_of_range(to.id));
    }
    Ok(Movement { from: issue, to: to.id, amount: Some(amount), refund_of: None })
}

/// What giving a transfer back comes to. Whoever has no part in it does not learn that it exists.
pub fn check_refund(
    asking: &Asking,
    of: &Transfer,
    receiver: &Account,
    amount: Option<Decimal>,
) -> Result<Movement, Rejection> {
    if !asking.operates && !receiver.belongs_to(&asking.user) {
        return Err(no_transfer(of.id));
    }
    if of.kind == TransferKind::Refund {
        return Err(Rejection::new(Code::TransferNotRefundable, "it is a refund itself"));
    }
    let amount = amount.map(|amount| minor_units(amount, receiver)).transpose()?;
    check_rest(of, amount)?;
    let (from, to) = (of.posted.to.account, of.posted.from.account);
    Ok(Movement { from, to, amount, refund_of: Some(of.id) })
}

/// How much is given back of a transfer, which is locked, or was just looked at.
pub fn check_rest(of: &Transfer, amount: Option<i64>) -> Result<i64, Rejection> {
    let rest = of.posted.amount - of.refunded;
    match amount.unwrap_or(rest) {
        amount if amount > 0 && amount <= rest => Ok(amount),
        _ => {
            let detail =
                if rest == 0 { "all of it was given back" } else { "that is more than what is left of it" };
            Err(Rejection::new(Code::RefundExceedsTransfer, detail))
        }
    }
}

pub fn no_account(id: AccountId) -> Rejection {
    Rejection::new(Code::AccountNotFound, format!("there is no account {id}"))
}

pub fn no_transfer(id: TransferId) -> Rejection {
    Rejection::new(Code::TransferNotFound, format!("there is no transfer {id}"))
}

fn out_of_range(id: AccountId) -> Rejection {
    Rejection::new(Code::BalanceOutOfRange, format!("the balance of {id} would be out of range"))
}

fn minor_units(amount: Decimal, account: &Account) -> Result<i64, Rejection> {
    let mut errors = FieldErrors::default();
    let minor = errors.check("amount", amount.to_minor(account.scale));
    errors.into_result()?;
    minor.ok_or_else(|| Rejection::new(Code::InvalidFields, "amount cannot be read"))
}

/// How a wish ends that was refused once its key was claimed: the answer is kept, and the key is spent.
pub fn failed(rejection: Rejection) -> Rejection {
    Advice::NewKey.on(rejection).saying("transferStatus", "FAILED")
}

/// How work ends that nobody finished in time. It was not done, and cannot be done any more.
pub fn timed_out() -> Rejection {
    failed(Rejection::new(Code::Timeout, "it was not finished in time, and nothing was moved; use a new key"))
}

#[cfg(test)]
mod tests;
