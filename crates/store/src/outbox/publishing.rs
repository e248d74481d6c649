//! Messages on their way out: which are due, and what became of them.

use super::listing::message;
use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use guerdon_core::outbox::{Message, MessageId};

statements! {
    /// The next messages of a shard.
    DUE = "SELECT event_id, aggregate_type, aggregate_id, event_type, sequence, payload, created_at, attempts
        FROM integration.outbox_events
        WHERE channel = 'broker' AND shard = $1 AND status IN ('NEW', 'SENDING') AND event_id > $2
            AND (next_attempt_at IS NULL OR next_attempt_at <= $3)
        ORDER BY event_id LIMIT $4",
        postgres: "SELECT m.event_id, m.aggregate_type, m.aggregate_id, m.event_type, m.sequence, m.payload, m.created_at,
            m.attempts
        FROM unnest(CAST($1 AS BIGINT[])) AS held (shard)
        CROSS JOIN LATERAL (SELECT * FROM integration.outbox_events
            WHERE channel = 'broker' AND shard = held.shard AND status IN ('NEW', 'SENDING') AND event_id > $2
                AND (next_attempt_at IS NULL OR next_attempt_at <= $3)
            ORDER BY event_id LIMIT $4) m";
    /// The first message about an aggregate that was not sent; a dead one counts only where it holds up the others.
    FIRST = "SELECT sequence FROM integration.outbox_events
        WHERE aggregate_id = $1 AND aggregate_type = $2 AND status IN ('NEW', 'SENDING', 'DEAD')
            AND aggregate_type NOT IN ('REQUEST', 'TRANSFER') AND (status <> 'DEAD' OR CAST($3 AS BIGINT) = 1)
        ORDER BY sequence LIMIT 1";
    SENT = "UPDATE integration.outbox_events SET status = 'SENT', last_error = NULL, next_attempt_at = NULL
        WHERE event_id = $1 AND status IN ('NEW', 'SENDING')",
        postgres: "UPDATE integration.outbox_events SET status = 'SENT', last_error = NULL, next_attempt_at = NULL
        WHERE event_id = ANY(CAST($1 AS BYTEA[])) AND status IN ('NEW', 'SENDING')";
    REFUSED = "UPDATE integration.outbox_events
        SET status = $2, attempts = attempts + 1, next_attempt_at = $3, last_error = $4
        WHERE event_id = $1 AND status IN ('NEW', 'SENDING')";
}

/// Messages that are due in these shards, each shard's in the order of their ids, `limit` of each at the most.
pub fn due(
    tx: &mut Tx<'_>,
    shards: &[i64],
    after: MessageId,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<Message>, Fault> {
    let after = Param::Blob(after.as_bytes());
    if tx.engine() == Engine::Postgres {
        return tx.query(&DUE, &[Param::Ints(shards), after, now.into(), limit.into()], message);
    }
    let mut found = Vec::new();
    for shard in shards {
        let params = [(*shard).into(), after, now.into(), limit.into()];
        found.extend(tx.query(&DUE, &params, message)?);
    }
    Ok(found)
}

/// The sequence of the first message about an aggregate that is to be sent before any other.
pub fn first_unsent(
    tx: &mut Tx<'_>,
    aggregate_type: &str,
    aggregate_id: &str,
    dead_hold: bool,
) -> Result<Option<i64>, Fault> {
    let params = [aggregate_id.into(), aggregate_type.into(), i64::from(dead_hold).into()];
    tx.query_one(&FIRST, &params, |row| row.int(0))
}

/// Notes that these were sent; how many of them nobody had noted before.
pub fn sent(tx: &mut Tx<'_>, ids: &[MessageId]) -> Result<u64, Fault> {
    if tx.engine() == Engine::Sqlite {
        return tx.execute_rows(&SENT, ids.iter().map(|id| [Param::Blob(id.as_bytes())]));
    }
    let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
    tx.execute(&SENT, &[Param::Blobs(&ids)])
}

/// A message that was refused.
#[derive(Clone, Debug)]
pub struct Refused {
    pub id: MessageId,
    pub reason: String,
    /// When it is tried again; never, if it is dead.
    pub again_at: Option<Timestamp>,
}

pub fn refused(tx: &mut Tx<'_>, messages: &[Refused]) -> Result<u64, Fault> {
    tx.execute_rows(
        &REFUSED,
        messages.iter().map(|refused| -> [Param<'_>; 4] {
            let status = if refused.again_at.is_some() { "NEW" } else { "DEAD" };
            [
                Param::Blob(refused.id.as_bytes()),
                status.into(),
                refused.again_at.into(),
                (&refused.reason).into(),
            ]
        }),
    )
}
