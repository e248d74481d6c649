//! What others hear of allocations that came to an end.

use guerdon_core::allocations::Allocation;
use guerdon_core::allocations::view::AllocationNews;
use guerdon_store::outbox::{self, OutboxEvent, Publishing};
use guerdon_store::{Fault, Tx};
use std::collections::BTreeMap;

use crate::entropy::Entropy;

/// Writes the news of those among them that are at their end, in the transaction that brought them there.
pub(super) fn tell<'a>(
    tx: &mut Tx<'_>,
    publishing: Publishing,
    rows: impl IntoIterator<Item = &'a Allocation>,
) -> Result<(), Fault> {
    let now = tx.now();
    let mut by_type: BTreeMap<&'static str, Vec<OutboxEvent>> = BTreeMap::new();
    for row in rows {
        let Some(event_type) = AllocationNews::event_type(row) else { continue };
        let payload = serde_json::to_string(&AllocationNews::of(row, now))
            .map_err(|error| Fault::Inconsistent(error.to_string()))?;
        tx.follow(&row.id, row.trace);
        by_type.entry(event_type).or_default().push(OutboxEvent {
            id: *Entropy.request_id(now).as_bytes(),
            sequence: now.as_millis(),
            aggregate_id: row.id.to_string(),
            payload,
        });
    }
    for (event_type, events) in by_type {
        let batch = outbox::Batch { aggregate_type: "ALLOCATION", event_type, created_at: now, publishing };
        outbox::append(tx, batch, &events)?;
    }
    Ok(())
}
