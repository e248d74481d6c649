//! Claims as people see them.

use super::{Stored, claim_columns, stored};
use crate::fault::Fault;
use crate::listed::{LOOKED_THROUGH_MAX, Listed};
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::claims::view::ClaimFilter;
use guerdon_core::claims::{ClaimId, ClaimStatus};

macro_rules! list {
    ($which:literal) => {
        concat!(
            "SELECT ",
            claim_columns!(),
            " FROM user_reward_requests WHERE claim_id < $1 AND ($3 = '' OR status = $3)
                AND ($4 = '' OR event_id = $4) AND ($5 = '' OR user_id = $5) AND claim_id >= $6 AND ",
            $which,
            " ORDER BY claim_id DESC LIMIT $2"
        )
    };
}

/// Where so many rows of a list end, whatever else they are: read from the index alone.
macro_rules! edge {
    ($which:literal) => {
        concat!(
            "SELECT claim_id FROM user_reward_requests WHERE claim_id < $1 AND ",
            $which,
            " ORDER BY claim_id DESC LIMIT 1 OFFSET $2"
        )
    };
}

statements! {
    ALL = list!("1 = 1");
    OPEN = list!("status = $3 AND live IS NOT NULL
        AND status NOT IN ('SUCCESS_ALL_GRANTED', 'REWARD_PARTIALLY_GRANTED')");
    OF_EVENT = list!("event_id = $4");
    OF_USER = list!("user_id = $5");
    EDGE_OF_ALL = edge!("1 = 1");
    EDGE_OF_OPEN = edge!("status = $3 AND live IS NOT NULL
        AND status NOT IN ('SUCCESS_ALL_GRANTED', 'REWARD_PARTIALLY_GRANTED')");
    EDGE_OF_EVENT = edge!("event_id = $3");
    /// For the audit.
    PAGE = concat!("SELECT ", claim_columns!(), " FROM user_reward_requests WHERE claim_id > $1
        ORDER BY claim_id LIMIT $2");
}

/// Claims before one, the newest first. Where only some of them are wanted, so many are looked through.
pub fn list(
    tx: &mut Tx<'_>,
    filter: &ClaimFilter,
    before: Option<ClaimId>,
    limit: i64,
) -> Result<Listed<Stored, ClaimId>, Fault> {
    let open = filter.status.is_some_and(|status| status.is_live() && !status.is_success());
    let status = filter.status.map_or("", ClaimStatus::as_str);
    let event = filter.event_id.as_ref().map_or("", |id| id.as_str());
    let user = filter.user_id.as_ref().map_or("", |id| id.as_str());
    let (statement, edge) = match (user, event, open) {
        ("", "", true) => (&OPEN, None),
        ("", _, true) => (&OPEN, Some((&EDGE_OF_OPEN, Some(status)))),
        ("", "", false) => (&ALL, Some((&EDGE_OF_ALL, None))),
        ("", _, false) => (&OF_EVENT, Some((&EDGE_OF_EVENT, Some(event)))),
        // What one person has is little.
        _ => (&OF_USER, None),
    };
    let before = before.unwrap_or(ClaimId::from_bytes([0xff; 16]));
    let end = match edge.filter(|_| !status.is_empty()) {
        Some((edge, of)) => {
            let mut params = vec![Param::Blob(before.as_bytes()), (LOOKED_THROUGH_MAX - 1).into()];
            params.extend(of.map(Param::Text));
            tx.query_one(edge, &params, |row| Ok(ClaimId::from_bytes(row.uuid(0)?)))?
        }
        None => None,
    };
    let last = end.unwrap_or(ClaimId::from_bytes([0; 16]));
    let params = [
        Param::Blob(before.as_bytes()),
        limit.into(),
        status.into(),
        event.into(),
        user.into(),
        Param::Blob(last.as_bytes()),
    ];
    Ok(Listed { rows: tx.query(statement, &params, stored)?, end })
}

/// Claims after one, in the order of their ids.
pub fn page(tx: &mut Tx<'_>, after: &[u8], limit: i64) -> Result<Vec<Stored>, Fault> {
    tx.query(&PAGE, &[Param::Blob(after), limit.into()], stored)
}
