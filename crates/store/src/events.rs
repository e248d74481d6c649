//! Events and their rewards.

use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::events::settings::RewardKindName;
use guerdon_core::events::{
    Event, EventKind, EventSettings, EventState, EventStatus, EventType, Reward, RewardKind, StateTimes,
};
use guerdon_core::{CouponId, EventId, RewardId, Timestamp};
use std::collections::HashMap;

macro_rules! event_columns {
    () => {
        "event_id, type, status, name, starts_at, ends_at, kind, opened_at, closed_at, announced_at, cancelled_at,
        version, created_at, updated_at"
    };
}

macro_rules! event_select {
    () => {
        concat!(
            "SELECT ",
            event_columns!(),
            ", (SELECT l.capacity_remaining FROM event_lines l WHERE l.event_id = events.event_id) FROM events "
        )
    };
}

macro_rules! reward_columns {
    () => {
        "event_id, reward_id, kind, quantity, total_stock, remaining_stock, amount, currency, coupon_id, provider,
        details"
    };
}

statements! {
    FIND = concat!(event_select!(), "WHERE event_id = $1");
    LOCK = concat!(event_select!(), "WHERE event_id = $1"),
        postgres: concat!(event_select!(), "WHERE event_id = $1 FOR UPDATE");
    LIST_BY_STATUS = concat!(event_select!(), "WHERE status = $1 AND (starts_at, event_id) > ($2, $3) AND ends_at > $5
        ORDER BY starts_at, event_id LIMIT $4");
    LIST_NEWEST = concat!(event_select!(), "WHERE (created_at, event_id) < ($1, $2) ORDER BY created_at DESC, event_id DESC LIMIT $3");
    INSERT = concat!("INSERT INTO events (", event_columns!(), ")
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT (event_id) DO NOTHING");
    UPDATE = "UPDATE events SET type = $2, status = $3, name = $4, starts_at = $5, ends_at = $6, kind = $7,
            opened_at = $8, closed_at = $9, announced_at = $10, cancelled_at = $11, version = $12, created_at = $13,
            updated_at = $14
        WHERE event_id = $1 AND version + 1 = $12";
    REWARDS = concat!("SELECT ", reward_columns!(), " FROM event_rewards
        WHERE event_id IN (SELECT value FROM json_each($1)) ORDER BY event_id, ordinal"),
        postgres: concat!("SELECT ", reward_columns!(), " FROM event_rewards
        WHERE event_id IN (SELECT jsonb_array_elements_text(CAST(CAST($1 AS TEXT) AS jsonb)))
        ORDER BY event_id, ordinal");
    DELETE_REWARDS = "DELETE FROM event_rewards WHERE event_id = $1";
    INSERT_REWARD = "INSERT INTO event_rewards (event_id, reward_id, ordinal, kind, quantity, total_stock,
            remaining_stock, amount, currency, coupon_id, provider, details)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
}

pub fn find(tx: &mut Tx<'_>, id: &EventId) -> Result<Option<Event>, Fault> {
    let rows = tx.query(&FIND, &[id.as_str().into()], EventRow::read)?;
    Ok(with_rewards(tx, rows)?.pop())
}

/// The event, held until the transaction ends. Events are locked in the order of their ids.
pub fn lock(tx: &mut Tx<'_>, id: &EventId) -> Result<Option<Event>, Fault> {
    let rows = tx.query(&LOCK, &[id.as_str().into()], EventRow::read)?;
    Ok(with_rewards(tx, rows)?.pop())
}

/// Events of one status in the order of their start, after the given one.
pub fn list_by_status(
    tx: &mut Tx<'_>,
    status: EventStatus,
    ending_after: Option<Timestamp>,
    after: Option<&(Timestamp, String)>,
    limit: i64,
) -> Result<Vec<Event>, Fault> {
    let (at, id) = after.map_or((-1, ""), |(at, id)| (at.as_millis(), id.as_str()));
    let ending_after = ending_after.map_or(-1, Timestamp::as_millis);
    let params = [status.as_str().into(), at.into(), id.into(), limit.into(), ending_after.into()];
    let rows = tx.query(&LIST_BY_STATUS, &params, EventRow::read)?;
    with_rewards(tx, rows)
}

/// All events, the newest first, before the given one.
pub fn list_newest(
    tx: &mut Tx<'_>,
    before: Option<&(Timestamp, String)>,
    limit: i64,
) -> Result<Vec<Event>, Fault> {
    let (at, id) = before.map_or((i64::MAX, ""), |(at, id)| (at.as_millis(), id.as_str()));
    let rows = tx.query(&LIST_NEWEST, &[at.into(), id.into(), limit.into()], EventRow::read)?;
    with_rewards(tx, rows)
}

/// Whether the event was new: false when one with this id exists, and then nothing was written.
pub fn insert(tx: &mut Tx<'_>, event: &Event) -> Result<bool, Fault> {
    let kind = kind_json(&event.settings.kind)?;
    let written = tx.execute(&INSERT, &columns(event, &kind))?;
    if written == 1 {
        insert_rewards(tx, event)?;
    }
    Ok(written == 1)
}

/// Whether the event was still at the version before this one; otherwise nothing was written.
pub fn update(tx: &mut Tx<'_>, event: &Event, rewards_changed: bool) -> Result<bool, Fault> {
    let kind = kind_json(&event.settings.kind)?;
    let written = tx.execute(&UPDATE, &columns(event, &kind))?;
    if written == 1 && rewards_changed {
        tx.execute(&DELETE_REWARDS, &[event.id.as_str().into()])?;
        insert_rewards(tx, event)?;
    }
    Ok(written == 1)
}

/// The values of `event_columns!`, in its order.
fn columns<'a>(event: &'a Event, kind: &'a str) -> [Param<'a>; 14] {
    let settings = &event.settings;
    let times = event.state.times();
    [
        event.id.as_str().into(),
        settings.kind.event_type().as_str().into(),
        event.status().as_str().into(),
        (&settings.name).into(),
        settings.starts_at.into(),
        settings.ends_at.into(),
        kind.into(),
        times.opened_at.into(),
        times.closed_at.into(),
        times.announced_at.into(),
        times.cancelled_at.into(),
        event.version.into(),
        event.created_at.into(),
        event.updated_at.into(),
    ]
}

fn kind_json(kind: &EventKind) -> Result<String, Fault> {
    serde_json::to_string(kind).map_err(|error| Fault::inconsistent(error.to_string()))
}

fn insert_rewards(tx: &mut Tx<'_>, event: &Event) -> Result<(), Fault> {
    for ((ordinal, reward), remaining) in (0_i64..).zip(&event.settings.rewards).zip(&event.remaining_stock) {
        let (amount, currency, coupon_id) = match &reward.kind {
            RewardKind::Point { amount, currency } => {
                (Some(amount.to_string()), Some(currency.as_str()), None)
            }
            RewardKind::Coupon { coupon_id } => (None, None, Some(coupon_id.as_str())),
            RewardKind::Item => (None, None, None),
        };
        let details = reward.details.as_ref().map(serde_json::to_string).transpose();
        let details = details.map_err(|error| Fault::inconsistent(error.to_string()))?;
        tx.execute(
            &INSERT_REWARD,
            &[
                event.id.as_str().into(),
                reward.id.as_str().into(),
                ordinal.into(),
                reward.kind.name().as_str().into(),
                reward.quantity.into(),
                reward.total_stock.into(),
                (*remaining).into(),
                amount.as_ref().into(),
                currency.into(),
                coupon_id.into(),
                reward.provider.as_ref().into(),
                details.as_ref().into(),
            ],
        )?;
    }
    Ok(())
}

/// A row of `events`; its rewards are read apart.
struct EventRow {
    id: EventId,
    name: String,
    starts_at: Timestamp,
    ends_at: Timestamp,
    kind: EventKind,
    state: EventState,
    capacity_remaining: Option<i64>,
    version: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl EventRow {
    fn read(row: &Row<'_>) -> Result<Self, Fault> {
        let id = EventId::parse(row.text(0)?).map_err(Fault::inconsistent)?;
        let odd = |what: String| Fault::inconsistent(format!("the event {id}: {what}"));
        let kind: EventKind = serde_json::from_str(row.text(6)?).map_err(|error| odd(error.to_string()))?;
        if EventType::parse(row.text(1)?) != Some(kind.event_type()) {
            return Err(odd("its type and its settings do not fit".into()));
        }
        let status = EventStatus::parse(row.text(2)?).ok_or_else(|| odd("unknown status".into()))?;
        let times = StateTimes {
            opened_at: row.optional_timestamp(7)?,
            closed_at: row.optional_timestamp(8)?,
            announced_at: row.optional_timestamp(9)?,
            cancelled_at: row.optional_timestamp(10)?,
        };
        let state = EventState::from_parts(status, times)
            .ok_or_else(|| odd("its times do not fit its status".into()))?;
        Ok(Self {
            name: row.text(3)?.into(),
            starts_at: row.timestamp(4)?,
            ends_at: row.timestamp(5)?,
            kind,
            state,
            version: row.int(11)?,
            created_at: row.timestamp(12)?,
            updated_at: row.timestamp(13)?,
            capacity_remaining: row.optional_int(14)?,
            id,
        })
    }
}

fn with_rewards(tx: &mut Tx<'_>, rows: Vec<EventRow>) -> Result<Vec<Event>, Fault> {
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = rows.iter().map(|row| row.id.as_str()).collect();
    let ids = serde_json::to_string(&ids).map_err(|error| Fault::inconsistent(error.to_string()))?;
    let mut rewards: HashMap<String, Vec<(Reward, Option<i64>)>> = HashMap::new();
    for (event_id, reward, remaining) in tx.query(&REWARDS, &[(&ids).into()], reward)? {
        rewards.entry(event_id).or_default().push((reward, remaining));
    }
    let join = |row: EventRow| {
        let (rewards, remaining_stock) =
            rewards.remove(row.id.as_str()).unwrap_or_default().into_iter().unzip();
        Event {
            id: row.id,
            state: row.state,
            settings: EventSettings {
                name: row.name,
                starts_at: row.starts_at,
                ends_at: row.ends_at,
                rewards,
                kind: row.kind,
            },
            remaining_stock,
            capacity_remaining: row.capacity_remaining,
            version: row.version,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    };
    Ok(rows.into_iter().map(join).collect())
}

fn reward(row: &Row<'_>) -> Result<(String, Reward, Option<i64>), Fault> {
    let event_id = row.text(0)?;
    let id = RewardId::parse(row.text(1)?).map_err(Fault::inconsistent)?;
    let odd = |what: &str| Fault::inconsistent(format!("the reward {id} of the event {event_id}: {what}"));
    let kind = match RewardKindName::parse(row.text(2)?).ok_or_else(|| odd("unknown kind"))? {
        RewardKindName::Point => RewardKind::Point {
            amount: row.text(6)?.parse().map_err(|_| odd("its amount cannot be read"))?,
            currency: row.text(7)?.into(),
        },
        RewardKindName::Coupon => {
            RewardKind::Coupon { coupon_id: CouponId::parse(row.text(8)?).map_err(Fault::inconsistent)? }
        }
        RewardKindName::Item => RewardKind::Item,
    };
    let details = row.optional_text(10)?.map(serde_json::from_str).transpose();
    let details = details.map_err(|_| odd("its details cannot be read"))?;
    let reward = Reward {
        kind,
        quantity: row.int(3)?,
        total_stock: row.optional_int(4)?,
        provider: row.optional_text(9)?.map(String::from),
        details,
        id: id.clone(),
    };
    Ok((event_id.into(), reward, row.optional_int(5)?))
}
