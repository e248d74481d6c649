//! Transaction A: the key is claimed, for a wish that makes sense.

use crate::idempotency::{Begun, Brought, begin};
use guerdon_core::Rejection;
use guerdon_core::idempotency::KeyName;
use guerdon_core::wallet::{
    AccountId, Asking, Movement, Transfer, TransferId, Wish, check_deposit, check_order, check_refund,
    no_account, no_transfer,
};
use guerdon_store::wallet::{accounts, transfers};
use guerdon_store::{Command, Fault, Priority, Tx};
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Begin {
    pub(super) name: KeyName,
    pub(super) wish: Wish,
    pub(super) asking: Asking,
    pub(super) resource: [u8; 16],
    pub(super) lease_ms: i64,
}

impl Command for Begin {
    type Output = Begun<Movement>;
    const NAME: &'static str = "begin_transfer";
    const PRIORITY: Priority = Priority::Intake;
    // A claim that is lost was never made, and the money has not moved: whoever asks again begins again. The transfer
    // that follows it is synced, and the claim with it.
    const DURABLE: bool = false;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        let Some(lease_ms) = batch.first().map(|begin| begin.lease_ms) else { return Ok(Vec::new()) };
        let brought: Vec<_> = batch
            .iter()
            .map(|call| Brought {
                name: &call.name,
                fingerprint: call.wish.fingerprint(),
                resource: call.resource,
            })
            .collect();
        begin(tx, &brought, lease_ms, |tx, numbers| {
            let calls: Vec<_> = numbers.iter().map(|number| &batch[*number]).collect();
            plan(tx, &calls)
        })
    }
}

/// What each wish comes to, as far as can be told before the accounts are locked.
fn plan(tx: &mut Tx<'_>, calls: &[&Begin]) -> Result<Vec<Result<Movement, Rejection>>, Fault> {
    let mut originals = BTreeMap::<TransferId, Transfer>::new();
    for call in calls {
        if let Wish::Refund { of, .. } = call.wish {
            originals.extend(transfers::find(tx, of)?.map(|transfer| (of, transfer)));
        }
    }
    let mut wanted = BTreeSet::<AccountId>::new();
    for call in calls {
        match call.wish {
            Wish::Transfer(order) => wanted.extend([order.from, order.to]),
            Wish::Deposit { to, .. } => wanted.extend([to]),
            Wish::Refund { of, .. } => wanted.extend(originals.get(&of).map(|of| of.posted.to.account)),
        }
    }
    let found = accounts::find(tx, &wanted)?;
    let mut plans = Vec::with_capacity(calls.len());
    for call in calls {
        plans.push(match call.wish {
            Wish::Transfer(order) => {
                check_order(&call.asking, &order, found.get(&order.from), found.get(&order.to))
            }
            Wish::Deposit { to, amount } => match found.get(&to) {
                None => Err(no_account(to)),
                Some(account) => {
                    let currency = accounts::currency(tx, &account.currency)?;
                    let odd = || Fault::Inconsistent(format!("{} has no issue account", account.currency));
                    check_deposit(amount, currency.ok_or_else(odd)?.issue, account)
                }
            },
            Wish::Refund { of, amount } => {
                let original = originals.get(&of);
                let receiver = original.and_then(|original| found.get(&original.posted.to.account));
                match (original, receiver) {
                    (Some(original), Some(receiver)) => {
                        check_refund(&call.asking, original, receiver, amount)
                    }
                    _ => Err(no_transfer(of)),
                }
            }
        });
    }
    Ok(plans)
}
