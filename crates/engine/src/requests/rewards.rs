//! What winners get.

use super::Intake;
use guerdon_core::events::{Event, Reward};
use guerdon_core::requests::ResultCode;
use guerdon_store::allocations::{self, NewAllocation};
use guerdon_store::requests::RequestRow;
use guerdon_store::{Fault, Tx};

/// Gives each winner what the event gives, and takes it from the stock.
pub(crate) fn reward(
    tx: &mut Tx<'_>,
    event: &Event,
    intake: &Intake,
    rows: &[RequestRow],
) -> Result<(), Fault> {
    let won = |row: &&RequestRow| row.state.status() == ResultCode::Success.status();
    let winners: Vec<_> = rows.iter().filter(won).collect();
    if winners.is_empty() {
        return Ok(());
    }
    let now = tx.now();
    for (ordinal, reward) in (1_u16..).zip(&event.settings.rewards) {
        let mut allocations: Vec<_> =
            winners.iter().map(|row| allocation(event, reward, ordinal, row)).collect();
        allocations.sort_by(|a, b| a.idempotency_key.cmp(&b.idempotency_key));
        let next_retry_at = now.plus_millis(intake.allocations_lease_ms);
        allocations::insert(tx, &event.id, &reward.id, now, next_retry_at, &allocations)?;
        if reward.total_stock.is_some() {
            let count = i64::try_from(winners.len()).unwrap_or(i64::MAX).saturating_mul(reward.quantity);
            if !allocations::take_stock(tx, &event.id, &reward.id, count)? {
                let text = format!("the stock of {} in {} is short of its winners", reward.id, event.id);
                return Err(Fault::Inconsistent(text));
            }
        }
    }
    Ok(())
}

fn allocation<'a>(event: &Event, reward: &Reward, ordinal: u16, row: &'a RequestRow) -> NewAllocation<'a> {
    NewAllocation {
        id: *row.id.derived(ordinal).as_bytes(),
        member_id: row.user_id.as_str(),
        request_id: row.id.as_bytes(),
        idempotency_key: format!("req-{}-{}-{}", event.id, row.user_id, reward.id),
    }
}
