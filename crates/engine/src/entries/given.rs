//! What entries give: the stock that is left, the allocations, and the news.

use crate::requests::Intake;
use guerdon_core::RewardId;
use guerdon_core::allocations::{Allocation, AllocationId, AllocationStatus, Cause};
use guerdon_core::events::Event;
use guerdon_core::requests::RequestId;
use guerdon_core::{Timestamp, Trace, UserId};
use guerdon_store::allocations::{self, NewAllocation, NewOf};
use guerdon_store::outbox::{self, OutboxEvent};
use guerdon_store::{Fault, Tx};
use serde::Serialize;
use std::collections::BTreeMap;

/// What is left of an event's limited rewards while a transaction gives them away.
pub(super) struct Stock {
    left: BTreeMap<RewardId, i64>,
    taken: BTreeMap<RewardId, i64>,
}

impl Stock {
    /// Holds all of it, in the order of the rewards' ids, before anything is drawn: whoever waits for it waits the same
    /// time whatever they will have won, and nobody waits in a circle.
    pub(super) fn hold(tx: &mut Tx<'_>, event: &Event) -> Result<Self, Fault> {
        let limited = event.settings.rewards.iter().any(|reward| reward.total_stock.is_some());
        let left = if limited { allocations::lock_stock(tx, &event.id)? } else { Vec::new() };
        Ok(Self { left: left.into_iter().collect(), taken: BTreeMap::new() })
    }

    /// Takes one grant of a reward; false where there is not enough.
    pub(super) fn take(&mut self, event: &Event, reward_id: &RewardId) -> bool {
        let Some(reward) = event.settings.reward(reward_id) else { return false };
        if reward.total_stock.is_none() {
            return true;
        }
        match self.left.get_mut(reward_id) {
            Some(left) if *left >= reward.quantity => {
                *left -= reward.quantity;
                *self.taken.entry(reward_id.clone()).or_default() += reward.quantity;
                true
            }
            _ => false,
        }
    }

    /// Writes what was taken.
    pub(super) fn write(self, tx: &mut Tx<'_>, event: &Event) -> Result<(), Fault> {
        for (reward_id, count) in self.taken {
            if !allocations::take_stock(tx, &event.id, &reward_id, count)? {
                return Err(Fault::Inconsistent(format!(
                    "the stock of {reward_id} changed while it was held"
                )));
            }
        }
        Ok(())
    }
}

/// A reward that an entry gives.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) member_id: UserId,
    pub(super) entry_id: RequestId,
    /// Which of the entry's gifts it is, from 1.
    pub(super) ordinal: u16,
    pub(super) reward_id: RewardId,
    pub(super) key: String,
    pub(super) trace: Option<Trace>,
}

impl Given {
    fn id(&self) -> AllocationId {
        AllocationId::from_bytes(*self.entry_id.derived(self.ordinal).as_bytes())
    }

    /// As it is once it is written.
    fn allocation(&self, event: &Event, provider: &str, at: Timestamp, next: Timestamp) -> Allocation {
        Allocation {
            id: self.id(),
            event_id: event.id.clone(),
            member_id: self.member_id.clone(),
            cause: Cause::Entry(self.entry_id),
            reward_id: self.reward_id.clone(),
            provider: provider.to_owned(),
            key: self.key.clone(),
            status: AllocationStatus::Pending,
            retry_count: 0,
            next_retry_at: Some(next),
            trouble: None,
            transaction_id: None,
            processed_at: None,
            epoch: 0,
            outcome_unknown: false,
            cancel_requested_at: None,
            created_at: at,
            trace: self.trace,
        }
    }
}

/// Writes what entries of one event give; the allocations, in the order of the gifts.
pub(super) fn give(
    tx: &mut Tx<'_>,
    event: &Event,
    intake: &Intake,
    gifts: &[Given],
) -> Result<Vec<Allocation>, Fault> {
    let at = tx.now();
    let next_retry_at = at.plus_millis(intake.allocations_lease_ms);
    let mut made = Vec::with_capacity(gifts.len());
    for reward in &event.settings.rewards {
        let provider = reward.provider_name();
        let mut of_reward: Vec<_> = gifts.iter().filter(|gift| gift.reward_id == reward.id).collect();
        if of_reward.is_empty() {
            continue;
        }
        of_reward.sort_by(|a, b| a.key.cmp(&b.key));
        let rows: Vec<_> = of_reward
            .iter()
            .map(|gift| NewAllocation {
                id: gift.id(),
                member_id: gift.member_id.as_str(),
                cause: Cause::Entry(gift.entry_id),
                key: gift.key.clone(),
            })
            .collect();
        let of = NewOf { event_id: &event.id, reward_id: &reward.id, provider, at, next_retry_at };
        let written = allocations::insert(tx, of, &rows)?;
        if usize::try_from(written) != Ok(rows.len()) {
            // An entry is new, and its keys with it.
            return Err(Fault::Inconsistent(format!("keys of new entries in {} are taken", event.id)));
        }
        made.extend(of_reward.iter().map(|gift| gift.allocation(event, provider, at, next_retry_at)));
    }
    Ok(made)
}

/// Whose lane delivers what was given.
pub(super) fn lanes<'a>(
    made: impl IntoIterator<Item = &'a Allocation>,
) -> impl Iterator<Item = (&'a str, AllocationId)> {
    made.into_iter().map(|allocation| (allocation.provider.as_str(), allocation.id))
}

/// Writes the news of entries, one for each.
pub(super) fn tell(
    tx: &mut Tx<'_>,
    intake: &Intake,
    event_type: &str,
    entries: impl IntoIterator<Item = (RequestId, impl Serialize)>,
) -> Result<(), Fault> {
    let mut news = Vec::new();
    for (id, told) in entries {
        let payload = serde_json::to_string(&told).map_err(|error| Fault::Inconsistent(error.to_string()))?;
        let message = *id.derived(0).as_bytes();
        news.push(OutboxEvent { id: message, sequence: 1, aggregate_id: id.to_string(), payload });
    }
    let publishing = intake.publishing;
    let batch = outbox::Batch { aggregate_type: "ENTRY", event_type, created_at: tx.now(), publishing };
    outbox::append(tx, batch, &news)
}
