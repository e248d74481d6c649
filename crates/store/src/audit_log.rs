//! The audit log: gapless, in the order of commits.

use crate::fault::Fault;
use crate::param::{Param, Row};
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::UserId;
use guerdon_core::audit::{Action, Actor, AuditEntry, AuditRecord, BEFORE_THE_FIRST, StoredLine, chained};
use guerdon_core::hash::Hash;
use serde_json::Value;

statements! {
    TAKE_SEQUENCES = "UPDATE counters SET value = value + $1 WHERE name = 'audit_log' RETURNING value";
    APPEND = "INSERT INTO audit_log
        (sequence, at, actor, request_id, action, target_type, target_id, before_json, after_json, hash)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    HASH_OF = "SELECT hash FROM audit_log WHERE sequence = $1";
    NEWEST = "SELECT value FROM counters WHERE name = 'audit_log'";
    TARGETS_SINCE = "SELECT sequence, target_type, target_id FROM audit_log WHERE sequence > $1 ORDER BY sequence LIMIT $2";
    LIST = "SELECT sequence, at, actor, request_id, action, target_id, before_json, after_json FROM audit_log
        WHERE sequence < $1 ORDER BY sequence DESC LIMIT $2";
    LIST_OF_TARGET = "SELECT sequence, at, actor, request_id, action, target_id, before_json, after_json FROM audit_log
        WHERE target_type = $1 AND target_id = $2 AND sequence < $3 ORDER BY sequence DESC LIMIT $4";
}

/// Writes the lines, last in the transaction: the counter's row is locked from here on.
pub fn append(tx: &mut Tx<'_>, entries: &[AuditEntry]) -> Result<(), Fault> {
    let count = i64::try_from(entries.len()).map_err(|_| Fault::inconsistent("too many lines"))?;
    if count == 0 {
        return Ok(());
    }
    let last = tx
        .query_one(&TAKE_SEQUENCES, &[count.into()], |row| row.int(0))?
        .ok_or_else(|| Fault::inconsistent("the audit log's counter is missing"))?;
    let mut hash = hash_of(tx, last - count)?;
    for (sequence, entry) in (last - count + 1..).zip(entries) {
        let before = entry.before.as_ref().map(Value::to_string);
        let after = entry.after.as_ref().map(Value::to_string);
        let line = StoredLine {
            sequence,
            at: entry.at,
            actor: entry.actor.user_id.as_str(),
            request_id: &entry.actor.request_id,
            action: entry.action.as_str(),
            target_type: entry.action.target_type(),
            target_id: &entry.target_id,
            before: before.as_deref(),
            after: after.as_deref(),
        };
        hash = chained(&hash, line);
        tx.execute(
            &APPEND,
            &[
                sequence.into(),
                entry.at.into(),
                entry.actor.user_id.as_str().into(),
                (&entry.actor.request_id).into(),
                entry.action.as_str().into(),
                entry.action.target_type().into(),
                (&entry.target_id).into(),
                before.as_ref().into(),
                after.as_ref().into(),
                Param::Blob(hash.as_bytes()),
            ],
        )?;
    }
    Ok(())
}

/// What the line after this one is bound to.
fn hash_of(tx: &mut Tx<'_>, sequence: i64) -> Result<Hash, Fault> {
    let found = tx.query_one(&HASH_OF, &[sequence.into()], |row| {
        let bytes = row.optional_blob(0)?.map(<[u8; 32]>::try_from).transpose();
        bytes.map_err(|_| Fault::inconsistent(format!("the hash of line {sequence} has the wrong length")))
    })?;
    Ok(found.flatten().map_or(BEFORE_THE_FIRST, Hash::from_bytes))
}

/// The number of the newest line.
pub fn newest(tx: &mut Tx<'_>) -> Result<i64, Fault> {
    let newest = tx.query_one(&NEWEST, &[], |row| row.int(0))?;
    newest.ok_or_else(|| Fault::inconsistent("the audit log's counter is missing"))
}

/// What the lines after the given one are about, oldest first. The log has no gaps and is in the order of commits, so
/// whoever follows it misses nothing.
pub fn targets_since(tx: &mut Tx<'_>, sequence: i64, limit: i64) -> Result<Vec<(i64, Target)>, Fault> {
    tx.query(&TARGETS_SINCE, &[sequence.into(), limit.into()], |row| {
        let target = Target { target_type: row.text(1)?.into(), target_id: row.text(2)?.into() };
        Ok((row.int(0)?, target))
    })
}

/// What a page of the log is narrowed down to.
#[derive(Clone, Debug)]
pub struct Target {
    pub target_type: String,
    pub target_id: String,
}

/// A page of the log, newest first: the lines before `before`.
pub fn list(
    tx: &mut Tx<'_>,
    target: Option<&Target>,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<AuditRecord>, Fault> {
    let before = Param::Int(before.unwrap_or(i64::MAX));
    match target {
        None => tx.query(&LIST, &[before, limit.into()], record),
        Some(target) => {
            let params = [(&target.target_type).into(), (&target.target_id).into(), before, limit.into()];
            tx.query(&LIST_OF_TARGET, &params, record)
        }
    }
}

fn record(row: &Row<'_>) -> Result<AuditRecord, Fault> {
    let json = |column| {
        row.optional_text(column)?
            .map(|text| serde_json::from_str(text).map_err(|error| Fault::inconsistent(error.to_string())))
            .transpose()
    };
    let actor = UserId::parse(row.text(2)?).map_err(Fault::inconsistent)?;
    let action = row.text(4)?;
    let stored = |column| Ok::<_, Fault>(row.optional_text(column)?.map_or(0, str::len));
    Ok(AuditRecord {
        stored_bytes: stored(6)? + stored(7)?,
        sequence: row.int(0)?,
        entry: AuditEntry {
            at: row.timestamp(1)?,
            actor: Actor { user_id: actor, request_id: row.text(3)?.into() },
            action: Action::parse(action)
                .ok_or_else(|| Fault::inconsistent(format!("the audit log has the action {action:?}")))?,
            target_id: row.text(5)?.into(),
            before: json(6)?,
            after: json(7)?,
        },
    })
}
