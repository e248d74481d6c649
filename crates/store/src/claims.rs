//! Claims, on their way and at their end.

pub mod listing;
pub mod stock;

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::claims::{Claim, ClaimId, ClaimStatus};
use guerdon_core::{ClaimKey, EventId, Timestamp, UserId};
use serde::de::DeserializeOwned;
use std::collections::HashSet;

macro_rules! claim_columns {
    () => {
        "claim_id, request_id, user_id, event_id, status, epoch, expires_at, event_snapshot, checked_data_snapshot,
        progress, created_at, updated_at, waits_for, next_at"
    };
}
pub(crate) use claim_columns;

macro_rules! due {
    () => {
        "waits_for IS NOT NULL AND next_at IS NOT NULL"
    };
}

statements! {
    BY_KEY = concat!("SELECT ", claim_columns!(), " FROM user_reward_requests WHERE request_id = $1"),
        postgres: concat!("SELECT ", claim_columns!(), " FROM user_reward_requests
        WHERE request_id = ANY(CAST($1 AS TEXT[]))");
    LIVE_OF = "SELECT user_id, event_id, status, request_id FROM user_reward_requests
        WHERE user_id = $1 AND event_id = $2 AND live IS NOT NULL",
        postgres: "SELECT user_id, event_id, status, request_id FROM user_reward_requests
        WHERE user_id = ANY(CAST($1 AS TEXT[])) AND live IS NOT NULL";
    INSERT = "INSERT INTO user_reward_requests (claim_id, request_id, user_id, event_id, status, current_saga_step, live,
            waits_for, next_at, expires_at, epoch, event_snapshot, progress, created_at, updated_at)
        VALUES ($1, $2, $3, $4, $5, $6, NULLIF($7, 0), NULLIF($8, ''), NULLIF($9, -1), NULLIF($10, -1), 0, $11, $12, $13,
            $13)
        ON CONFLICT DO NOTHING RETURNING claim_id",
        postgres: "INSERT INTO user_reward_requests (claim_id, request_id, user_id, event_id, status,
            current_saga_step, live, waits_for, next_at, expires_at, epoch, event_snapshot, progress, created_at,
            updated_at)
        SELECT id, key, user_id, event_id, status, step, NULLIF(live, CAST(0 AS BIGINT)), NULLIF(waits, ''),
            NULLIF(next_at, CAST(-1 AS BIGINT)), NULLIF(expires, CAST(-1 AS BIGINT)), 0, snapshot, progress, $13, $13
        FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS TEXT[]), CAST($3 AS TEXT[]), CAST($4 AS TEXT[]),
            CAST($5 AS TEXT[]), CAST($6 AS TEXT[]), CAST($7 AS BIGINT[]), CAST($8 AS TEXT[]), CAST($9 AS BIGINT[]),
            CAST($10 AS BIGINT[]), CAST($11 AS TEXT[]), CAST($12 AS TEXT[]))
            AS row (id, key, user_id, event_id, status, step, live, waits, next_at, expires, snapshot, progress)
        ON CONFLICT DO NOTHING RETURNING claim_id";
    LOCK = concat!("SELECT ", claim_columns!(), " FROM user_reward_requests WHERE claim_id = $1"),
        postgres: concat!("SELECT ", claim_columns!(), " FROM user_reward_requests
        WHERE claim_id = ANY(CAST($1 AS BYTEA[])) ORDER BY claim_id FOR UPDATE");
    FIND = concat!("SELECT ", claim_columns!(), " FROM user_reward_requests WHERE claim_id = $1"),
        postgres: concat!("SELECT ", claim_columns!(), " FROM user_reward_requests
        WHERE claim_id = ANY(CAST($1 AS BYTEA[]))");
    /// At their end, or in need of a hand.
    ENDED = concat!("SELECT ", claim_columns!(), " FROM user_reward_requests WHERE claim_id = $1 AND waits_for IS NULL"),
        postgres: concat!("SELECT ", claim_columns!(), " FROM user_reward_requests
        WHERE claim_id = ANY(CAST($1 AS BYTEA[])) AND waits_for IS NULL");
    DUE = concat!("SELECT claim_id FROM user_reward_requests WHERE waits_for = $1 AND next_at <= $2 AND ", due!(), "
        ORDER BY next_at LIMIT $3");
    NEXT_DUE = concat!("SELECT next_at FROM user_reward_requests WHERE waits_for = $1 AND next_at > $2 AND ", due!(), "
        ORDER BY next_at LIMIT 1");
    NEXT_LANE = concat!("SELECT waits_for FROM user_reward_requests WHERE waits_for > $1 AND ", due!(), "
        ORDER BY waits_for, next_at LIMIT 1");
    /// Out of time, and nobody is at them.
    OVERDUE = "SELECT claim_id FROM user_reward_requests WHERE expires_at <= $1 AND expires_at IS NOT NULL
            AND next_at <= $1
        ORDER BY expires_at LIMIT $2";
    WRITE = "UPDATE user_reward_requests SET status = $4, current_saga_step = $5, live = NULLIF($6, 0),
            waits_for = NULLIF($7, ''), next_at = NULLIF($8, -1), expires_at = NULLIF($9, -1), worker_id = NULLIF($10, ''),
            epoch = $11, checked_data_snapshot = NULLIF($12, ''), progress = $13, updated_at = $14
        WHERE claim_id = $1 AND epoch = $2 AND status = $3",
        postgres: "UPDATE user_reward_requests c SET status = row.status, current_saga_step = row.step,
            live = NULLIF(row.live, CAST(0 AS BIGINT)), waits_for = NULLIF(row.waits, ''),
            next_at = NULLIF(row.next_at, CAST(-1 AS BIGINT)), expires_at = NULLIF(row.expires, CAST(-1 AS BIGINT)),
            worker_id = NULLIF(row.worker, ''), epoch = row.epoch, checked_data_snapshot = NULLIF(row.checked, ''),
            progress = row.progress, updated_at = row.updated
        FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS BIGINT[]), CAST($3 AS TEXT[]), CAST($4 AS TEXT[]),
            CAST($5 AS TEXT[]), CAST($6 AS BIGINT[]), CAST($7 AS TEXT[]), CAST($8 AS BIGINT[]), CAST($9 AS BIGINT[]),
            CAST($10 AS TEXT[]), CAST($11 AS BIGINT[]), CAST($12 AS TEXT[]), CAST($13 AS TEXT[]), CAST($14 AS BIGINT[]))
            AS row (id, old_epoch, old_status, status, step, live, waits, next_at, expires, worker, epoch, checked,
                progress, updated)
        WHERE c.claim_id = row.id AND c.epoch = row.old_epoch AND c.status = row.old_status";
    WAITING = concat!("SELECT COUNT(*), MIN(next_at) FROM (SELECT next_at FROM user_reward_requests
        WHERE waits_for = $1 AND ", due!(), " ORDER BY next_at LIMIT $2) waiting");
    NEEDING_HAND = "SELECT COUNT(*) FROM (SELECT 1 FROM user_reward_requests
        WHERE status = 'COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED' AND live IS NOT NULL
            AND status NOT IN ('SUCCESS_ALL_GRANTED', 'REWARD_PARTIALLY_GRANTED')
        ORDER BY claim_id LIMIT $1) waiting";
}

/// A claim as it is stored: with whom it waits for, and until when.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub claim: Claim,
    pub waits_for: Option<String>,
    pub next_at: Option<Timestamp>,
}

/// Claims by the keys that people know them by.
pub fn by_keys(tx: &mut Tx<'_>, keys: &[&str]) -> Result<Vec<Stored>, Fault> {
    if tx.engine() == Engine::Postgres {
        return tx.query(&BY_KEY, &[Param::Texts(keys)], stored);
    }
    let mut found = Vec::new();
    for key in keys {
        found.extend(tx.query_one(&BY_KEY, &[(*key).into()], stored)?);
    }
    Ok(found)
}

/// A claim that keeps its user from another one: whose, at which event, where it stands, and its key.
pub type Live = ((String, String), (ClaimStatus, String));

/// The claims that keep these users from others at these events. On PostgreSQL there may be more than was asked for.
pub fn live_of(tx: &mut Tx<'_>, pairs: &[(&str, &str)]) -> Result<Vec<Live>, Fault> {
    let read = |row: &Row<'_>| {
        let status = ClaimStatus::parse(row.text(2)?).ok_or_else(|| Fault::inconsistent("a claim's status"));
        let of = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
        Ok((of, (status?, row.text(3)?.to_owned())))
    };
    if tx.engine() == Engine::Postgres {
        // By the users alone: a plan that begins with the event would read all of its claims.
        let users: Vec<_> = pairs.iter().map(|pair| pair.0).collect();
        return tx.query(&LIVE_OF, &[Param::Texts(&users)], read);
    }
    let mut found = Vec::new();
    for (user, event) in pairs {
        found.extend(tx.query_one(&LIVE_OF, &[(*user).into(), (*event).into()], read)?);
    }
    Ok(found)
}

fn time(time: Option<Timestamp>) -> i64 {
    time.map_or(-1, Timestamp::as_millis)
}

fn json(value: &impl serde::Serialize) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| Fault::inconsistent(error.to_string()))
}

/// Writes new claims; those that are in nobody's way. The others are left out.
pub fn insert(tx: &mut Tx<'_>, claims: &[&Stored]) -> Result<HashSet<ClaimId>, Fault> {
    let id = |row: &Row<'_>| Ok(ClaimId::from_bytes(row.uuid(0)?));
    let now = tx.now();
    let mut texts = Vec::with_capacity(claims.len());
    for Stored { claim, .. } in claims {
        texts.push((json(&claim.snapshot)?, json(&claim.progress)?));
    }
    if tx.engine() == Engine::Sqlite {
        let mut written = HashSet::new();
        for (Stored { claim, waits_for, next_at }, (snapshot, progress)) in claims.iter().zip(&texts) {
            let params = [
                Param::Blob(claim.id.as_bytes()),
                claim.request_id.as_str().into(),
                claim.user_id.as_str().into(),
                claim.event_id.as_str().into(),
                claim.status().as_str().into(),
                claim.progress.step.as_str().into(),
                i64::from(claim.status().is_live()).into(),
                waits_for.as_deref().unwrap_or("").into(),
                time(*next_at).into(),
                time(claim.expires_at).into(),
                snapshot.into(),
                progress.into(),
                now.into(),
            ];
            written.extend(tx.query_one(&INSERT, &params, id)?);
        }
        return Ok(written);
    }
    let ids: Vec<&[u8]> = claims.iter().map(|at| at.claim.id.as_bytes().as_slice()).collect();
    let keys: Vec<_> = claims.iter().map(|at| at.claim.request_id.as_str()).collect();
    let users: Vec<_> = claims.iter().map(|at| at.claim.user_id.as_str()).collect();
    let events: Vec<_> = claims.iter().map(|at| at.claim.event_id.as_str()).collect();
    let statuses: Vec<_> = claims.iter().map(|at| at.claim.status().as_str()).collect();
    let steps: Vec<_> = claims.iter().map(|at| at.claim.progress.step.as_str()).collect();
    let live: Vec<_> = claims.iter().map(|at| i64::from(at.claim.status().is_live())).collect();
    let waits: Vec<_> = claims.iter().map(|at| at.waits_for.as_deref().unwrap_or("")).collect();
    let next: Vec<_> = claims.iter().map(|at| time(at.next_at)).collect();
    let expires: Vec<_> = claims.iter().map(|at| time(at.claim.expires_at)).collect();
    let snapshots: Vec<_> = texts.iter().map(|text| text.0.as_str()).collect();
    let progress: Vec<_> = texts.iter().map(|text| text.1.as_str()).collect();
    let params = [
        Param::Blobs(&ids),
        Param::Texts(&keys),
        Param::Texts(&users),
        Param::Texts(&events),
        Param::Texts(&statuses),
        Param::Texts(&steps),
        Param::Ints(&live),
        Param::Texts(&waits),
        Param::Ints(&next),
        Param::Ints(&expires),
        Param::Texts(&snapshots),
        Param::Texts(&progress),
        now.into(),
    ];
    Ok(tx.query(&INSERT, &params, id)?.into_iter().collect())
}

/// Holds claims until the transaction ends, in the order of their ids.
pub fn lock(tx: &mut Tx<'_>, ids: &[ClaimId]) -> Result<Vec<Stored>, Fault> {
    of_ids(tx, &LOCK, ids)
}

/// Claims as they are.
pub fn find(tx: &mut Tx<'_>, ids: &[ClaimId]) -> Result<Vec<Stored>, Fault> {
    of_ids(tx, &FIND, ids)
}

/// Those among these claims that are at their end, or need a hand.
pub fn ended(tx: &mut Tx<'_>, ids: &[ClaimId]) -> Result<Vec<Stored>, Fault> {
    of_ids(tx, &ENDED, ids)
}

fn of_ids(
    tx: &mut Tx<'_>,
    statement: &'static crate::Statement,
    ids: &[ClaimId],
) -> Result<Vec<Stored>, Fault> {
    if tx.engine() == Engine::Postgres {
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        return tx.query(statement, &[Param::Blobs(&ids)], stored);
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(tx.query_one(statement, &[Param::Blob(id.as_bytes())], stored)?);
    }
    Ok(found)
}

fn id(row: &Row<'_>) -> Result<ClaimId, Fault> {
    Ok(ClaimId::from_bytes(row.uuid(0)?))
}

/// What somebody has to do by now, the longest due first.
pub fn due(tx: &mut Tx<'_>, lane: &str, now: Timestamp, limit: i64) -> Result<Vec<ClaimId>, Fault> {
    tx.query(&DUE, &[lane.into(), now.into(), limit.into()], id)
}

/// When the next of them is due.
pub fn next_due(tx: &mut Tx<'_>, lane: &str, now: Timestamp) -> Result<Option<Timestamp>, Fault> {
    tx.query_one(&NEXT_DUE, &[lane.into(), now.into()], |row| row.timestamp(0))
}

/// Claims whose time is over and that nobody is at.
pub fn overdue(tx: &mut Tx<'_>, now: Timestamp, limit: i64) -> Result<Vec<ClaimId>, Fault> {
    tx.query(&OVERDUE, &[now.into(), limit.into()], id)
}

/// Whom claims wait for.
pub fn lanes(tx: &mut Tx<'_>) -> Result<Vec<String>, Fault> {
    let mut found: Vec<String> = Vec::new();
    loop {
        let after = found.last().map_or("", String::as_str);
        match tx.query_one(&NEXT_LANE, &[after.into()], |row| Ok(row.text(0)?.to_owned()))? {
            Some(next) => found.push(next),
            None => return Ok(found),
        }
    }
}

/// How many wait for somebody, counted up to a limit, and since when the first is due.
pub fn waiting(tx: &mut Tx<'_>, lane: &str, most: i64) -> Result<(i64, Option<Timestamp>), Fault> {
    let read = |row: &Row<'_>| Ok((row.int(0)?, row.optional_timestamp(1)?));
    Ok(tx.query_one(&WAITING, &[lane.into(), most.into()], read)?.unwrap_or_default())
}

/// How many need a hand, counted up to a limit.
pub fn needing_hand(tx: &mut Tx<'_>, most: i64) -> Result<i64, Fault> {
    Ok(tx.query_one(&NEEDING_HAND, &[most.into()], |row| row.int(0))?.unwrap_or_default())
}

/// A claim that is held, as it is to be written.
#[derive(Clone, Debug)]
pub struct Change {
    pub now: Stored,
    /// What it was when it was read: anything else is not overwritten.
    pub epoch: i64,
    pub status: ClaimStatus,
    /// Who is at it.
    pub worker: Option<String>,
}

/// Writes where claims that are held stand now.
pub fn write(tx: &mut Tx<'_>, changes: &[Change]) -> Result<(), Fault> {
    if changes.is_empty() {
        return Ok(());
    }
    let mut texts = Vec::with_capacity(changes.len());
    for change in changes {
        let claim = &change.now.claim;
        let checked = claim.checked.as_ref().map(json).transpose()?.unwrap_or_default();
        texts.push((checked, json(&claim.progress)?));
    }
    let written = if tx.engine() == Engine::Sqlite {
        let rows = changes.iter().zip(&texts).map(|(change, (checked, progress))| {
            let Stored { claim, waits_for, next_at } = &change.now;
            [
                Param::Blob(claim.id.as_bytes()),
                change.epoch.into(),
                change.status.as_str().into(),
                claim.status().as_str().into(),
                claim.progress.step.as_str().into(),
                i64::from(claim.status().is_live()).into(),
                waits_for.as_deref().unwrap_or("").into(),
                time(*next_at).into(),
                time(claim.expires_at).into(),
                change.worker.as_deref().unwrap_or("").into(),
                claim.epoch.into(),
                checked.into(),
                progress.into(),
                claim.updated_at.into(),
            ]
        });
        tx.execute_rows(&WRITE, rows)?
    } else {
        let claims = || changes.iter().map(|change| &change.now.claim);
        let ids: Vec<&[u8]> = claims().map(|claim| claim.id.as_bytes().as_slice()).collect();
        let old_epochs: Vec<_> = changes.iter().map(|change| change.epoch).collect();
        let old_statuses: Vec<_> = changes.iter().map(|change| change.status.as_str()).collect();
        let statuses: Vec<_> = claims().map(|claim| claim.status().as_str()).collect();
        let steps: Vec<_> = claims().map(|claim| claim.progress.step.as_str()).collect();
        let live: Vec<_> = claims().map(|claim| i64::from(claim.status().is_live())).collect();
        let waits: Vec<_> =
            changes.iter().map(|change| change.now.waits_for.as_deref().unwrap_or("")).collect();
        let next: Vec<_> = changes.iter().map(|change| time(change.now.next_at)).collect();
        let expires: Vec<_> = claims().map(|claim| time(claim.expires_at)).collect();
        let workers: Vec<_> = changes.iter().map(|change| change.worker.as_deref().unwrap_or("")).collect();
        let epochs: Vec<_> = claims().map(|claim| claim.epoch).collect();
        let checked: Vec<_> = texts.iter().map(|text| text.0.as_str()).collect();
        let progress: Vec<_> = texts.iter().map(|text| text.1.as_str()).collect();
        let updated: Vec<_> = claims().map(|claim| claim.updated_at.as_millis()).collect();
        let params = [
            Param::Blobs(&ids),
            Param::Ints(&old_epochs),
            Param::Texts(&old_statuses),
            Param::Texts(&statuses),
            Param::Texts(&steps),
            Param::Ints(&live),
            Param::Texts(&waits),
            Param::Ints(&next),
            Param::Ints(&expires),
            Param::Texts(&workers),
            Param::Ints(&epochs),
            Param::Texts(&checked),
            Param::Texts(&progress),
            Param::Ints(&updated),
        ];
        tx.execute(&WRITE, &params)?
    };
    if usize::try_from(written) == Ok(changes.len()) {
        return Ok(());
    }
    Err(Fault::inconsistent(format!("{written} claims were written where {} are held", changes.len())))
}

fn parsed<T: DeserializeOwned>(id: ClaimId, what: &str, text: &str) -> Result<T, Fault> {
    serde_json::from_str(text)
        .map_err(|error| Fault::inconsistent(format!("the claim {id}: its {what}: {error}")))
}

/// Reads a row of `claim_columns!`.
pub(crate) fn stored(row: &Row<'_>) -> Result<Stored, Fault> {
    let id = ClaimId::from_bytes(row.uuid(0)?);
    let checked = row.optional_text(8)?.map(|text| parsed(id, "data", text)).transpose()?;
    let claim = Claim {
        id,
        request_id: ClaimKey::parse(row.text(1)?).map_err(Fault::inconsistent)?,
        user_id: UserId::parse(row.text(2)?).map_err(Fault::inconsistent)?,
        event_id: EventId::parse(row.text(3)?).map_err(Fault::inconsistent)?,
        snapshot: parsed(id, "snapshot", row.text(7)?)?,
        checked,
        progress: parsed(id, "progress", row.text(9)?)?,
        epoch: row.int(5)?,
        expires_at: row.optional_timestamp(6)?,
        created_at: row.timestamp(10)?,
        updated_at: row.timestamp(11)?,
    };
    if claim.status().as_str() != row.text(4)? {
        return Err(Fault::inconsistent(format!("the claim {id} is {} and something else", row.text(4)?)));
    }
    let waits_for = row.optional_text(12)?.map(str::to_owned);
    Ok(Stored { claim, waits_for, next_at: row.optional_timestamp(13)? })
}
