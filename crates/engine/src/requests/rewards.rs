//! What winners get.

use super::Intake;
use guerdon_core::allocations::{AllocationId, Cause, key};
use guerdon_core::events::{Event, Reward};
use guerdon_core::requests::{RequestId, ResultCode};
use guerdon_store::allocations::{self, NewAllocation, NewOf};
use guerdon_store::requests::RequestRow;
use guerdon_store::{Fault, Tx};
use std::sync::Arc;

/// Gives each winner what the event gives, and takes it from the stock.
pub(crate) fn reward(
    tx: &mut Tx<'_>,
    event: &Event,
    intake: &Intake,
    rows: &[RequestRow],
) -> Result<Won, Fault> {
    let won = |row: &&RequestRow| row.state.status() == ResultCode::Success.status();
    let winners: Vec<_> = rows.iter().filter(won).collect();
    if winners.is_empty() || event.settings.rewards.is_empty() {
        return Ok(Won::default());
    }
    let now = tx.now();
    for (ordinal, reward) in (1_u16..).zip(&event.settings.rewards) {
        let mut allocations: Vec<_> =
            winners.iter().map(|row| allocation(event, reward, ordinal, row)).collect();
        allocations.sort_by(|a, b| a.key.cmp(&b.key));
        let of = NewOf {
            event_id: &event.id,
            reward_id: &reward.id,
            provider: reward.provider_name(),
            at: now,
            next_retry_at: now.plus_millis(intake.allocations_lease_ms),
        };
        allocations::insert(tx, of, &allocations)?;
        if reward.total_stock.is_some() {
            let count = i64::try_from(winners.len()).unwrap_or(i64::MAX).saturating_mul(reward.quantity);
            if !allocations::take_stock(tx, &event.id, &reward.id, count)? {
                let text = format!("the stock of {} in {} is short of its winners", reward.id, event.id);
                return Err(Fault::Inconsistent(text));
            }
        }
    }
    let providers = event.settings.rewards.iter().map(|reward| reward.provider_name().to_owned());
    Ok(Won(Some(providers.collect())))
}

/// Who delivers what was won, in the order of the event's rewards.
#[derive(Clone, Debug, Default)]
pub(crate) struct Won(Option<Arc<[String]>>);

impl Won {
    /// What was won by a request.
    pub(crate) fn by(&self, id: RequestId) -> impl Iterator<Item = (&str, AllocationId)> {
        let providers = self.0.iter().flat_map(|providers| providers.iter());
        providers.zip(1_u16..).map(move |(provider, ordinal)| (provider.as_str(), allocation_id(id, ordinal)))
    }
}

fn allocation_id(request: RequestId, ordinal: u16) -> AllocationId {
    AllocationId::from_bytes(*request.derived(ordinal).as_bytes())
}

fn allocation<'a>(event: &Event, reward: &Reward, ordinal: u16, row: &'a RequestRow) -> NewAllocation<'a> {
    NewAllocation {
        id: allocation_id(row.id, ordinal),
        member_id: row.user_id.as_str(),
        cause: Cause::Request(row.id),
        key: key::of_request(&event.id, &row.user_id, &reward.id),
    }
}
