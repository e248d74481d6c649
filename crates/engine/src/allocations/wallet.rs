//! Delivery through the wallet: the money moves, and the row is done, in one transaction. It cannot be half done, and
//! the transfer's id is made from the allocation's, so that the store itself keeps a second one from being made.

use super::lane::{BATCH, Lane, Look, WALLET};
use super::news;
use crate::engine::Engine;
use crate::wallet::Desk;
use guerdon_core::allocations::{Allocation, AllocationId, AllocationStatus, Outcome, Rules, settle};
use guerdon_core::events::{Event, RewardKind};
use guerdon_core::money::Decimal;
use guerdon_core::wallet::view::TransferNews;
use guerdon_core::wallet::{AccountId, Books, Transfer, TransferKind};
use guerdon_core::{Currency, EventId, IdempotencyKey, RewardId, UserId};
use guerdon_store::allocations::{give_back, moving};
use guerdon_store::outbox::Publishing;
use guerdon_store::wallet::accounts;
use guerdon_store::wallet::transfers::{self, Made};
use guerdon_store::{Command, Fault, Priority, Stopwatch, Tx, each, events};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Rows that are paid out in one transaction.
const STEP_MAX: usize = 200;
/// How long it rests after some work, against the work itself, and at the most.
const REST: u32 = 3;
const REST_MAX: Duration = Duration::from_millis(50);
const RETRY: Duration = Duration::from_millis(100);

pub(super) async fn run(engine: &Weak<Engine>, lane: &Arc<Lane>) {
    let mut look = Look::now();
    let mut turn = 0_u32;
    loop {
        let Some(strong) = engine.upgrade() else { return };
        if lane.was_asked() {
            look = Look::now();
        }
        let now = strong.now();
        turn = turn.wrapping_add(1);
        // Now and then what is due comes first, however many are new.
        let most = if look.is_due(now) && turn.is_multiple_of(4) { STEP_MAX / 2 } else { STEP_MAX };
        let mut wanted = lane.take_fresh(most);
        let most = (STEP_MAX - wanted.len()).min(BATCH);
        if most > 0 && look.is_due(now) {
            let limit = i64::try_from(most).unwrap_or(i64::MAX);
            if let Ok(due) = strong.read_first(move |tx| moving::due(tx, WALLET, now, limit)).await {
                look.looked(due.len(), most, now, strong.deliveries.options.retry_interval);
                wanted.extend(due);
            }
        }
        if wanted.is_empty() {
            let pause = look.pause(now);
            drop(strong);
            tokio::select! {
                () = lane.bell.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            continue;
        }
        wanted.sort_unstable();
        wanted.dedup();
        let (count, started) = (wanted.len(), Stopwatch::start());
        let pay = PayOut {
            wanted,
            rules: strong.deliveries.rules(),
            publishing: strong.intake().publishing,
            desk: Arc::clone(&strong.desk),
        };
        match strong.commit_patiently(pay).await {
            Ok(paid) => {
                for row in &paid {
                    strong.count_delivery(row);
                }
                drop(strong);
                if count < STEP_MAX {
                    // Whoever is in line goes first, and more come together meanwhile.
                    tokio::time::sleep((started.elapsed() * REST).min(REST_MAX)).await;
                }
            }
            Err(failure) => {
                // What was to be paid is due when its lease ends.
                tracing::warn!(%failure, "rewards are paid out later");
                drop(strong);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

struct PayOut {
    wanted: Vec<AllocationId>,
    rules: Rules,
    publishing: Publishing,
    desk: Arc<Desk>,
}

impl Command for PayOut {
    type Output = Vec<Allocation>;
    const NAME: &'static str = "pay_out";
    const PRIORITY: Priority = Priority::Following;
    const FOLLOWS: bool = true;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        each(batch, |pay| pay.run(tx))
    }

    fn committed(done: &[(&Self, &Self::Output)]) {
        for (pay, rows) in done {
            let paid = rows.iter().filter(|row| row.status == AllocationStatus::Success);
            pay.desk.owe(paid.map(|row| row.id.transfer_id()));
        }
    }
}

/// What is to be paid to whom, or why it cannot be.
pub(crate) type Plan = Result<(AccountId, AccountId, i64), String>;

/// Somebody who is paid a reward of points.
pub(crate) trait Payable {
    fn event_id(&self) -> &EventId;
    fn reward_id(&self) -> &RewardId;
    fn member_id(&self) -> &UserId;
}

impl Payable for Allocation {
    fn event_id(&self) -> &EventId {
        &self.event_id
    }

    fn reward_id(&self) -> &RewardId {
        &self.reward_id
    }

    fn member_id(&self) -> &UserId {
        &self.member_id
    }
}

impl PayOut {
    fn run(&self, tx: &mut Tx<'_>) -> Result<Vec<Allocation>, Fault> {
        let now = tx.now();
        let mut rows = moving::lock(tx, &self.wanted)?;
        rows.retain(|row| {
            row.provider == WALLET
                && match row.status {
                    AllocationStatus::Pending => !row.is_final(),
                    AllocationStatus::Failed => row.next_retry_at.is_some_and(|at| at <= now),
                    _ => false,
                }
        });
        let plans = plan(tx, &rows)?;
        let wanted: BTreeSet<_> = plans.iter().flatten().flat_map(|(from, to, _)| [*from, *to]).collect();
        let mut books = accounts::lock(tx, &wanted)?;
        let mut made = Vec::with_capacity(rows.len());
        let mut settled = Vec::with_capacity(rows.len());
        for (row, plan) in rows.into_iter().zip(plans) {
            let outcome = match plan {
                Err(reason) => Outcome::Refused { reason },
                Ok((from, to, amount)) => match books.post(from, to, amount, now) {
                    Err(rejection) => {
                        Outcome::NotApplied { reason: rejection.to_string(), retry_after_ms: None }
                    }
                    Ok(posted) => {
                        let transfer = Transfer {
                            id: row.id.transfer_id(),
                            kind: TransferKind::Reward,
                            posted,
                            refunded: 0,
                            refund_of: None,
                            client: row.member_id.clone(),
                            key: IdempotencyKey::parse(row.id.to_string()).map_err(Fault::Inconsistent)?,
                        };
                        tx.follow(&transfer.id, row.trace);
                        made.push(told(transfer, &books, from)?);
                        Outcome::Applied { transaction_id: Some(row.id.transfer_id().to_string()) }
                    }
                },
            };
            settled.push(settle(row, (&outcome, false), now, &self.rules, crate::Entropy.number()));
        }
        transfers::write(tx, &books, &made, self.publishing)?;
        moving::write(tx, &settled.iter().collect::<Vec<_>>())?;
        let cancelled: Vec<_> =
            settled.iter().filter(|row| row.status == AllocationStatus::Cancelled).collect();
        give_back(tx, &cancelled)?;
        news::tell(tx, self.publishing, &settled)?;
        Ok(settled)
    }
}

pub(crate) fn told(transfer: Transfer, books: &Books, from: AccountId) -> Result<Made, Fault> {
    let book = books.book(from).map_err(|rejection| Fault::Inconsistent(rejection.to_string()))?;
    let payload = serde_json::to_string(&TransferNews::of(&transfer, &book.currency, book.scale))
        .map_err(|error| Fault::Inconsistent(error.to_string()))?;
    Ok(Made { transfer, payload })
}

/// Which accounts, and how much.
pub(crate) fn plan<P: Payable>(tx: &mut Tx<'_>, rows: &[P]) -> Result<Vec<Plan>, Fault> {
    let mut known: HashMap<EventId, Event> = HashMap::new();
    let mut currencies: BTreeMap<Currency, (u8, AccountId)> = BTreeMap::new();
    let mut plans = Vec::with_capacity(rows.len());
    let owned = owned(tx, rows, &mut known)?;
    for row in rows {
        let Some((currency, amount, quantity)) = worth(&known, row) else {
            plans.push(Err(format!("{} is no reward of points", row.reward_id())));
            continue;
        };
        let Some(account) = owned.get(&(row.member_id().to_string(), currency.clone())).copied() else {
            return Err(Fault::Inconsistent(format!("{} has no account in {currency}", row.member_id())));
        };
        let (scale, issue) = match currencies.get(&currency) {
            Some(known) => *known,
            None => {
                let odd = || Fault::Inconsistent(format!("{currency} has no issue account"));
                let found = accounts::currency(tx, &currency)?.ok_or_else(odd)?;
                currencies.insert(currency.clone(), (found.scale, found.issue));
                (found.scale, found.issue)
            }
        };
        let minor = amount.to_minor(scale).ok().and_then(|minor| minor.checked_mul(quantity));
        plans.push(minor.map(|minor| (issue, account, minor)).ok_or_else(|| {
            format!("{amount} {currency} has more decimals than the {scale} of its currency, or is too much")
        }));
    }
    Ok(plans)
}

/// As many decimals as any reward of the event has in this currency.
fn scale_of(known: &HashMap<EventId, Event>, row: &impl Payable, currency: &Currency) -> u8 {
    let rewards =
        known.get(row.event_id()).map(|event| event.settings.rewards.as_slice()).unwrap_or_default();
    let scales = rewards.iter().filter_map(|reward| match &reward.kind {
        RewardKind::Point { amount, currency: of } if of == currency.as_str() => Some(amount.scale()),
        _ => None,
    });
    scales.max().unwrap_or(0)
}

/// What a row is worth: the currency, the amount and how often.
fn worth(known: &HashMap<EventId, Event>, row: &impl Payable) -> Option<(Currency, Decimal, i64)> {
    let reward = known.get(row.event_id())?.settings.reward(row.reward_id())?;
    match &reward.kind {
        RewardKind::Point { amount, currency } => {
            Some((Currency::parse(currency.as_str()).ok()?, *amount, reward.quantity))
        }
        RewardKind::Coupon { .. } | RewardKind::Item => None,
    }
}

/// The winners' accounts, which are opened where they are missing, with their events read on the way.
fn owned<P: Payable>(
    tx: &mut Tx<'_>,
    rows: &[P],
    known: &mut HashMap<EventId, Event>,
) -> Result<HashMap<(String, Currency), AccountId>, Fault> {
    let mut pairs = Vec::with_capacity(rows.len());
    for row in rows {
        if !known.contains_key(row.event_id()) {
            known.extend(events::find(tx, row.event_id())?.map(|event| (row.event_id().clone(), event)));
        }
        pairs.extend(worth(known, row).map(|(currency, ..)| (row.member_id().as_str(), currency)));
    }
    let found = accounts::find_many_owned(tx, &pairs)?;
    let mut owned: HashMap<_, _> =
        found.into_iter().map(|account| ((account.owner, account.currency), account.id)).collect();
    // A currency that nobody has heard of gets as many decimals as its event's rewards need.
    let mut missing: BTreeMap<Currency, (BTreeSet<&str>, u8)> = BTreeMap::new();
    for row in rows {
        let Some((currency, ..)) = worth(known, row) else { continue };
        if !owned.contains_key(&(row.member_id().to_string(), currency.clone())) {
            let scale = scale_of(known, row, &currency);
            let (owners, most) = missing.entry(currency).or_default();
            owners.insert(row.member_id().as_str());
            *most = scale.max(*most);
        }
    }
    for (currency, (owners, scale)) in missing {
        let owners: Vec<_> = owners.into_iter().collect();
        for (owner, account) in accounts::open_many(tx, &owners, &currency, scale)? {
            owned.insert((owner, currency.clone()), account);
        }
    }
    Ok(owned)
}
