//! How many are issued. Whoever issues or takes back holds the count; it is written once for each group.

use super::count;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::coupons::Count;
use guerdon_core::{CouponId, Timestamp};

statements! {
    LOCK = "SELECT issued, epoch, instance FROM coupon_count WHERE coupon_id = $1",
        postgres: "SELECT issued, epoch, instance FROM coupon_count WHERE coupon_id = $1 FOR UPDATE";
    ISSUED = "UPDATE coupon_count SET issued = issued + $2
        WHERE coupon_id = $1 AND issued + $2 <= total_quantity AND issued + $2 >= 0";
    /// Begins a new epoch, unless somebody else is counting.
    BEGIN = "UPDATE coupon_count SET epoch = CASE WHEN epoch > $6 THEN epoch ELSE $6 END + 1, instance = NULL, worker_id = $2, deadline = $3
        WHERE coupon_id = $1 AND epoch = $4 AND (worker_id IS NULL OR worker_id = $2 OR deadline <= $5)";
    DISOWN = "UPDATE coupon_count SET instance = NULL WHERE coupon_id = $1 AND instance IS NOT NULL";
    RENEW = "UPDATE coupon_count SET deadline = $4 WHERE coupon_id = $1 AND epoch = $2 AND worker_id = $3";
    END = "UPDATE coupon_count SET instance = $4, worker_id = NULL, deadline = NULL
        WHERE coupon_id = $1 AND epoch = $2 AND worker_id = $3";
}

/// Holds a coupon's count until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, id: &CouponId) -> Result<Option<Count>, Fault> {
    tx.query_one(&LOCK, &[id.as_str().into()], |row| count(row, 0))
}

/// Adds to what is issued, or takes from it; false where that would be more than there are.
pub fn add(tx: &mut Tx<'_>, id: &CouponId, issued: i64) -> Result<bool, Fault> {
    Ok(issued == 0 || tx.execute(&ISSUED, &[id.as_str().into(), issued.into()])? == 1)
}

/// Begins to count Redis anew, in place of this epoch and after the one that Redis has; false where somebody else does, or
/// has.
pub fn begin(
    tx: &mut Tx<'_>,
    id: &CouponId,
    worker: &str,
    (in_place_of, marked): (i64, i64),
    until: Timestamp,
) -> Result<bool, Fault> {
    let now = tx.now();
    let params =
        [id.as_str().into(), worker.into(), until.into(), in_place_of.into(), now.into(), marked.into()];
    Ok(tx.execute(&BEGIN, &params)? == 1)
}

/// Notes that what is issued was changed without Redis: whoever counts there next counts anew. The count is held.
pub fn disown(tx: &mut Tx<'_>, id: &CouponId, count: &Count) -> Result<(), Fault> {
    if count.instance.is_some() {
        tx.execute(&DISOWN, &[id.as_str().into()])?;
    }
    Ok(())
}

/// Goes on counting; false where somebody else has begun.
pub fn renew(
    tx: &mut Tx<'_>,
    id: &CouponId,
    epoch: i64,
    worker: &str,
    until: Timestamp,
) -> Result<bool, Fault> {
    let params: [Param<'_>; 4] = [id.as_str().into(), epoch.into(), worker.into(), until.into()];
    Ok(tx.execute(&RENEW, &params)? == 1)
}

/// Ends the counting of an epoch.
pub fn end(tx: &mut Tx<'_>, id: &CouponId, epoch: i64, worker: &str, instance: &str) -> Result<bool, Fault> {
    let params = [id.as_str().into(), epoch.into(), worker.into(), instance.into()];
    Ok(tx.execute(&END, &params)? == 1)
}
