//! What a consumer has handled, and what it did: in one transaction.

use crate::fault::Fault;
use crate::param::Param;
use crate::statement::statements;
use crate::tx::Tx;
use guerdon_core::Timestamp;
use guerdon_core::outbox::envelope::Received;

statements! {
    FIND = "SELECT event_id FROM integration.processed_events WHERE consumer = $1 AND event_id = $2";
    RECORD = "INSERT INTO integration.processed_events (consumer, event_id, event_type, processed_at)
        VALUES ($1, $2, $3, $4) ON CONFLICT (consumer, event_id) DO NOTHING";
    NOTIFY = "INSERT INTO integration.notifications (notification_id, consumer, event_id, event_type, aggregate_id, sequence,
            recipient, data, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    FORGET = "DELETE FROM integration.processed_events WHERE consumer = $3 AND event_id IN (
        SELECT event_id FROM integration.processed_events WHERE processed_at < $1 AND consumer = $3
        ORDER BY processed_at, event_id LIMIT $2)";
}

/// Which of these the consumer has handled.
pub fn find(tx: &mut Tx<'_>, consumer: &str, ids: &[String]) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    for id in ids {
        found.extend(tx.query_one(&FIND, &[consumer.into(), id.into()], |row| Ok(row.text(0)?.to_owned()))?);
    }
    Ok(found)
}

/// Somebody who is told something.
#[derive(Clone, Debug)]
pub struct Notification {
    pub id: [u8; 16],
    pub event: Received,
    pub recipient: Option<String>,
}

/// Records an event as handled, with what was done; false when it had been recorded before, and then nothing is done.
pub fn record(tx: &mut Tx<'_>, consumer: &str, notification: &Notification) -> Result<bool, Fault> {
    let Notification { id, event, recipient } = notification;
    let now = tx.now();
    let params = [consumer.into(), (&event.id).into(), (&event.event_type).into(), now.into()];
    if tx.execute(&RECORD, &params)? == 0 {
        return Ok(false);
    }
    let params = [
        Param::Blob(id),
        consumer.into(),
        (&event.id).into(),
        (&event.event_type).into(),
        (&event.subject).into(),
        event.sequence.into(),
        recipient.as_ref().into(),
        (&event.data).into(),
        now.into(),
    ];
    tx.execute(&NOTIFY, &params)?;
    Ok(true)
}

/// Forgets what a consumer handled before a time; how many.
pub fn forget(tx: &mut Tx<'_>, consumer: &str, before: Timestamp, limit: i64) -> Result<u64, Fault> {
    tx.execute(&FORGET, &[before.into(), limit.into(), consumer.into()])
}
