//! What others hear of requests: one message for each that was decided.

use guerdon_core::requests::RequestState;
use guerdon_store::outbox::{self, OutboxEvent, Publishing, told};
use guerdon_store::requests::RequestRow;
use guerdon_store::{Fault, Tx};

/// Writes the news of those among them who are decided, in the transaction that decided them.
pub(crate) fn tell(tx: &mut Tx<'_>, publishing: Publishing, rows: &[RequestRow]) -> Result<(), Fault> {
    let decided = rows.iter().filter(|row| matches!(row.state, RequestState::Finished { .. }));
    let news: Vec<_> = decided
        .map(|row| OutboxEvent {
            id: *told::message_of(row.id).as_bytes(),
            sequence: 1,
            aggregate_id: row.id.to_string(),
            // It says what the request's row says, and is read from there.
            payload: String::new(),
        })
        .collect();
    let batch = outbox::Batch {
        aggregate_type: "REQUEST",
        event_type: "REQUEST_DECIDED",
        created_at: tx.now(),
        publishing,
    };
    outbox::append(tx, batch, &news)
}
