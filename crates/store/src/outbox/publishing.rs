//! Messages on their way out: which are due, and what became of them.

use super::listing::message;
use super::told::complete;
use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use guerdon_core::outbox::{Message, MessageId, SHARDS};

macro_rules! due {
    ($which:literal) => {
        concat!(
            "SELECT m.event_id, m.aggregate_type, m.aggregate_id, m.event_type, m.sequence, m.payload, m.created_at, m.attempts,
                m.trace
            FROM integration.outbox_events m
            WHERE m.status IN ('NEW', 'SENDING') AND m.channel = 'broker' AND (m.created_at, m.event_id) > ($5, $1)
                AND (m.next_attempt_at IS NULL OR m.next_attempt_at <= $2)
                AND (m.aggregate_type IN ('REQUEST', 'TRANSFER') OR NOT EXISTS (
                    SELECT 1 FROM integration.outbox_events e
                    WHERE e.aggregate_id = m.aggregate_id AND e.aggregate_type = m.aggregate_type
                        AND e.sequence < m.sequence
                        AND e.status <> 'SENT' AND e.aggregate_type <> 'REQUEST' AND e.aggregate_type <> 'TRANSFER'
                        AND (e.status <> 'DEAD' OR CAST($4 AS BIGINT) = 1)))",
            $which,
            " ORDER BY m.created_at, m.event_id LIMIT $3"
        )
    };
}

statements! {
    /// The next messages that are not held up by an earlier one about the same aggregate. A dead one counts only where it
    /// holds up the others.
    DUE = due!("");
    DUE_IN_SHARDS = due!(" AND m.shard IN ($6)"), postgres: due!(" AND m.shard = ANY(CAST($6 AS BIGINT[]))");
    SENT = "UPDATE integration.outbox_events SET status = 'SENT', last_error = NULL, next_attempt_at = NULL
        WHERE event_id = $1 AND status IN ('NEW', 'SENDING')",
        postgres: "UPDATE integration.outbox_events SET status = 'SENT', last_error = NULL, next_attempt_at = NULL
        WHERE event_id = ANY(CAST($1 AS BYTEA[])) AND status IN ('NEW', 'SENDING')";
    REFUSED = "UPDATE integration.outbox_events
        SET status = $2, attempts = attempts + 1, next_attempt_at = $3, last_error = $4
        WHERE event_id = $1 AND status IN ('NEW', 'SENDING')";
}

/// Where a look at what is unsent has come to: the time of a message, and its id.
pub type Place = (Timestamp, MessageId);

/// Messages that are due in these shards, the oldest first.
pub fn due(
    tx: &mut Tx<'_>,
    shards: &[i64],
    (after, after_id): Place,
    now: Timestamp,
    limit: i64,
    dead_hold: bool,
) -> Result<Vec<Message>, Fault> {
    let dead_hold = i64::from(dead_hold).into();
    let id = Param::Blob(after_id.as_bytes());
    let params = [id, now.into(), limit.into(), dead_hold, after.into(), Param::Ints(shards)];
    // Whoever has all of them, as the only process always does, need not ask.
    let all = i64::try_from(shards.len()).is_ok_and(|held| held == SHARDS);
    let mut due = match tx.engine() {
        _ if all => tx.query(&DUE, &params[..5], message)?,
        Engine::Postgres => tx.query(&DUE_IN_SHARDS, &params, message)?,
        Engine::Sqlite => return Err(Fault::inconsistent("a file that is served has one publisher")),
    };
    complete(tx, due.iter_mut())?;
    Ok(due)
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
