//! Allocations as people see them.

use super::{allocation, allocation_columns};
use crate::fault::Fault;
use crate::listed::{LOOKED_THROUGH_MAX, Listed};
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::EventId;
use guerdon_core::allocations::view::AllocationFilter;
use guerdon_core::allocations::{Allocation, AllocationId, AllocationStatus};
use guerdon_core::requests::RequestId;

macro_rules! list {
    ($which:literal) => {
        concat!(
            "SELECT ",
            allocation_columns!(),
            " FROM event_reward_allocation WHERE allocation_id < $1 AND ($3 = '' OR reward_status = $3)
                AND ($4 = '' OR event_id = $4) AND ($5 = '' OR member_id = $5) AND allocation_id >= $6 AND ",
            $which,
            " ORDER BY allocation_id DESC LIMIT $2"
        )
    };
}

/// Where so many rows of a list end, whatever their status: read from the index alone.
macro_rules! edge {
    ($which:literal) => {
        concat!(
            "SELECT allocation_id FROM event_reward_allocation WHERE allocation_id < $1 AND ",
            $which,
            " ORDER BY allocation_id DESC LIMIT 1 OFFSET $2"
        )
    };
}

statements! {
    ONE = concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation WHERE allocation_id = $1");
    BY_KEY = concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation WHERE idempotency_key = $1");
    COUNT_OPEN = "SELECT CAST(COALESCE(SUM(CASE WHEN o.reward_status = $2 THEN 1 ELSE 0 END), 0) AS BIGINT), COUNT(*) FROM (
        SELECT reward_status FROM event_reward_allocation
        WHERE reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED' ORDER BY allocation_id LIMIT $1) o";
    COUNT_OPEN_OF_EVENT = "SELECT CAST(COALESCE(SUM(CASE WHEN o.reward_status = $2 THEN 1 ELSE 0 END), 0) AS BIGINT), COUNT(*)
        FROM (SELECT reward_status FROM event_reward_allocation
        WHERE event_id = $3 AND reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED'
        ORDER BY allocation_id LIMIT $1) o";
    COUNT_OF_MEMBER = "SELECT CAST(COALESCE(SUM(CASE WHEN o.reward_status = $2 AND ($4 = '' OR o.event_id = $4)
            THEN 1 ELSE 0 END), 0) AS BIGINT), COUNT(*)
        FROM (SELECT reward_status, event_id FROM event_reward_allocation WHERE member_id = $3
        ORDER BY allocation_id LIMIT $1) o";
    ALL = list!("1 = 1");
    OPEN = list!("reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED'");
    OF_EVENT = list!("event_id = $4");
    OPEN_OF_EVENT = list!("event_id = $4 AND reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED'");
    OF_MEMBER = list!("member_id = $5");
    EDGE_OF_ALL = edge!("1 = 1");
    EDGE_OF_OPEN = edge!("reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED'");
    EDGE_OF_EVENT = edge!("event_id = $3");
    EDGE_OF_OPEN_OF_EVENT = edge!("event_id = $3 AND reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED'");
    OF_ENTRY = concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation WHERE member_id = $1
        AND allocation_id BETWEEN $2 AND $3 AND entry_id = $4 ORDER BY allocation_id");
    OPEN_FORWARD = concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation
        WHERE allocation_id > $1 AND ($3 = '' OR reward_status = $3) AND ($4 = '' OR event_id = $4)
            AND ($5 = '' OR member_id = $5) AND reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED'
        ORDER BY allocation_id LIMIT $2"),
        postgres: concat!("SELECT ", allocation_columns!(), " FROM event_reward_allocation
        WHERE allocation_id > $1 AND ($3 = '' OR reward_status = $3) AND ($4 = '' OR event_id = $4)
            AND ($5 = '' OR member_id = $5) AND reward_status <> 'SUCCESS' AND reward_status <> 'CANCELLED'
        ORDER BY allocation_id LIMIT $2 FOR UPDATE");
}

pub fn find(tx: &mut Tx<'_>, id: AllocationId) -> Result<Option<Allocation>, Fault> {
    tx.query_one(&ONE, &[Param::Blob(id.as_bytes())], allocation)
}

/// Allocations before one, the newest first. Where only some of them are wanted, so many are looked through.
pub fn list(
    tx: &mut Tx<'_>,
    filter: &AllocationFilter,
    before: Option<AllocationId>,
    limit: i64,
) -> Result<Listed<Allocation, AllocationId>, Fault> {
    use AllocationStatus::{Failed, Pending, Processing};
    let open = matches!(filter.status, Some(Pending | Failed | Processing));
    let event = filter.event_id.as_ref().map(EventId::as_str);
    let (statement, edge) = match (&filter.member_id, event, open) {
        // What one person has is little.
        (Some(_), _, _) => (&OF_MEMBER, None),
        (None, Some(_), true) => (&OPEN_OF_EVENT, Some(&EDGE_OF_OPEN_OF_EVENT)),
        (None, Some(_), false) => (&OF_EVENT, Some(&EDGE_OF_EVENT)),
        (None, None, true) => (&OPEN, Some(&EDGE_OF_OPEN)),
        (None, None, false) => (&ALL, Some(&EDGE_OF_ALL)),
    };
    let before = before.unwrap_or(AllocationId::from_bytes([0xff; 16]));
    let end = match edge.filter(|_| filter.status.is_some()) {
        Some(edge) => {
            let mut params = vec![Param::Blob(before.as_bytes()), (LOOKED_THROUGH_MAX - 1).into()];
            params.extend(event.map(Param::Text));
            tx.query_one(edge, &params, |row| Ok(AllocationId::from_bytes(row.uuid(0)?)))?
        }
        None => None,
    };
    let last = end.unwrap_or(AllocationId::from_bytes([0; 16]));
    let [before, limit, status, event, member] = params(filter, &before, limit);
    let params = [before, limit, status, event, member, Param::Blob(last.as_bytes())];
    Ok(Listed { rows: tx.query(statement, &params, allocation)?, end })
}

fn params<'a>(filter: &'a AllocationFilter, place: &'a AllocationId, limit: i64) -> [Param<'a>; 5] {
    [
        Param::Blob(place.as_bytes()),
        limit.into(),
        filter.status.map_or("", AllocationStatus::as_str).into(),
        filter.event_id.as_ref().map_or("", |id| id.as_str()).into(),
        filter.member_id.as_ref().map_or("", |id| id.as_str()).into(),
    ]
}

/// By the key that it is delivered under.
pub fn by_key(tx: &mut Tx<'_>, key: &str) -> Result<Option<Allocation>, Fault> {
    tx.query_one(&BY_KEY, &[key.into()], allocation)
}

/// How many of the first so many that are open stand there, and how many were looked at.
pub fn count_open(
    tx: &mut Tx<'_>,
    filter: &AllocationFilter,
    status: AllocationStatus,
    most: i64,
) -> Result<(i64, i64), Fault> {
    let status = status.as_str();
    let event = filter.event_id.as_ref().map(EventId::as_str);
    let read = |row: &Row<'_>| Ok((row.int(0)?, row.int(1)?));
    let found = match (&filter.member_id, event) {
        (Some(member), event) => {
            let params = [most.into(), status.into(), member.as_str().into(), event.unwrap_or("").into()];
            tx.query_one(&COUNT_OF_MEMBER, &params, read)?
        }
        (None, Some(event)) => {
            tx.query_one(&COUNT_OPEN_OF_EVENT, &[most.into(), status.into(), event.into()], read)?
        }
        (None, None) => tx.query_one(&COUNT_OPEN, &[most.into(), status.into()], read)?,
    };
    Ok(found.unwrap_or((0, 0)))
}

/// Open allocations after one, held until the transaction ends.
pub fn lock_open(
    tx: &mut Tx<'_>,
    filter: &AllocationFilter,
    after: AllocationId,
    limit: i64,
) -> Result<Vec<Allocation>, Fault> {
    tx.query(&OPEN_FORWARD, &params(filter, &after, limit), allocation)
}

/// What an entry gave, in that order.
pub fn of_entry(tx: &mut Tx<'_>, member_id: &str, entry: RequestId) -> Result<Vec<Allocation>, Fault> {
    // Their ids are made from the entry's.
    let (mut first, mut last) = (*entry.as_bytes(), *entry.as_bytes());
    (first[6], first[7]) = (first[6] & 0xf0, 0);
    (last[6], last[7]) = (last[6] | 0x0f, 0xff);
    let params = [member_id.into(), Param::Blob(&first), Param::Blob(&last), Param::Blob(entry.as_bytes())];
    let mut found = tx.query(&OF_ENTRY, &params, allocation)?;
    let ordinal = |row: &Allocation| {
        let (own, of) = (row.id.as_bytes(), entry.as_bytes());
        [own[6] ^ of[6], own[7] ^ of[7]]
    };
    found.sort_by_key(ordinal);
    Ok(found)
}
