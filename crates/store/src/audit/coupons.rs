//! What the audit looks at in coupons.

use crate::coupons::held::{held, held_columns, of_users};
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::coupons::UserCoupon;

statements! {
    /// With all that is counted, in one statement, so that it is of one moment.
    NEXT = "SELECT c.coupon_id, c.number, c.total_quantity, c.per_user_limit, s.total_quantity, s.issued,
            (SELECT COUNT(*) FROM user_coupon u WHERE u.coupon_id = c.coupon_id AND u.slot IS NOT NULL)
        FROM coupon c JOIN coupon_count s ON s.coupon_id = c.coupon_id
        WHERE c.coupon_id > $1 ORDER BY c.coupon_id LIMIT 1";
    PAGE = concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_coupon_id > $1
        ORDER BY user_coupon_id LIMIT $2");
}

/// A coupon, and how many of it are issued by its count and by who has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CouponAt {
    pub coupon_id: String,
    pub number: i64,
    pub total: i64,
    pub per_user_limit: i64,
    pub counted_total: i64,
    pub issued: i64,
    pub held: i64,
}

pub fn next(tx: &mut Tx<'_>, after: &str) -> Result<Option<CouponAt>, Fault> {
    let read = |row: &Row<'_>| {
        Ok(CouponAt {
            coupon_id: row.text(0)?.to_owned(),
            number: row.int(1)?,
            total: row.int(2)?,
            per_user_limit: row.int(3)?,
            counted_total: row.int(4)?,
            issued: row.int(5)?,
            held: row.int(6)?,
        })
    };
    tx.query_one(&NEXT, &[after.into()], read)
}

/// User coupons after one, in the order of their ids.
pub fn page(tx: &mut Tx<'_>, after: &[u8], limit: i64) -> Result<Vec<UserCoupon>, Fault> {
    tx.query(&PAGE, &[Param::Blob(after), limit.into()], held)
}

/// What its user has of the same coupon, itself included, all of one moment; without itself where its user would not find it.
pub fn of_its_user(tx: &mut Tx<'_>, held: &UserCoupon) -> Result<Vec<UserCoupon>, Fault> {
    let all = look(tx, held)?;
    if all.iter().any(|one| one.id == held.id) {
        return Ok(all);
    }
    // The audit has an index of its own in memory, and this one may be newer than that.
    tx.holders().follow(tx)?;
    look(tx, held)
}

fn look(tx: &mut Tx<'_>, held: &UserCoupon) -> Result<Vec<UserCoupon>, Fault> {
    let wanted = [(held.user_id.as_str(), held.key.as_str())];
    let all = of_users(tx, &held.coupon_id, &wanted)?.remove(held.user_id.as_str()).unwrap_or_default();
    Ok(all.into_iter().filter(|one| one.coupon_id == held.coupon_id).collect())
}
