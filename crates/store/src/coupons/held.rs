//! User coupons: who has what, and where each stands.

use crate::database::Engine;
use crate::fault::Fault;
use crate::listed::{LOOKED_THROUGH_MAX, Listed};
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::coupons::{CouponResult, State, UserCoupon, UserCouponId, UserCouponStatus};
use guerdon_core::{CouponId, Timestamp, UserId};
use std::collections::HashMap;

macro_rules! held_columns {
    () => {
        "user_coupon_id, coupon_id, user_id, status, result_code, slot, idempotency_key, order_id, note, version,
        requested_at, decided_at, changed_at"
    };
}

pub(crate) use held_columns;

statements! {
    INSERT = concat!("INSERT INTO user_coupon (", held_columns!(), ")
        VALUES ($1, $2, $3, $4, NULLIF($5, ''), NULLIF($6, 0), $7, NULLIF($8, ''), NULLIF($9, ''), $10, $11,
            NULLIF($12, -1), $13) ON CONFLICT DO NOTHING"),
        postgres: concat!("INSERT INTO user_coupon (", held_columns!(), ")
        SELECT id, $2, user_id, status, NULLIF(result, ''), NULLIF(slot, 0), key, NULLIF(order_id, ''),
            NULLIF(note, ''), version, requested, NULLIF(decided, -1), changed
        FROM unnest(CAST($1 AS BYTEA[]), CAST($3 AS TEXT[]), CAST($4 AS TEXT[]), CAST($5 AS TEXT[]),
            CAST($6 AS BIGINT[]), CAST($7 AS TEXT[]), CAST($8 AS TEXT[]), CAST($9 AS TEXT[]), CAST($10 AS BIGINT[]),
            CAST($11 AS BIGINT[]), CAST($12 AS BIGINT[]), CAST($13 AS BIGINT[]))
            AS row (id, user_id, status, result, slot, key, order_id, note, version, requested, decided, changed)
        ON CONFLICT DO NOTHING");
    UPDATE = "UPDATE user_coupon SET status = $2, result_code = NULLIF($3, ''), slot = NULLIF($4, 0),
            order_id = NULLIF($5, ''), note = NULLIF($6, ''), version = $7, decided_at = NULLIF($8, -1), changed_at = $9
        WHERE user_coupon_id = $1 AND version + 1 = $7",
        postgres: "UPDATE user_coupon u SET status = row.status, result_code = NULLIF(row.result, ''),
            slot = NULLIF(row.slot, 0), order_id = NULLIF(row.order_id, ''), note = NULLIF(row.note, ''),
            version = row.version, decided_at = NULLIF(row.decided, -1), changed_at = row.changed
        FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS TEXT[]), CAST($3 AS TEXT[]), CAST($4 AS BIGINT[]),
            CAST($5 AS TEXT[]), CAST($6 AS TEXT[]), CAST($7 AS BIGINT[]), CAST($8 AS BIGINT[]), CAST($9 AS BIGINT[]))
            AS row (id, status, result, slot, order_id, note, version, decided, changed)
        WHERE u.user_coupon_id = row.id AND u.version + 1 = row.version";
    FIND = concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_coupon_id = $1"),
        postgres: concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_coupon_id = ANY(CAST($1 AS BYTEA[]))");
    LOCK = concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_coupon_id = $1"),
        postgres: concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_coupon_id = ANY(CAST($1 AS BYTEA[]))
        ORDER BY user_coupon_id FOR UPDATE");
    /// What users have of a coupon, or under a key, whatever it was for.
    OF_USER = concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_coupon_id = $1 AND user_id = $2
        AND (coupon_id = $3 OR idempotency_key = $4)"),
        postgres: concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_id = ANY(CAST($1 AS TEXT[]))
        AND (coupon_id = $2 OR idempotency_key = ANY(CAST($3 AS TEXT[])))");
    MINE = concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_coupon_id = $1 AND user_id = $2"),
        postgres: concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE user_id = $1 AND user_coupon_id < $2
        ORDER BY user_coupon_id DESC LIMIT $3");
    OF_COUPON = concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE coupon_id = $1 AND user_coupon_id < $2
        AND user_coupon_id >= $5 AND ($4 = '' OR status = $4) ORDER BY user_coupon_id DESC LIMIT $3");
    EDGE_OF_COUPON = "SELECT user_coupon_id FROM user_coupon WHERE coupon_id = $1 AND user_coupon_id < $2
        ORDER BY user_coupon_id DESC LIMIT 1 OFFSET $3";
    WALK = concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE coupon_id = $1 AND user_coupon_id > $2
        ORDER BY user_coupon_id LIMIT $3");
    WALK_LOCKED = concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE coupon_id = $1 AND user_coupon_id > $2
        ORDER BY user_coupon_id LIMIT $3"),
        postgres: concat!("SELECT ", held_columns!(), " FROM user_coupon WHERE coupon_id = $1 AND user_coupon_id > $2
        ORDER BY user_coupon_id LIMIT $3 FOR UPDATE");
}

/// Writes new ones of one coupon. What exists already, by its id, its place or its key, is left as it is: how many were
/// written tells whether any did.
pub fn insert(tx: &mut Tx<'_>, coupon_id: &CouponId, held: &[UserCoupon]) -> Result<u64, Fault> {
    if held.is_empty() {
        return Ok(0);
    }
    let columns: Vec<_> = held.iter().map(Columns::of).collect();
    if tx.engine() == Engine::Sqlite {
        let rows = held.iter().zip(&columns).map(|(held, columns)| -> [Param<'_>; 13] {
            [
                Param::Blob(held.id.as_bytes()),
                coupon_id.as_str().into(),
                held.user_id.as_str().into(),
                columns.status.into(),
                columns.result.into(),
                columns.slot.into(),
                (&held.key).into(),
                columns.order.into(),
                columns.note.into(),
                held.version.into(),
                held.requested_at.into(),
                columns.decided.into(),
                columns.changed.into(),
            ]
        });
        let written = tx.execute_rows(&INSERT, rows)?;
        if written > 0 {
            tx.holders().given(tx, held)?;
        }
        return Ok(written);
    }
    // Two processes that write the same users' rows do it in the same order.
    let mut order: Vec<_> = (0..held.len()).collect();
    order.sort_by_key(|index| (&held[*index].user_id, held[*index].id));
    let lists = Lists::of(order.iter().map(|index| (&held[*index], &columns[*index])));
    let users: Vec<_> = order.iter().map(|index| held[*index].user_id.as_str()).collect();
    let keys: Vec<_> = order.iter().map(|index| held[*index].key.as_str()).collect();
    let requested: Vec<_> = order.iter().map(|index| held[*index].requested_at.as_millis()).collect();
    let params = [
        Param::Blobs(&lists.ids),
        coupon_id.as_str().into(),
        Param::Texts(&users),
        Param::Texts(&lists.statuses),
        Param::Texts(&lists.results),
        Param::Ints(&lists.slots),
        Param::Texts(&keys),
        Param::Texts(&lists.orders),
        Param::Texts(&lists.notes),
        Param::Ints(&lists.versions),
        Param::Ints(&requested),
        Param::Ints(&lists.decided),
        Param::Ints(&lists.changed),
    ];
    tx.execute(&INSERT, &params)
}

/// Writes where they stand now; each was one version earlier before.
pub fn update(tx: &mut Tx<'_>, held: &[UserCoupon]) -> Result<(), Fault> {
    if held.is_empty() {
        return Ok(());
    }
    let columns: Vec<_> = held.iter().map(Columns::of).collect();
    let changed = if tx.engine() == Engine::Sqlite {
        let rows = held.iter().zip(&columns).map(|(held, columns)| -> [Param<'_>; 9] {
            [
                Param::Blob(held.id.as_bytes()),
                columns.status.into(),
                columns.result.into(),
                columns.slot.into(),
                columns.order.into(),
                columns.note.into(),
                held.version.into(),
                columns.decided.into(),
                columns.changed.into(),
            ]
        });
        tx.execute_rows(&UPDATE, rows)?
    } else {
        let lists = Lists::of(held.iter().zip(&columns));
        let params = [
            Param::Blobs(&lists.ids),
            Param::Texts(&lists.statuses),
            Param::Texts(&lists.results),
            Param::Ints(&lists.slots),
            Param::Texts(&lists.orders),
            Param::Texts(&lists.notes),
            Param::Ints(&lists.versions),
            Param::Ints(&lists.decided),
            Param::Ints(&lists.changed),
        ];
        tx.execute(&UPDATE, &params)?
    };
    if usize::try_from(changed) != Ok(held.len()) {
        return Err(Fault::inconsistent("a user coupon changed while it was held"));
    }
    Ok(())
}

pub fn find(tx: &mut Tx<'_>, id: UserCouponId) -> Result<Option<UserCoupon>, Fault> {
    Ok(find_many(tx, &[id])?.pop())
}

/// Those of them that there are.
pub fn find_many(tx: &mut Tx<'_>, ids: &[UserCouponId]) -> Result<Vec<UserCoupon>, Fault> {
    by_ids(tx, &FIND, ids)
}

/// The same, held until the transaction ends.
pub fn lock(tx: &mut Tx<'_>, ids: &[UserCouponId]) -> Result<Vec<UserCoupon>, Fault> {
    by_ids(tx, &LOCK, ids)
}

fn by_ids(
    tx: &mut Tx<'_>,
    statement: &'static crate::Statement,
    ids: &[UserCouponId],
) -> Result<Vec<UserCoupon>, Fault> {
    if tx.engine() == Engine::Postgres {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        return tx.query(statement, &[Param::Blobs(&ids)], held);
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(tx.query_one(statement, &[Param::Blob(id.as_bytes())], held)?);
    }
    Ok(found)
}

/// What these users have of a coupon, and what any of them has under the key beside their name, by user.
pub fn of_users(
    tx: &mut Tx<'_>,
    coupon_id: &CouponId,
    wanted: &[(&str, &str)],
) -> Result<HashMap<String, Vec<UserCoupon>>, Fault> {
    let mut found: HashMap<String, Vec<UserCoupon>> = HashMap::with_capacity(wanted.len());
    if tx.engine() == Engine::Postgres {
        let users: Vec<_> = wanted.iter().map(|(user, _)| *user).collect();
        let keys: Vec<_> = wanted.iter().map(|(_, key)| *key).collect();
        let params = [Param::Texts(&users), coupon_id.as_str().into(), Param::Texts(&keys)];
        for one in tx.query(&OF_USER, &params, held)? {
            found.entry(one.user_id.to_string()).or_default().push(one);
        }
        return Ok(found);
    }
    for (user, key) in wanted {
        for id in tx.holders().all_of(tx, user)? {
            let of = [Param::Blob(id.as_bytes()), (*user).into(), coupon_id.as_str().into(), (*key).into()];
            let Some(one) = tx.query_one(&OF_USER, &of, held)? else { continue };
            let all = found.entry((*user).to_owned()).or_default();
            if !all.iter().any(|known| known.id == one.id) {
                all.push(one);
            }
        }
    }
    Ok(found)
}

/// A user's, the newest first.
pub fn mine(
    tx: &mut Tx<'_>,
    user: &UserId,
    before: UserCouponId,
    limit: i64,
) -> Result<Vec<UserCoupon>, Fault> {
    if tx.engine() == Engine::Postgres {
        return tx.query(&MINE, &[user.as_str().into(), Param::Blob(before.as_bytes()), limit.into()], held);
    }
    let mut mine = Vec::new();
    for id in tx.holders().ids_of(tx, user.as_str(), before.as_bytes(), limit)? {
        if i64::try_from(mine.len()).unwrap_or(i64::MAX) == limit {
            break;
        }
        mine.extend(tx.query_one(&MINE, &[Param::Blob(id.as_bytes()), user.as_str().into()], held)?);
    }
    Ok(mine)
}

/// A coupon's, the newest first. Where those of a status are wanted, so many are looked through.
pub fn of_coupon(
    tx: &mut Tx<'_>,
    coupon_id: &CouponId,
    before: UserCouponId,
    limit: i64,
    status: Option<UserCouponStatus>,
) -> Result<Listed<UserCoupon, UserCouponId>, Fault> {
    let (coupon, before) = (Param::Text(coupon_id.as_str()), Param::Blob(before.as_bytes()));
    let end = match status {
        None => None,
        Some(_) => {
            let params = [coupon, before, (LOOKED_THROUGH_MAX - 1).into()];
            tx.query_one(&EDGE_OF_COUPON, &params, |row| Ok(UserCouponId::from_bytes(row.uuid(0)?)))?
        }
    };
    let last = end.unwrap_or(UserCouponId::from_bytes([0; 16]));
    let status = status.map_or("", UserCouponStatus::as_str);
    let params = [coupon, before, limit.into(), status.into(), Param::Blob(last.as_bytes())];
    Ok(Listed { rows: tx.query(&OF_COUPON, &params, held)?, end })
}

/// A coupon's after one, in the order of their ids.
pub fn walk(
    tx: &mut Tx<'_>,
    coupon_id: &CouponId,
    after: &[u8],
    limit: i64,
) -> Result<Vec<UserCoupon>, Fault> {
    tx.query(&WALK, &[coupon_id.as_str().into(), Param::Blob(after), limit.into()], held)
}

/// The same, held until the transaction ends.
pub fn walk_locked(
    tx: &mut Tx<'_>,
    coupon_id: &CouponId,
    after: &[u8],
    limit: i64,
) -> Result<Vec<UserCoupon>, Fault> {
    tx.query(&WALK_LOCKED, &[coupon_id.as_str().into(), Param::Blob(after), limit.into()], held)
}

/// A state as its columns have it.
struct Columns<'a> {
    status: &'static str,
    result: &'static str,
    slot: i64,
    order: &'a str,
    note: &'a str,
    decided: i64,
    changed: i64,
}

impl<'a> Columns<'a> {
    fn of(held: &'a UserCoupon) -> Self {
        let state = &held.state;
        let (order, note, decided, changed) = match state {
            State::Pending => ("", "", None, held.requested_at),
            State::Confirmed { at, cancelled_order, changed_at, .. } => {
                (cancelled_order.as_deref().unwrap_or(""), "", Some(*at), *changed_at)
            }
            State::Rejected { at, .. } => ("", "", Some(*at), *at),
            State::Used { at, order, used_at, .. } => (order.as_str(), "", Some(*at), *used_at),
            State::Expired { at, expired_at, .. } => ("", "", Some(*at), *expired_at),
            State::Revoked { at, revoked_at, note } => ("", note.as_str(), *at, *revoked_at),
        };
        Self {
            status: state.status().as_str(),
            result: state.result().map_or("", CouponResult::as_str),
            slot: state.slot().unwrap_or(0),
            order,
            note,
            decided: decided.map_or(-1, Timestamp::as_millis),
            changed: changed.as_millis(),
        }
    }
}

struct Lists<'a> {
    ids: Vec<&'a [u8]>,
    statuses: Vec<&'a str>,
    results: Vec<&'a str>,
    slots: Vec<i64>,
    orders: Vec<&'a str>,
    notes: Vec<&'a str>,
    versions: Vec<i64>,
    decided: Vec<i64>,
    changed: Vec<i64>,
}

impl<'a> Lists<'a> {
    fn of(rows: impl Iterator<Item = (&'a UserCoupon, &'a Columns<'a>)>) -> Self {
        let mut lists = Self {
            ids: Vec::new(),
            statuses: Vec::new(),
            results: Vec::new(),
            slots: Vec::new(),
            orders: Vec::new(),
            notes: Vec::new(),
            versions: Vec::new(),
            decided: Vec::new(),
            changed: Vec::new(),
        };
        for (held, columns) in rows {
            lists.ids.push(held.id.as_bytes());
            lists.statuses.push(columns.status);
            lists.results.push(columns.result);
            lists.slots.push(columns.slot);
            lists.orders.push(columns.order);
            lists.notes.push(columns.note);
            lists.versions.push(held.version);
            lists.decided.push(columns.decided);
            lists.changed.push(columns.changed);
        }
        lists
    }
}

pub(crate) fn held(row: &Row<'_>) -> Result<UserCoupon, Fault> {
    let id = UserCouponId::from_bytes(row.uuid(0)?);
    let odd = |what: &str| Fault::inconsistent(format!("user coupon {id}: {what}"));
    let status = UserCouponStatus::parse(row.text(3)?).ok_or_else(|| odd("a status that does not exist"))?;
    let slot = || row.optional_int(5)?.ok_or_else(|| odd("it has no place"));
    let decided = || row.optional_timestamp(11)?.ok_or_else(|| odd("it says not when it was decided"));
    let order = row.optional_text(7)?.map(str::to_owned);
    let changed_at = row.timestamp(12)?;
    let state = match status {
        UserCouponStatus::Pending => State::Pending,
        UserCouponStatus::Confirmed => {
            State::Confirmed { slot: slot()?, at: decided()?, cancelled_order: order, changed_at }
        }
        UserCouponStatus::Rejected => {
            let why = row.optional_text(4)?.and_then(CouponResult::parse);
            let why = why.filter(|why| *why != CouponResult::Issued);
            State::Rejected { why: why.ok_or_else(|| odd("it was rejected for no reason"))?, at: decided()? }
        }
        UserCouponStatus::Used => State::Used {
            slot: slot()?,
            at: decided()?,
            order: order.ok_or_else(|| odd("it was used for no order"))?,
            used_at: changed_at,
        },
        UserCouponStatus::Expired => State::Expired { slot: slot()?, at: decided()?, expired_at: changed_at },
        UserCouponStatus::Revoked => State::Revoked {
            at: row.optional_timestamp(11)?,
            revoked_at: changed_at,
            note: row.optional_text(8)?.unwrap_or_default().to_owned(),
        },
    };
    if state.slot() != row.optional_int(5)? {
        return Err(odd("it has a place that it should not have"));
    }
    Ok(UserCoupon {
        id,
        coupon_id: CouponId::parse(row.text(1)?).map_err(Fault::inconsistent)?,
        user_id: UserId::parse(row.text(2)?).map_err(Fault::inconsistent)?,
        key: row.text(6)?.to_owned(),
        version: row.int(9)?,
        requested_at: row.timestamp(10)?,
        state,
    })
}
