//! The outbox: what others wait to hear, written in the transaction of the change that it tells of.

pub mod disabled;
pub mod listing;
pub mod processed;
pub mod publishing;
pub mod shards;
pub mod told;

use crate::database::Engine;
use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use guerdon_core::outbox::shard_of;

statements! {
    APPEND = "INSERT INTO integration.outbox_events (event_id, channel, sequence, aggregate_type, aggregate_id, event_type,
            payload, status, created_at, attempts, shard, trace)
        VALUES ($1, 'broker', $2, $3, $4, $5, $6, $7, $8, 0, $9, NULLIF($10, ''))",
        postgres: "INSERT INTO integration.outbox_events (event_id, channel, sequence, aggregate_type, aggregate_id,
            event_type, payload, status, created_at, attempts, shard, trace)
        SELECT id, 'broker', sequence, $3, aggregate_id, $5, payload, $7, $8, 0, shard, NULLIF(trace, '')
        FROM unnest(CAST($1 AS BYTEA[]), CAST($2 AS BIGINT[]), CAST($4 AS TEXT[]), CAST($6 AS TEXT[]),
            CAST($9 AS BIGINT[]), CAST($10 AS TEXT[])) AS row (id, sequence, aggregate_id, payload, shard, trace)";
    BACKLOG = "SELECT COUNT(*) FROM (SELECT 1 FROM integration.outbox_events
        WHERE status IN ('NEW', 'SENDING') AND channel = 'broker' ORDER BY created_at, event_id LIMIT $1) unsent";
    OLDEST = "SELECT created_at FROM integration.outbox_events
        WHERE status IN ('NEW', 'SENDING') AND channel = 'broker' ORDER BY created_at, event_id LIMIT 1";
    DEAD = "SELECT COUNT(*) FROM (SELECT 1 FROM integration.outbox_events WHERE status = 'DEAD'
        ORDER BY event_id LIMIT $1) dead";
}

/// Whether somebody will publish what is written; with the sink `none` it counts as sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Publishing {
    #[default]
    Nobody,
    Broker,
}

impl Publishing {
    /// The status of a message that is written now.
    pub(crate) const fn status(self) -> &'static str {
        match self {
            Self::Nobody => "SENT",
            Self::Broker => "NEW",
        }
    }
}

/// What is yet to be published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Counted up to a limit.
    pub unsent: i64,
    pub dead: i64,
    /// Since when the oldest waits.
    pub oldest: Option<Timestamp>,
}

pub fn backlog(tx: &mut Tx<'_>, most: i64) -> Result<Backlog, Fault> {
    let unsent = tx.query_one(&BACKLOG, &[most.into()], |row| row.int(0))?.unwrap_or_default();
    let dead = tx.query_one(&DEAD, &[most.into()], |row| row.int(0))?.unwrap_or_default();
    let oldest = tx.query_one(&OLDEST, &[], |row| row.timestamp(0))?;
    Ok(Backlog { unsent, dead, oldest })
}

/// Events of one type, about things of one type, of one moment.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub aggregate_type: &'a str,
    pub event_type: &'a str,
    pub created_at: Timestamp,
    pub publishing: Publishing,
}

#[derive(Clone, Debug)]
pub struct OutboxEvent {
    pub id: [u8; 16],
    /// Orders the events of one aggregate.
    pub sequence: i64,
    pub aggregate_id: String,
    pub payload: String,
}

pub fn append(tx: &mut Tx<'_>, batch: Batch<'_>, events: &[OutboxEvent]) -> Result<(), Fault> {
    if events.is_empty() {
        return Ok(());
    }
    let status = batch.publishing.status();
    if batch.publishing == Publishing::Broker {
        tx.tells();
    }
    let (aggregate_type, event_type) = (batch.aggregate_type, batch.event_type);
    let traces: Vec<_> = events.iter().map(|event| traceparent(tx, &event.aggregate_id)).collect();
    if tx.engine() == Engine::Sqlite {
        let rows = events.iter().zip(&traces).map(|(event, trace)| -> [Param<'_>; 10] {
            [
                Param::Blob(&event.id),
                event.sequence.into(),
                aggregate_type.into(),
                (&event.aggregate_id).into(),
                event_type.into(),
                (&event.payload).into(),
                status.into(),
                batch.created_at.into(),
                shard_of(&event.aggregate_id).into(),
                trace.into(),
            ]
        });
        return tx.execute_rows(&APPEND, rows).map(drop);
    }
    let ids: Vec<&[u8]> = events.iter().map(|event| event.id.as_slice()).collect();
    let sequences: Vec<_> = events.iter().map(|event| event.sequence).collect();
    let aggregates: Vec<_> = events.iter().map(|event| event.aggregate_id.as_str()).collect();
    let payloads: Vec<_> = events.iter().map(|event| event.payload.as_str()).collect();
    let shards: Vec<_> = events.iter().map(|event| shard_of(&event.aggregate_id)).collect();
    let traces: Vec<_> = traces.iter().map(String::as_str).collect();
    let params = [
        Param::Blobs(&ids),
        Param::Ints(&sequences),
        aggregate_type.into(),
        Param::Texts(&aggregates),
        event_type.into(),
        Param::Texts(&payloads),
        status.into(),
        batch.created_at.into(),
        Param::Ints(&shards),
        Param::Texts(&traces),
    ];
    tx.execute(&APPEND, &params).map(drop)
}

/// In which trace something belongs, as it is stored: nothing where nobody follows it.
pub(crate) fn traceparent(tx: &Tx<'_>, about: &impl ToString) -> String {
    tx.trace_of(about).map(|trace| trace.to_string()).unwrap_or_default()
}
