//! Claims as people see them.

use super::{Stored, claim_columns, stored};
use crate::fault::Fault;
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
                AND ($4 = '' OR event_id = $4) AND ($5 = '' OR user_id = $5) AND ",
            $which,
            " ORDER BY claim_id DESC LIMIT $2"
        )
    };
}

statements! {
    ALL = list!("1 = 1");
    OPEN = list!("status = $3 AND live IS NOT NULL
        AND status NOT IN ('SUCCESS_ALL_GRANTED', 'REWARD_PARTIALLY_GRANTED')");
    OF_EVENT = list!("event_id = $4");
    OF_USER = list!("user_id = $5");
    /// For the audit.
    PAGE = concat!("SELECT ", claim_columns!(), " FROM user_reward_requests WHERE claim_id > $1
        ORDER BY claim_id LIMIT $2");
}

/// Claims before one, the newest first.
pub fn list(
    tx: &mut Tx<'_>,
    filter: &ClaimFilter,
    before: Option<ClaimId>,
    limit: i64,
) -> Result<Vec<Stored>, Fault> {
    let open = filter.status.is_some_and(|status| status.is_live() && !status.is_success());
    let statement = match (&filter.user_id, &filter.event_id, open) {
        (Some(_), _, _) => &OF_USER,
        (None, _, true) => &OPEN,
        (None, Some(_), false) => &OF_EVENT,
        (None, None, false) => &ALL,
    };
    let before = before.unwrap_or(ClaimId::from_bytes([0xff; 16]));
    let params = [
        Param::Blob(before.as_bytes()),
        limit.into(),
        filter.status.map_or("", ClaimStatus::as_str).into(),
        filter.event_id.as_ref().map_or("", |id| id.as_str()).into(),
        filter.user_id.as_ref().map_or("", |id| id.as_str()).into(),
    ];
    tx.query(statement, &params, stored)
}

/// Claims after one, in the order of their ids.
pub fn page(tx: &mut Tx<'_>, after: &[u8], limit: i64) -> Result<Vec<Stored>, Fault> {
    tx.query(&PAGE, &[Param::Blob(after), limit.into()], stored)
}
