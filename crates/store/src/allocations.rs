//! Allocations: rewards that somebody has won and a provider has to deliver.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::{EventId, RewardId, Timestamp};

statements! {
    INSERT = "INSERT INTO event_reward_allocation (allocation_id, event_id, member_id, request_id, reward_id,
            reward_status, idempotency_key, retry_count, next_retry_at, epoch, outcome_unknown, created_at)
        VALUES ($1, $2, $3, $4, $5, 'PENDING', $6, 0, $7, 0, 0, $8) ON CONFLICT (idempotency_key) DO NOTHING",
        postgres: "INSERT INTO event_reward_allocation (allocation_id, event_id, member_id, request_id, reward_id,
            reward_status, idempotency_key, retry_count, next_retry_at, epoch, outcome_unknown, created_at)
        SELECT id, $2, member_id, request_id, $5, 'PENDING', key, 0, $7, 0, 0, $8
        FROM unnest(CAST($1 AS BYTEA[]), CAST($3 AS TEXT[]), CAST($4 AS BYTEA[]), CAST($6 AS TEXT[]))
            AS row (id, member_id, request_id, key)
        ON CONFLICT (idempotency_key) DO NOTHING";
    TAKE_STOCK = "UPDATE event_rewards SET remaining_stock = remaining_stock - $3
        WHERE event_id = $1 AND reward_id = $2 AND remaining_stock >= $3";
    CANCEL = "UPDATE event_reward_allocation SET reward_status = 'CANCELLED', next_retry_at = NULL, processed_at = $2
        WHERE allocation_id IN (SELECT allocation_id FROM event_reward_allocation
            WHERE event_id = $1 AND reward_status IN ('PENDING', 'FAILED') AND outcome_unknown = 0
            ORDER BY allocation_id LIMIT $3)
        AND reward_status IN ('PENDING', 'FAILED') RETURNING reward_id";
    GIVE_BACK_STOCK = "UPDATE event_rewards SET remaining_stock = remaining_stock + quantity * $3
        WHERE event_id = $1 AND reward_id = $2 AND total_stock IS NOT NULL";
}

/// What a winner gets of one reward.
#[derive(Clone, Debug)]
pub struct NewAllocation<'a> {
    pub id: [u8; 16],
    pub member_id: &'a str,
    pub request_id: &'a [u8],
    pub idempotency_key: String,
}

/// Writes allocations of one reward; a key that is there already is left alone.
pub fn insert(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    reward_id: &RewardId,
    at: Timestamp,
    next_retry_at: Timestamp,
    allocations: &[NewAllocation<'_>],
) -> Result<(), Fault> {
    let (event_id, reward_id) = (event_id.as_str(), reward_id.as_str());
    if tx.engine() == Engine::Sqlite {
        let rows = allocations.iter().map(|allocation| -> [Param<'_>; 8] {
            [
                Param::Blob(&allocation.id),
                event_id.into(),
                allocation.member_id.into(),
                Param::Blob(allocation.request_id),
                reward_id.into(),
                (&allocation.idempotency_key).into(),
                next_retry_at.into(),
                at.into(),
            ]
        });
        return tx.execute_rows(&INSERT, rows).map(drop);
    }
    let ids: Vec<&[u8]> = allocations.iter().map(|allocation| allocation.id.as_slice()).collect();
    let members: Vec<_> = allocations.iter().map(|allocation| allocation.member_id).collect();
    let requests: Vec<_> = allocations.iter().map(|allocation| allocation.request_id).collect();
    let keys: Vec<_> = allocations.iter().map(|allocation| allocation.idempotency_key.as_str()).collect();
    let params = [
        Param::Blobs(&ids),
        event_id.into(),
        Param::Texts(&members),
        Param::Blobs(&requests),
        reward_id.into(),
        Param::Texts(&keys),
        next_retry_at.into(),
        at.into(),
    ];
    tx.execute(&INSERT, &params).map(drop)
}

/// Takes from a limited reward's stock; false when there is not enough, and then nothing was taken.
pub fn take_stock(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    reward_id: &RewardId,
    count: i64,
) -> Result<bool, Fault> {
    let params = [event_id.as_str().into(), reward_id.as_str().into(), count.into()];
    Ok(tx.execute(&TAKE_STOCK, &params)? == 1)
}

/// Cancels some of an event's allocations that nobody is delivering, and gives their stock back; how many.
pub fn cancel(tx: &mut Tx<'_>, event_id: &EventId, at: Timestamp, limit: i64) -> Result<i64, Fault> {
    let params = [event_id.as_str().into(), at.into(), limit.into()];
    let mut rewards = tx.query(&CANCEL, &params, |row| Ok(row.text(0)?.to_owned()))?;
    rewards.sort_unstable();
    for same in rewards.chunk_by(|a, b| a == b) {
        let count = i64::try_from(same.len()).map_err(|_| Fault::inconsistent("too many allocations"))?;
        tx.execute(&GIVE_BACK_STOCK, &[event_id.as_str().into(), (&same[0]).into(), count.into()])?;
    }
    i64::try_from(rewards.len()).map_err(|_| Fault::inconsistent("too many allocations"))
}
