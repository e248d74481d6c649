//! Which publisher has which shard.

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use guerdon_core::outbox::Lease;

statements! {
    ALIVE = "INSERT INTO integration.outbox_workers (channel, worker_id, deadline) VALUES ('broker', $1, $2)
        ON CONFLICT (channel, worker_id) DO UPDATE SET deadline = $2";
    FORGET = "DELETE FROM integration.outbox_workers WHERE channel = 'broker' AND (deadline <= $1 OR worker_id = $2)";
    COUNT = "SELECT COUNT(*) FROM integration.outbox_workers WHERE channel = 'broker'";
    LEASES = "SELECT shard, worker_id, deadline FROM integration.outbox_shards WHERE channel = 'broker' ORDER BY shard",
        postgres: "SELECT shard, worker_id, deadline FROM integration.outbox_shards WHERE channel = 'broker' ORDER BY shard
        FOR UPDATE";
    HOLD = "UPDATE integration.outbox_shards SET worker_id = $1, deadline = $2 WHERE channel = 'broker' AND shard = $3";
    GIVE = "UPDATE integration.outbox_shards SET worker_id = NULL, deadline = 0
        WHERE channel = 'broker' AND shard = $1 AND worker_id = $2";
    GIVE_ALL = "UPDATE integration.outbox_shards SET worker_id = NULL, deadline = 0
        WHERE channel = 'broker' AND worker_id = $1";
}

/// Locks the shards and says who has them; the first thing in a transaction.
pub fn leases(tx: &mut Tx<'_>) -> Result<Vec<Lease>, Fault> {
    tx.query(&LEASES, &[], |row| {
        let holder = row.optional_text(1)?.map(str::to_owned);
        Ok(Lease { shard: row.int(0)?, holder, until: row.timestamp(2)? })
    })
}

/// Notes that a publisher is alive; how many are. On SQLite there is no other: the file is served by one process.
pub fn be_alive(tx: &mut Tx<'_>, worker: &str, until: Timestamp) -> Result<usize, Fault> {
    if tx.engine() == Engine::Sqlite {
        return Ok(1);
    }
    tx.execute(&FORGET, &[tx.now().into(), "".into()])?;
    tx.execute(&ALIVE, &[worker.into(), until.into()])?;
    let alive = tx.query_one(&COUNT, &[], |row| row.int(0))?.unwrap_or(1);
    Ok(usize::try_from(alive).unwrap_or(1))
}

pub fn hold(
    tx: &mut Tx<'_>,
    worker: &str,
    shards: impl Iterator<Item = i64>,
    until: Timestamp,
) -> Result<(), Fault> {
    tx.execute_rows(
        &HOLD,
        shards.map(|shard| -> [Param<'_>; 3] { [worker.into(), until.into(), shard.into()] }),
    )
    .map(drop)
}

pub fn give(tx: &mut Tx<'_>, worker: &str, shards: &[i64]) -> Result<(), Fault> {
    tx.execute_rows(&GIVE, shards.iter().map(|shard| -> [Param<'_>; 2] { [(*shard).into(), worker.into()] }))
        .map(drop)
}

/// Leaves everything to others.
pub fn leave(tx: &mut Tx<'_>, worker: &str) -> Result<(), Fault> {
    tx.execute(&GIVE_ALL, &[worker.into()])?;
    tx.execute(&FORGET, &[Timestamp::from_millis(0).into(), worker.into()]).map(drop)
}
