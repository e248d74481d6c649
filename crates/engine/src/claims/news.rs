//! What others hear of claims that ended, or that need a hand.

use crate::entropy::Entropy;
use crate::metrics::{ClaimLabels, EngineMetrics};
use guerdon_core::claims::view::ClaimNews;
use guerdon_core::claims::{Claim, ClaimStatus};
use guerdon_store::outbox::{self, OutboxEvent, Publishing};
use guerdon_store::{Fault, Tx};
use std::collections::BTreeMap;
use std::time::Duration;

/// Writes the news, in the transaction that brought the claims there.
pub(super) fn tell<'a>(
    tx: &mut Tx<'_>,
    publishing: Publishing,
    claims: impl IntoIterator<Item = &'a Claim>,
) -> Result<(), Fault> {
    let now = tx.now();
    let mut by_type: BTreeMap<&'static str, Vec<OutboxEvent>> = BTreeMap::new();
    for claim in claims {
        let Some(event_type) = ClaimNews::event_type(claim.status()) else { continue };
        let payload = serde_json::to_string(&ClaimNews::of(claim))
            .map_err(|error| Fault::Inconsistent(error.to_string()))?;
        tx.follow(&claim.request_id, claim.progress.trace);
        by_type.entry(event_type).or_default().push(OutboxEvent {
            id: *Entropy.request_id(now).as_bytes(),
            sequence: claim.epoch + 1,
            aggregate_id: claim.request_id.to_string(),
            payload,
        });
    }
    for (event_type, events) in by_type {
        let batch = outbox::Batch { aggregate_type: "CLAIM", event_type, created_at: now, publishing };
        outbox::append(tx, batch, &events)?;
    }
    Ok(())
}

/// Counts claims that ended, and says aloud which need a hand.
pub(super) fn count(metrics: &EngineMetrics, claim: &Claim) {
    let status = claim.status();
    if status.is_pending() {
        return;
    }
    metrics.claims_ended.get_or_create(&ClaimLabels { status: status.as_str() }).inc();
    let millis = claim.updated_at.millis_since(claim.created_at).max(0).unsigned_abs();
    metrics.claim_seconds.observe(Duration::from_millis(millis).as_secs_f64());
    if status == ClaimStatus::CompensationFailedManualInterventionRequired {
        let (request_id, event_id) = (claim.request_id.as_str(), claim.event_id.as_str());
        let state = &claim.progress.state;
        tracing::error!(request_id, event_id, ?state, "a claim could not be undone and needs a hand");
    }
}
