//! Coupons, and how many of each are issued.

pub mod counting;
pub mod held;
pub mod holders;
pub mod queue;

use crate::fault::Fault;
use crate::param::Row;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::coupons::{Count, Coupon, NewCoupon};
use guerdon_core::{CouponId, Timestamp};

macro_rules! coupon_columns {
    () => {
        "c.coupon_id, c.number, c.name, c.total_quantity, c.per_user_limit, c.valid_from, c.valid_until, c.benefit,
        c.created_at"
    };
}

/// How many columns a coupon has.
const COUPON_COLUMNS: usize = 9;

statements! {
    TAKE_NUMBER = "UPDATE counters SET value = value + 1 WHERE name = 'coupon' RETURNING value";
    INSERT = "INSERT INTO coupon (coupon_id, number, name, total_quantity, per_user_limit, valid_from, valid_until,
            benefit, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (coupon_id) DO NOTHING";
    INSERT_COUNT = "INSERT INTO coupon_count (coupon_id, total_quantity, issued, epoch) VALUES ($1, $2, 0, 0)";
    FIND = concat!("SELECT ", coupon_columns!(), " FROM coupon c WHERE c.coupon_id = $1");
    BY_NUMBER = concat!("SELECT ", coupon_columns!(), " FROM coupon c WHERE c.number = $1");
    LIST = concat!("SELECT ", coupon_columns!(), ", s.issued, s.epoch, s.instance
        FROM coupon c JOIN coupon_count s ON s.coupon_id = c.coupon_id
        WHERE c.coupon_id > $1 ORDER BY c.coupon_id LIMIT $2");
    WITH_COUNT = concat!("SELECT ", coupon_columns!(), ", s.issued, s.epoch, s.instance
        FROM coupon c JOIN coupon_count s ON s.coupon_id = c.coupon_id WHERE c.coupon_id = $1");
    /// Those that are issued, or were until not long ago.
    LIVE = concat!("SELECT ", coupon_columns!(), " FROM coupon c
        WHERE c.coupon_id > $1 AND c.valid_until > $2 ORDER BY c.coupon_id LIMIT $3");
    EXPIRING = concat!("SELECT ", coupon_columns!(), " FROM coupon c
        WHERE c.valid_until <= $1 AND c.expired_at IS NULL ORDER BY c.valid_until, c.coupon_id LIMIT $2");
    EXPIRED = "UPDATE coupon SET expired_at = $2 WHERE coupon_id = $1 AND expired_at IS NULL";
}

/// Makes a coupon; none where there is one of this name.
pub fn create(tx: &mut Tx<'_>, wanted: &NewCoupon) -> Result<Option<Coupon>, Fault> {
    let number = tx
        .query_one(&TAKE_NUMBER, &[], |row| row.int(0))?
        .ok_or_else(|| Fault::inconsistent("coupons are not counted"))?;
    if number > guerdon_core::coupons::NUMBER_MAX {
        return Err(Fault::inconsistent("there are as many coupons as there can be"));
    }
    let (now, benefit) = (tx.now(), wanted.benefit.to_string());
    let params = [
        wanted.id.as_str().into(),
        number.into(),
        (&wanted.name).into(),
        wanted.total_quantity.into(),
        wanted.per_user_limit.into(),
        wanted.valid_from.into(),
        wanted.valid_until.into(),
        (&benefit).into(),
        now.into(),
    ];
    if tx.execute(&INSERT, &params)? == 0 {
        return Ok(None);
    }
    tx.execute(&INSERT_COUNT, &[wanted.id.as_str().into(), wanted.total_quantity.into()])?;
    Ok(Some(Coupon {
        id: wanted.id.clone(),
        number,
        name: wanted.name.clone(),
        total_quantity: wanted.total_quantity,
        per_user_limit: wanted.per_user_limit,
        valid_from: wanted.valid_from,
        valid_until: wanted.valid_until,
        benefit: wanted.benefit.clone(),
        created_at: now,
    }))
}

pub fn find(tx: &mut Tx<'_>, id: &CouponId) -> Result<Option<Coupon>, Fault> {
    tx.query_one(&FIND, &[id.as_str().into()], coupon)
}

pub fn by_number(tx: &mut Tx<'_>, number: i64) -> Result<Option<Coupon>, Fault> {
    tx.query_one(&BY_NUMBER, &[number.into()], coupon)
}

/// A coupon and its count, as they are.
pub fn with_count(tx: &mut Tx<'_>, id: &CouponId) -> Result<Option<(Coupon, Count)>, Fault> {
    tx.query_one(&WITH_COUNT, &[id.as_str().into()], counted)
}

/// Coupons after one, in the order of their ids.
pub fn list(tx: &mut Tx<'_>, after: &str, limit: i64) -> Result<Vec<(Coupon, Count)>, Fault> {
    tx.query(&LIST, &[after.into(), limit.into()], counted)
}

/// Coupons after one that were valid at a time or later, in the order of their ids.
pub fn live(tx: &mut Tx<'_>, after: &str, since: Timestamp, limit: i64) -> Result<Vec<Coupon>, Fault> {
    tx.query(&LIVE, &[after.into(), since.into(), limit.into()], coupon)
}

/// Coupons whose time is over, and of which some may not have been ended.
pub fn expiring(tx: &mut Tx<'_>, now: Timestamp, limit: i64) -> Result<Vec<Coupon>, Fault> {
    tx.query(&EXPIRING, &[now.into(), limit.into()], coupon)
}

/// Notes that all of a coupon that nobody used was ended.
pub fn note_expired(tx: &mut Tx<'_>, id: &CouponId) -> Result<(), Fault> {
    let now = tx.now();
    tx.execute(&EXPIRED, &[id.as_str().into(), now.into()]).map(drop)
}

fn coupon(row: &Row<'_>) -> Result<Coupon, Fault> {
    Ok(Coupon {
        id: CouponId::parse(row.text(0)?).map_err(Fault::inconsistent)?,
        number: row.int(1)?,
        name: row.text(2)?.to_owned(),
        total_quantity: row.int(3)?,
        per_user_limit: row.int(4)?,
        valid_from: row.timestamp(5)?,
        valid_until: row.timestamp(6)?,
        benefit: serde_json::from_str(row.text(7)?)
            .map_err(|error| Fault::inconsistent(error.to_string()))?,
        created_at: row.timestamp(8)?,
    })
}

fn counted(row: &Row<'_>) -> Result<(Coupon, Count), Fault> {
    Ok((coupon(row)?, count(row, COUPON_COLUMNS)?))
}

fn count(row: &Row<'_>, first: usize) -> Result<Count, Fault> {
    Ok(Count {
        issued: row.int(first)?,
        epoch: row.int(first + 1)?,
        instance: row.optional_text(first + 2)?.map(str::to_owned),
    })
}
