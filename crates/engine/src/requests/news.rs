//! What others hear of requests: one message for each that was decided.

use guerdon_core::EventId;
use guerdon_core::requests::RequestState;
use guerdon_core::requests::view::RequestDecided;
use guerdon_store::outbox::{self, OutboxEvent, Publishing};
use guerdon_store::requests::RequestRow;
use guerdon_store::{Fault, Tx};

/// Writes the news of those among them who are decided, in the transaction that decided them.
pub(crate) fn tell(
    tx: &mut Tx<'_>,
    event_id: &EventId,
    publishing: Publishing,
    rows: &[RequestRow],
) -> Result<(), Fault> {
    let mut news = Vec::with_capacity(rows.len());
    for row in rows {
        let RequestState::Finished { result, finished_at, .. } = row.state else { continue };
        let request_id = row.id.to_string();
        let decided = RequestDecided {
            request_id: request_id.clone(),
            event_id: event_id.as_str(),
            user_id: row.user_id.as_str(),
            status: result.status(),
            result_code: result,
            position: row.key.position(),
            requested_at: row.requested_at,
            finished_at,
        };
        let payload =
            serde_json::to_string(&decided).map_err(|error| Fault::Inconsistent(error.to_string()))?;
        news.push(OutboxEvent {
            id: *row.id.derived(0).as_bytes(),
            sequence: 1,
            aggregate_id: request_id,
            payload,
        });
    }
    let batch = outbox::Batch {
        aggregate_type: "REQUEST",
        event_type: "REQUEST_DECIDED",
        created_at: tx.now(),
        publishing,
    };
    outbox::append(tx, batch, &news)
}
