//! Idempotency keys: issued, claimed, finished, and forgotten after their time.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::hash::Hash;
use guerdon_core::idempotency::{Claimed, KeyName, KeyState, Progress, Record, Scope, StoredAnswer};
use guerdon_core::{Code, IdempotencyKey, Timestamp, UserId};
use std::collections::{HashMap, HashSet};

macro_rules! names {
    () => {
        "unnest(CAST($1 AS TEXT[]), CAST($2 AS TEXT[]), CAST($3 AS TEXT[])"
    };
}

/// The row of a name that stands in a list.
macro_rules! named_row {
    () => {
        "k.idempotency_key = row.key AND k.client_id = row.client AND k.scope = row.scope"
    };
}

statements! {
    ISSUE = "INSERT INTO integration.idempotency_key (idempotency_key, client_id, scope, epoch, created_at, expires_at)
        VALUES ($1, $2, $3, 0, $4, $5)",
        postgres: concat!("INSERT INTO integration.idempotency_key
            (idempotency_key, client_id, scope, epoch, created_at, expires_at)
        SELECT key, client, scope, 0, $4, $5 FROM ", names!(), ") AS row (key, client, scope)");
    FIND = "SELECT idempotency_key, client_id, scope, status, epoch, request_hash, resource_id, response_status,
            response_snapshot, expires_at, deadline
        FROM integration.idempotency_key WHERE idempotency_key = $1 AND client_id = $2 AND scope = $3",
        postgres: concat!("SELECT k.idempotency_key, k.client_id, k.scope, k.status, k.epoch, k.request_hash, k.resource_id,
            k.response_status, k.response_snapshot, k.expires_at, k.deadline
        FROM integration.idempotency_key k JOIN ", names!(), ") AS row (key, client, scope) ON ", named_row!());
    OF_KEY = "SELECT client_id, scope, status, resource_id FROM integration.idempotency_key
        WHERE idempotency_key = $1 ORDER BY client_id, scope LIMIT $2";
    CLAIM = "UPDATE integration.idempotency_key SET status = 'IN_PROGRESS', request_hash = $4, resource_id = $5, epoch = $6,
            started_at = $7, deadline = $8
        WHERE idempotency_key = $1 AND client_id = $2 AND scope = $3 AND epoch + 1 = $6
            AND (status IS NULL OR status = 'IN_PROGRESS')",
        postgres: concat!("UPDATE integration.idempotency_key k SET status = 'IN_PROGRESS', request_hash = row.hash,
            resource_id = row.resource, epoch = row.epoch, started_at = $7, deadline = $8
        FROM ", names!(), ", CAST($4 AS BYTEA[]), CAST($5 AS BYTEA[]), CAST($6 AS BIGINT[]))
            AS row (key, client, scope, hash, resource, epoch)
        WHERE ", named_row!(), " AND k.epoch + 1 = row.epoch AND (k.status IS NULL OR k.status = 'IN_PROGRESS')
        RETURNING k.idempotency_key, k.client_id, k.scope");
    CLAIM_NEW = "INSERT INTO integration.idempotency_key (idempotency_key, client_id, scope, status, request_hash,
            resource_id, epoch, started_at, deadline, created_at, expires_at)
        VALUES ($1, $2, $3, 'IN_PROGRESS', $4, $5, $6, $7, $8, $7, $8)
        ON CONFLICT (idempotency_key, client_id, scope) DO NOTHING",
        postgres: concat!("INSERT INTO integration.idempotency_key (idempotency_key, client_id, scope, status, request_hash,
            resource_id, epoch, started_at, deadline, created_at, expires_at)
        SELECT key, client, scope, 'IN_PROGRESS', hash, resource, epoch, $7, $8, $7, $8
        FROM ", names!(), ", CAST($4 AS BYTEA[]), CAST($5 AS BYTEA[]), CAST($6 AS BIGINT[]))
            AS row (key, client, scope, hash, resource, epoch)
        ORDER BY key, client, scope
        ON CONFLICT (idempotency_key, client_id, scope) DO NOTHING RETURNING idempotency_key, client_id, scope");
    FINISH = "UPDATE integration.idempotency_key SET status = $5, response_status = $6, response_snapshot = $7,
            error_code = NULLIF($8, ''), completed_at = $9
        WHERE idempotency_key = $1 AND client_id = $2 AND scope = $3 AND epoch = $4 AND status = $10",
        postgres: concat!("UPDATE integration.idempotency_key k SET status = row.status, response_status = row.answered,
            response_snapshot = row.snapshot, error_code = NULLIF(row.error, ''), completed_at = $9
        FROM ", names!(), ", CAST($4 AS BIGINT[]), CAST($5 AS TEXT[]), CAST($6 AS BIGINT[]), CAST($7 AS TEXT[]),
            CAST($8 AS TEXT[])) AS row (key, client, scope, epoch, status, answered, snapshot, error)
        WHERE ", named_row!(), " AND k.epoch = row.epoch AND k.status = $10
        RETURNING k.idempotency_key, k.client_id, k.scope, k.epoch");
    /// Those that somebody is just finishing are left to them.
    OVERDUE = "SELECT idempotency_key, client_id, scope, epoch, started_at FROM integration.idempotency_key
        WHERE status = 'IN_PROGRESS' AND scope = 'TRANSFER' AND deadline <= $1 ORDER BY deadline, idempotency_key LIMIT $2",
        postgres: "SELECT idempotency_key, client_id, scope, epoch, started_at FROM integration.idempotency_key
        WHERE status = 'IN_PROGRESS' AND scope = 'TRANSFER' AND deadline <= $1 ORDER BY deadline, idempotency_key LIMIT $2
        FOR UPDATE SKIP LOCKED";
    FORGET = "DELETE FROM integration.idempotency_key WHERE (idempotency_key, client_id, scope) IN (
            SELECT idempotency_key, client_id, scope FROM integration.idempotency_key
            WHERE created_at < $1 AND COALESCE(completed_at, deadline, expires_at) < $1
            ORDER BY created_at, idempotency_key LIMIT $2)";
}

/// A claim that is to be made.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    pub name: &'a KeyName,
    pub fingerprint: Hash,
    pub resource: [u8; 16],
    pub epoch: i64,
    /// Whether nothing is known of the key yet.
    pub new: bool,
}

/// A claim with how it ends.
#[derive(Clone, Debug)]
pub struct Finish<'a> {
    pub name: &'a KeyName,
    pub epoch: i64,
    pub answer: StoredAnswer,
    /// None where it succeeded.
    pub error: Option<Code>,
}

/// A claim that outlasted its lease.
#[derive(Clone, Debug)]
pub struct Overdue {
    pub name: KeyName,
    pub epoch: i64,
    pub started_at: Timestamp,
}

/// What a claim must be to be finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    InProgress,
    /// Finished earlier in this transaction, in good hope.
    Succeeded,
}

/// The lists of a name's columns, for PostgreSQL.
struct Names<'a> {
    keys: Vec<&'a str>,
    clients: Vec<&'a str>,
    scopes: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn of(names: impl Iterator<Item = &'a KeyName>) -> Self {
        let mut lists = Self { keys: Vec::new(), clients: Vec::new(), scopes: Vec::new() };
        for name in names {
            lists.keys.push(name.key.as_str());
            lists.clients.push(name.client.as_str());
            lists.scopes.push(name.scope.as_str());
        }
        lists
    }

    fn params(&self) -> [Param<'_>; 3] {
        [Param::Texts(&self.keys), Param::Texts(&self.clients), Param::Texts(&self.scopes)]
    }
}

fn params_of(name: &KeyName) -> [Param<'_>; 3] {
    [name.key.as_str().into(), name.client.as_str().into(), name.scope.as_str().into()]
}

/// Keys of our own that nobody has used yet.
pub fn issue(tx: &mut Tx<'_>, names: &[&KeyName], expires_at: Timestamp) -> Result<(), Fault> {
    let now = tx.now();
    if tx.engine() == Engine::Sqlite {
        let rows = names.iter().map(|name| {
            let [key, client, scope] = params_of(name);
            [key, client, scope, now.into(), expires_at.into()]
        });
        return tx.execute_rows(&ISSUE, rows).map(drop);
    }
    let lists = Names::of(names.iter().copied());
    let [keys, clients, scopes] = lists.params();
    tx.execute(&ISSUE, &[keys, clients, scopes, now.into(), expires_at.into()]).map(drop)
}

/// What is known of each of these.
pub fn find<'a>(
    tx: &mut Tx<'_>,
    names: impl Iterator<Item = &'a KeyName> + Clone,
) -> Result<HashMap<KeyName, Record>, Fault> {
    let mut found = HashMap::new();
    if tx.engine() == Engine::Sqlite {
        for name in names {
            found.extend(tx.query_one(&FIND, &params_of(name), record)?);
        }
        return Ok(found);
    }
    let lists = Names::of(names);
    found.extend(tx.query(&FIND, &lists.params(), record)?);
    Ok(found)
}

/// What was done under a key, by whomever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub client_id: String,
    pub scope: String,
    pub status: Option<String>,
    pub resource: Option<[u8; 16]>,
}

pub fn uses_of(tx: &mut Tx<'_>, key: &str, limit: i64) -> Result<Vec<Used>, Fault> {
    tx.query(&OF_KEY, &[key.into(), limit.into()], |row| {
        Ok(Used {
            client_id: row.text(0)?.to_owned(),
            scope: row.text(1)?.to_owned(),
            status: row.optional_text(2)?.map(ToOwned::to_owned),
            resource: row.optional_blob(3)?.and_then(|bytes| bytes.try_into().ok()),
        })
    })
}

/// Claims keys that are still as they were found; those that were. The lease of each ends at `deadline`.
pub fn claim(tx: &mut Tx<'_>, claims: &[Claim<'_>], deadline: Timestamp) -> Result<HashSet<KeyName>, Fault> {
    let mut done = HashSet::with_capacity(claims.len());
    for (statement, new) in [(&CLAIM, false), (&CLAIM_NEW, true)] {
        let mut claims: Vec<_> = claims.iter().filter(|claim| claim.new == new).collect();
        claims.sort_by_key(|claim| claim.name);
        if claims.is_empty() {
            continue;
        }
        let now = tx.now();
        if tx.engine() == Engine::Sqlite {
            for claim in claims {
                let [key, client, scope] = params_of(claim.name);
                let (hash, resource) =
                    (Param::Blob(claim.fingerprint.as_bytes()), Param::Blob(&claim.resource));
                let params =
                    [key, client, scope, hash, resource, claim.epoch.into(), now.into(), deadline.into()];
                if tx.execute(statement, &params)? == 1 {
                    done.insert(claim.name.clone());
                }
            }
            continue;
        }
        let lists = Names::of(claims.iter().map(|claim| claim.name));
        let hashes: Vec<&[u8]> = claims.iter().map(|claim| claim.fingerprint.as_bytes().as_slice()).collect();
        let resources: Vec<&[u8]> = claims.iter().map(|claim| claim.resource.as_slice()).collect();
        let epochs: Vec<_> = claims.iter().map(|claim| claim.epoch).collect();
        let [keys, clients, scopes] = lists.params();
        let (hashes, resources, epochs) =
            (Param::Blobs(&hashes), Param::Blobs(&resources), Param::Ints(&epochs));
        let params = [keys, clients, scopes, hashes, resources, epochs, now.into(), deadline.into()];
        done.extend(tx.query(statement, &params, name)?);
    }
    Ok(done)
}

/// Finishes claims that still stand, in the order of their keys; those that did, and under which epoch.
pub fn finish(tx: &mut Tx<'_>, finishes: &[Finish<'_>], only: Only) -> Result<HashMap<KeyName, i64>, Fault> {
    let mut finishes: Vec<_> = finishes.iter().collect();
    finishes.sort_by_key(|finish| finish.name);
    let mut done = HashMap::with_capacity(finishes.len());
    if finishes.is_empty() {
        return Ok(done);
    }
    let now = tx.now();
    let only = match only {
        Only::InProgress => "IN_PROGRESS",
        Only::Succeeded => "SUCCEEDED",
    };
    let status = |finish: &Finish<'_>| if finish.error.is_none() { "SUCCEEDED" } else { "FAILED" };
    let error = |finish: &Finish<'_>| finish.error.map_or("", Code::as_str);
    if tx.engine() == Engine::Sqlite {
        for finish in finishes {
            let [key, client, scope] = params_of(finish.name);
            let params = [
                key,
                client,
                scope,
                finish.epoch.into(),
                status(finish).into(),
                i64::from(finish.answer.status).into(),
                (&*finish.answer.body).into(),
                error(finish).into(),
                now.into(),
                only.into(),
            ];
            if tx.execute(&FINISH, &params)? == 1 {
                done.insert(finish.name.clone(), finish.epoch);
            }
        }
        return Ok(done);
    }
    let lists = Names::of(finishes.iter().map(|finish| finish.name));
    let epochs: Vec<_> = finishes.iter().map(|finish| finish.epoch).collect();
    let statuses: Vec<_> = finishes.iter().map(|finish| status(finish)).collect();
    let answered: Vec<_> = finishes.iter().map(|finish| i64::from(finish.answer.status)).collect();
    let bodies: Vec<_> = finishes.iter().map(|finish| &*finish.answer.body).collect();
    let errors: Vec<_> = finishes.iter().map(|finish| error(finish)).collect();
    let [keys, clients, scopes] = lists.params();
    let params = [
        keys,
        clients,
        scopes,
        Param::Ints(&epochs),
        Param::Texts(&statuses),
        Param::Ints(&answered),
        Param::Texts(&bodies),
        Param::Texts(&errors),
        now.into(),
        only.into(),
    ];
    done.extend(tx.query(&FINISH, &params, |row| Ok((name(row)?, row.int(3)?)))?);
    Ok(done)
}

/// Claims whose lease is over and which nobody may take over, the oldest first.
pub fn overdue(tx: &mut Tx<'_>, now: Timestamp, limit: i64) -> Result<Vec<Overdue>, Fault> {
    tx.query(&OVERDUE, &[now.into(), limit.into()], |row| {
        Ok(Overdue { name: name(row)?, epoch: row.int(3)?, started_at: row.timestamp(4)? })
    })
}

/// Removes keys that were made, and done with, before this; how many.
pub fn forget(tx: &mut Tx<'_>, before: Timestamp, limit: i64) -> Result<u64, Fault> {
    tx.execute(&FORGET, &[before.into(), limit.into()])
}

fn name(row: &Row<'_>) -> Result<KeyName, Fault> {
    let scope = row.text(2)?;
    Ok(KeyName {
        key: IdempotencyKey::parse(row.text(0)?).map_err(Fault::inconsistent)?,
        client: UserId::parse(row.text(1)?).map_err(Fault::inconsistent)?,
        scope: Scope::parse(scope).ok_or_else(|| Fault::inconsistent(format!("a key for {scope:?}")))?,
    })
}

fn record(row: &Row<'_>) -> Result<(KeyName, Record), Fault> {
    let name = name(row)?;
    let odd = |what: &str| Fault::inconsistent(format!("the key {name}: {what}"));
    let progress = match (row.optional_text(3)?, row.optional_timestamp(10)?) {
        (None, _) => None,
        (Some("IN_PROGRESS"), Some(deadline)) => Some(Progress::Working { deadline }),
        (Some("SUCCEEDED" | "FAILED"), _) => {
            let status = u16::try_from(row.int(7)?).map_err(|_| odd("its answer's status"))?;
            Some(Progress::Finished(StoredAnswer { status, body: row.text(8)?.into() }))
        }
        _ => return Err(odd("its status makes no sense")),
    };
    let state = match progress {
        None => KeyState::Unclaimed,
        Some(progress) => KeyState::Claimed(Claimed {
            fingerprint: Hash::from_bytes(row.blob(5)?.try_into().map_err(|_| odd("its hash"))?),
            resource: row.blob(6)?.try_into().map_err(|_| odd("its resource"))?,
            progress,
        }),
    };
    Ok((name.clone(), Record { expires_at: row.timestamp(9)?, epoch: row.int(4)?, state }))
}
