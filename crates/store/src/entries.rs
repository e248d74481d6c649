//! Entries: check-ins and plays, and where each person stands.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::entries::{Day, Entry, Play, Standing};
use guerdon_core::requests::RequestId;
use guerdon_core::{EventId, RewardId, UserId};
use std::collections::HashMap;

macro_rules! entry_columns {
    () => {
        "entry_id, event_id, member_id, day, slot, number, streak, created_at, odds_version, drawn, reward_id,
        idempotency_key"
    };
}

pub(crate) use entry_columns;

statements! {
    LOCK_EVENT = "SELECT event_id FROM events WHERE event_id = $1",
        postgres: "SELECT CAST(pg_advisory_xact_lock_shared(hashtextextended($1, 0)) AS TEXT)";
    /// Through the key alone, whose entries are walked in their order: a join would begin with the event for as long as
    /// the table has no statistics, and read everybody in it.
    STAND = "SELECT member_id, last_day, total, run FROM event_entrants WHERE event_id = $1 AND member_id = $2",
        postgres: "SELECT member_id, last_day, total, run FROM event_entrants
        WHERE member_id = ANY(CAST($2 AS TEXT[])) AND event_id = $1 FOR UPDATE";
    MAKE = "INSERT INTO event_entrants (event_id, member_id, last_day, total, run) VALUES ($1, $2, 0, 0, 0)
        ON CONFLICT (member_id, event_id) DO NOTHING",
        postgres: "INSERT INTO event_entrants (event_id, member_id, last_day, total, run)
        SELECT $1, member_id, 0, 0, 0 FROM unnest(CAST($2 AS TEXT[])) AS row (member_id)
        ON CONFLICT (member_id, event_id) DO NOTHING";
    MOVE = "INSERT INTO event_entrants (event_id, member_id, last_day, total, run) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (member_id, event_id) DO UPDATE SET last_day = excluded.last_day, total = excluded.total,
            run = excluded.run",
        postgres: "INSERT INTO event_entrants (event_id, member_id, last_day, total, run)
        SELECT $1, member_id, day, total, run
        FROM unnest(CAST($2 AS TEXT[]), CAST($3 AS BIGINT[]), CAST($4 AS BIGINT[]), CAST($5 AS BIGINT[]))
            AS row (member_id, day, total, run)
        ON CONFLICT (member_id, event_id) DO UPDATE SET last_day = excluded.last_day, total = excluded.total,
            run = excluded.run";
    STANDING = "SELECT last_day, total, run FROM event_entrants WHERE event_id = $1 AND member_id = $2";
    INSERT = concat!("INSERT INTO event_entry (", entry_columns!(), ")
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULLIF($9, -1), NULLIF($10, -1), NULLIF($11, ''), NULLIF($12, ''))"),
        postgres: concat!("INSERT INTO event_entry (", entry_columns!(), ")
        SELECT id, $2, member_id, day, slot, number, streak, $8, NULLIF(version, -1), NULLIF(drawn, -1),
            NULLIF(reward, ''), NULLIF(key, '')
        FROM unnest(CAST($1 AS BYTEA[]), CAST($3 AS TEXT[]), CAST($4 AS BIGINT[]), CAST($5 AS BIGINT[]),
            CAST($6 AS BIGINT[]), CAST($7 AS BIGINT[]), CAST($9 AS BIGINT[]), CAST($10 AS BIGINT[]),
            CAST($11 AS TEXT[]), CAST($12 AS TEXT[]))
            AS row (id, member_id, day, slot, number, streak, version, drawn, reward, key)");
    ON_DAY = concat!("SELECT ", entry_columns!(), " FROM event_entry
        WHERE event_id = $1 AND member_id = $2 AND day = $3 AND slot = 1");
    BY_KEY = concat!("SELECT ", entry_columns!(), " FROM event_entry WHERE member_id = $1 AND idempotency_key = $2"),
        postgres: concat!("SELECT ", entry_columns!(), " FROM event_entry WHERE (member_id, idempotency_key) IN
        (SELECT member, key FROM unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[])) AS row (member, key))
            AND idempotency_key IS NOT NULL");
    OF_MEMBER = concat!("SELECT ", entry_columns!(), " FROM event_entry
        WHERE event_id = $1 AND member_id = $2 AND number < $3 ORDER BY number DESC LIMIT $4");
    DAYS = "SELECT day FROM event_entry WHERE event_id = $1 AND member_id = $2 AND slot = 1 ORDER BY day DESC LIMIT $3";
}

/// Keeps an event from changing until the transaction ends, beside others who do; on PostgreSQL across processes.
pub fn hold_event(tx: &mut Tx<'_>, event_id: &EventId) -> Result<(), Fault> {
    if tx.engine() == Engine::Postgres {
        tx.query(&LOCK_EVENT, &[event_id.as_str().into()], |_| Ok(()))?;
    }
    Ok(())
}

/// Where people stand, held until the transaction ends. They are named in their order, each once. Somebody who is to
/// have an entry and has none yet can only be held where they have a row, which is made.
pub fn hold<'u>(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    members: &[&'u str],
    make: bool,
) -> Result<HashMap<&'u str, Standing>, Fault> {
    let mut rows = Vec::with_capacity(members.len());
    if tx.engine() == Engine::Postgres {
        let params = [event_id.as_str().into(), Param::Texts(members)];
        if make {
            tx.execute(&MAKE, &params)?;
        }
        rows = tx.query(&STAND, &params, |row| Ok((row.text(0)?.to_owned(), standing(row, 1)?)))?;
    } else {
        for member in members {
            let params = [event_id.as_str().into(), (*member).into()];
            rows.extend(
                tx.query_one(&STAND, &params, |row| Ok((row.text(0)?.to_owned(), standing(row, 1)?)))?,
            );
        }
    }
    let found: HashMap<_, _> = rows.into_iter().collect();
    let known = members.iter().filter_map(|member| Some((*member, *found.get(*member)?)));
    Ok(known.filter(|(_, standing)| standing.total > 0).collect())
}

fn standing(row: &Row<'_>, first: usize) -> Result<Standing, Fault> {
    Ok(Standing {
        last_day: Day::from_number(row.int(first)?),
        total: row.int(first + 1)?,
        run: row.int(first + 2)?,
    })
}

pub fn find_standing(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    member: &UserId,
) -> Result<Option<Standing>, Fault> {
    let params = [event_id.as_str().into(), member.as_str().into()];
    let found = tx.query_one(&STANDING, &params, |row| standing(row, 0))?;
    Ok(found.filter(|standing| standing.total > 0))
}

/// Writes where people stand who are held.
pub fn stand(tx: &mut Tx<'_>, event_id: &EventId, moved: &[(&str, Standing)]) -> Result<(), Fault> {
    if tx.engine() == Engine::Sqlite {
        let rows = moved.iter().map(|(member, standing)| {
            [
                event_id.as_str().into(),
                (*member).into(),
                standing.last_day.number().into(),
                standing.total.into(),
                standing.run.into(),
            ]
        });
        return tx.execute_rows(&MOVE, rows).map(drop);
    }
    let members: Vec<_> = moved.iter().map(|(member, _)| *member).collect();
    let days: Vec<_> = moved.iter().map(|(_, standing)| standing.last_day.number()).collect();
    let totals: Vec<_> = moved.iter().map(|(_, standing)| standing.total).collect();
    let runs: Vec<_> = moved.iter().map(|(_, standing)| standing.run).collect();
    let params = [
        event_id.as_str().into(),
        Param::Texts(&members),
        Param::Ints(&days),
        Param::Ints(&totals),
        Param::Ints(&runs),
    ];
    tx.execute(&MOVE, &params).map(drop)
}

/// Writes entries of one event, each with whose it is.
pub fn insert(tx: &mut Tx<'_>, event_id: &EventId, entries: &[(&str, Entry)]) -> Result<(), Fault> {
    let now = tx.now();
    let version = |entry: &Entry| entry.play.as_ref().map_or(-1, |play| play.odds_version);
    let drawn = |entry: &Entry| entry.play.as_ref().map_or(-1, |play| play.drawn);
    if tx.engine() == Engine::Sqlite {
        let rows = entries.iter().map(|(member, entry)| -> [Param<'_>; 12] {
            [
                Param::Blob(entry.id.as_bytes()),
                event_id.as_str().into(),
                (*member).into(),
                entry.day.number().into(),
                entry.slot.into(),
                entry.number.into(),
                entry.streak.into(),
                now.into(),
                version(entry).into(),
                drawn(entry).into(),
                reward(entry).into(),
                key(entry).into(),
            ]
        });
        return tx.execute_rows(&INSERT, rows).map(drop);
    }
    let ids: Vec<&[u8]> = entries.iter().map(|(_, entry)| entry.id.as_bytes().as_slice()).collect();
    let members: Vec<_> = entries.iter().map(|(member, _)| *member).collect();
    let days: Vec<_> = entries.iter().map(|(_, entry)| entry.day.number()).collect();
    let slots: Vec<_> = entries.iter().map(|(_, entry)| entry.slot).collect();
    let numbers: Vec<_> = entries.iter().map(|(_, entry)| entry.number).collect();
    let streaks: Vec<_> = entries.iter().map(|(_, entry)| entry.streak).collect();
    let versions: Vec<_> = entries.iter().map(|(_, entry)| version(entry)).collect();
    let drawn: Vec<_> = entries.iter().map(|(_, entry)| drawn(entry)).collect();
    let rewards: Vec<_> = entries.iter().map(|(_, entry)| reward(entry)).collect();
    let keys: Vec<_> = entries.iter().map(|(_, entry)| key(entry)).collect();
    let params = [
        Param::Blobs(&ids),
        event_id.as_str().into(),
        Param::Texts(&members),
        Param::Ints(&days),
        Param::Ints(&slots),
        Param::Ints(&numbers),
        Param::Ints(&streaks),
        now.into(),
        Param::Ints(&versions),
        Param::Ints(&drawn),
        Param::Texts(&rewards),
        Param::Texts(&keys),
    ];
    tx.execute(&INSERT, &params).map(drop)
}

fn reward(entry: &Entry) -> &str {
    entry.play.as_ref().and_then(|play| play.reward_id.as_ref()).map_or("", RewardId::as_str)
}

fn key(entry: &Entry) -> &str {
    entry.play.as_ref().map_or("", |play| play.key.as_str())
}

/// An entry, and of which event.
pub type Found = (String, Entry);

/// The first entry of somebody's on a day.
pub fn on_day(tx: &mut Tx<'_>, event_id: &EventId, member: &str, day: Day) -> Result<Option<Entry>, Fault> {
    let params = [event_id.as_str().into(), member.into(), day.number().into()];
    Ok(tx.query_one(&ON_DAY, &params, entry)?.map(|(_, entry)| entry))
}

/// The plays that people made under keys, by person and key; those that there are.
pub fn by_keys(tx: &mut Tx<'_>, wanted: &[(&str, &str)]) -> Result<HashMap<(String, String), Found>, Fault> {
    let named = |row: &Row<'_>| {
        let name = (row.text(2)?.to_owned(), row.text(11)?.to_owned());
        Ok((name, entry(row)?))
    };
    if tx.engine() == Engine::Postgres {
        let members: Vec<_> = wanted.iter().map(|(member, _)| *member).collect();
        let keys: Vec<_> = wanted.iter().map(|(_, key)| *key).collect();
        let params = [Param::Texts(&members), Param::Texts(&keys)];
        return Ok(tx.query(&BY_KEY, &params, named)?.into_iter().collect());
    }
    let mut found = HashMap::new();
    for (member, key) in wanted {
        found.extend(tx.query_one(&BY_KEY, &[(*member).into(), (*key).into()], named)?);
    }
    Ok(found)
}

/// The days on which somebody has checked in, the newest first.
pub fn days(tx: &mut Tx<'_>, event_id: &EventId, member: &UserId, limit: i64) -> Result<Vec<Day>, Fault> {
    let params = [event_id.as_str().into(), member.as_str().into(), limit.into()];
    tx.query(&DAYS, &params, |row| Ok(Day::from_number(row.int(0)?)))
}

/// Somebody's entries before one, by its number, the newest first.
pub fn of_member(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    member: &UserId,
    before: i64,
    limit: i64,
) -> Result<Vec<Entry>, Fault> {
    let params = [event_id.as_str().into(), member.as_str().into(), before.into(), limit.into()];
    Ok(tx.query(&OF_MEMBER, &params, entry)?.into_iter().map(|(_, entry)| entry).collect())
}

pub(crate) fn entry(row: &Row<'_>) -> Result<Found, Fault> {
    let play = match (row.optional_int(8)?, row.optional_int(9)?) {
        (Some(odds_version), Some(drawn)) => Some(Play {
            odds_version,
            drawn,
            reward_id: row
                .optional_text(10)?
                .map(RewardId::parse)
                .transpose()
                .map_err(Fault::inconsistent)?,
            key: row.optional_text(11)?.unwrap_or_default().to_owned(),
        }),
        _ => None,
    };
    let entry = Entry {
        id: RequestId::from_bytes(row.uuid(0)?),
        day: Day::from_number(row.int(3)?),
        slot: row.int(4)?,
        number: row.int(5)?,
        streak: row.int(6)?,
        at: row.timestamp(7)?,
        play,
    };
    Ok((row.text(1)?.to_owned(), entry))
}
