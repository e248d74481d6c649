//! Allocations: rewards that somebody has won and a provider has to deliver.

pub mod listing;
pub mod moving;
pub mod retries;

use crate::database::Engine;
use crate::fault::Fault;
use crate::outbox::traceparent;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::allocations::{Allocation, AllocationId, AllocationStatus, Cause, Trouble};
use guerdon_core::requests::RequestId;
use guerdon_core::{EventId, RewardId, Timestamp, Trace, UserId};

macro_rules! allocation_columns {
    () => {
        "allocation_id, event_id, member_id, request_id, entry_id, reward_id, provider, idempotency_key, reward_status,
        retry_count, next_retry_at, error_code, error_message, external_transaction_id, processed_at, epoch,
        outcome_unknown, cancel_requested_at, created_at, trace"
    };
}
pub(crate) use allocation_columns;

statements! {
    INSERT = "INSERT INTO event_reward_allocation (allocation_id, event_id, member_id, request_id, entry_id, reward_id,
            provider, reward_status, idempotency_key, retry_count, next_retry_at, epoch, outcome_unknown, created_at,
            trace)
        VALUES ($1, $2, $3, NULLIF($4, x''), NULLIF($5, x''), $6, $7, 'PENDING', $8, 0, $9, 0, 0, $10, NULLIF($11, ''))
        ON CONFLICT (idempotency_key) DO NOTHING",
        postgres: "INSERT INTO event_reward_allocation (allocation_id, event_id, member_id, request_id, entry_id,
            reward_id, provider, reward_status, idempotency_key, retry_count, next_retry_at, epoch, outcome_unknown,
            created_at, trace)
        SELECT id, $2, member_id, NULLIF(request_id, CAST('' AS BYTEA)), NULLIF(entry_id, CAST('' AS BYTEA)), $6, $7,
            'PENDING', key, 0, $9, 0, 0, $10, NULLIF(trace, '')
        FROM unnest(CAST($1 AS BYTEA[]), CAST($3 AS TEXT[]), CAST($4 AS BYTEA[]), CAST($5 AS BYTEA[]),
            CAST($8 AS TEXT[]), CAST($11 AS TEXT[])) AS row (id, member_id, request_id, entry_id, key, trace)
        ON CONFLICT (idempotency_key) DO NOTHING";
    LOCK_STOCK = "SELECT reward_id, remaining_stock FROM event_rewards
        WHERE event_id = $1 AND remaining_stock IS NOT NULL ORDER BY reward_id",
        postgres: "SELECT reward_id, remaining_stock FROM event_rewards
        WHERE event_id = $1 AND remaining_stock IS NOT NULL ORDER BY reward_id FOR UPDATE";
    TAKE_STOCK = "UPDATE event_rewards SET remaining_stock = remaining_stock - $3
        WHERE event_id = $1 AND reward_id = $2 AND remaining_stock >= $3";
    GIVE_BACK_STOCK = "UPDATE event_rewards SET remaining_stock = remaining_stock + quantity * $3
        WHERE event_id = $1 AND reward_id = $2 AND total_stock IS NOT NULL";
}

/// What a winner gets of one reward.
#[derive(Clone, Debug)]
pub struct NewAllocation<'a> {
    pub id: AllocationId,
    pub member_id: &'a str,
    pub cause: Cause,
    pub key: String,
}

/// Which reward some allocations are of, and when they are looked after if nobody delivers them.
#[derive(Clone, Copy, Debug)]
pub struct NewOf<'a> {
    pub event_id: &'a EventId,
    pub reward_id: &'a RewardId,
    pub provider: &'a str,
    pub at: Timestamp,
    pub next_retry_at: Timestamp,
}

/// Writes allocations of one reward; a key that is there already is left alone. How many are new.
pub fn insert(tx: &mut Tx<'_>, of: NewOf<'_>, allocations: &[NewAllocation<'_>]) -> Result<u64, Fault> {
    let (event_id, reward_id) = (of.event_id.as_str(), of.reward_id.as_str());
    let causes: Vec<(&[u8], &[u8])> = allocations
        .iter()
        .map(|allocation| match &allocation.cause {
            Cause::Request(id) => (id.as_bytes().as_slice(), [].as_slice()),
            Cause::Entry(id) => ([].as_slice(), id.as_bytes().as_slice()),
        })
        .collect();
    let traces: Vec<_> = allocations
        .iter()
        .map(|allocation| match &allocation.cause {
            Cause::Request(id) | Cause::Entry(id) => traceparent(tx, id),
        })
        .collect();
    if tx.engine() == Engine::Sqlite {
        let all = allocations.iter().zip(&causes).zip(&traces);
        let rows = all.map(|((allocation, cause), trace)| -> [Param<'_>; 11] {
            [
                Param::Blob(allocation.id.as_bytes()),
                event_id.into(),
                allocation.member_id.into(),
                Param::Blob(cause.0),
                Param::Blob(cause.1),
                reward_id.into(),
                of.provider.into(),
                (&allocation.key).into(),
                of.next_retry_at.into(),
                of.at.into(),
                trace.into(),
            ]
        });
        return tx.execute_rows(&INSERT, rows);
    }
    let ids: Vec<&[u8]> = allocations.iter().map(|allocation| allocation.id.as_bytes().as_slice()).collect();
    let members: Vec<_> = allocations.iter().map(|allocation| allocation.member_id).collect();
    let requests: Vec<_> = causes.iter().map(|cause| cause.0).collect();
    let entries: Vec<_> = causes.iter().map(|cause| cause.1).collect();
    let keys: Vec<_> = allocations.iter().map(|allocation| allocation.key.as_str()).collect();
    let traces: Vec<_> = traces.iter().map(String::as_str).collect();
    let params = [
        Param::Blobs(&ids),
        event_id.into(),
        Param::Texts(&members),
        Param::Blobs(&requests),
        Param::Blobs(&entries),
        reward_id.into(),
        of.provider.into(),
        Param::Texts(&keys),
        of.next_retry_at.into(),
        of.at.into(),
        Param::Texts(&traces),
    ];
    tx.execute(&INSERT, &params)
}

/// What is left of each limited reward of an event, held until the transaction ends.
pub fn lock_stock(tx: &mut Tx<'_>, event_id: &EventId) -> Result<Vec<(RewardId, i64)>, Fault> {
    tx.query(&LOCK_STOCK, &[event_id.as_str().into()], |row| {
        Ok((RewardId::parse(row.text(0)?).map_err(Fault::inconsistent)?, row.int(1)?))
    })
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

/// Gives the stock of allocations back that were cancelled.
pub fn give_back(tx: &mut Tx<'_>, cancelled: &[&Allocation]) -> Result<(), Fault> {
    let mut rewards: Vec<_> =
        cancelled.iter().map(|row| (row.event_id.as_str(), row.reward_id.as_str())).collect();
    rewards.sort_unstable();
    for same in rewards.chunk_by(|a, b| a == b) {
        let count = i64::try_from(same.len()).map_err(|_| Fault::inconsistent("too many allocations"))?;
        tx.execute(&GIVE_BACK_STOCK, &[same[0].0.into(), same[0].1.into(), count.into()])?;
    }
    Ok(())
}

/// Reads a row of `allocation_columns!`.
pub(crate) fn allocation(row: &Row<'_>) -> Result<Allocation, Fault> {
    let id = AllocationId::from_bytes(row.uuid(0)?);
    let odd = |what: &str| Fault::inconsistent(format!("the allocation {id}: {what}"));
    let cause = match (row.optional_blob(3)?.is_some(), row.optional_blob(4)?.is_some()) {
        (true, false) => Cause::Request(RequestId::from_bytes(row.uuid(3)?)),
        (false, true) => Cause::Entry(RequestId::from_bytes(row.uuid(4)?)),
        _ => return Err(odd("nothing won it, or too much")),
    };
    let trouble = match row.optional_text(11)? {
        Some(code) => Some(Trouble::new(code, row.optional_text(12)?.unwrap_or_default())),
        None => None,
    };
    Ok(Allocation {
        id,
        event_id: EventId::parse(row.text(1)?).map_err(Fault::inconsistent)?,
        member_id: UserId::parse(row.text(2)?).map_err(Fault::inconsistent)?,
        cause,
        reward_id: RewardId::parse(row.text(5)?).map_err(Fault::inconsistent)?,
        provider: row.text(6)?.into(),
        key: row.text(7)?.into(),
        status: AllocationStatus::parse(row.text(8)?).ok_or_else(|| odd("unknown status"))?,
        retry_count: row.int(9)?,
        next_retry_at: row.optional_timestamp(10)?,
        trouble,
        transaction_id: row.optional_text(13)?.map(str::to_owned),
        processed_at: row.optional_timestamp(14)?,
        epoch: row.int(15)?,
        outcome_unknown: row.int(16)? != 0,
        cancel_requested_at: row.optional_timestamp(17)?,
        created_at: row.timestamp(18)?,
        trace: row.optional_text(19)?.and_then(Trace::parse),
    })
}
