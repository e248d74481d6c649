//! `/v1/event-claims`

use crate::app::App;
use crate::identity::{Caller, ClaimRewards};
use crate::json;
use crate::once::OfClaim;
use crate::path::Id;
use crate::prefer::Patience;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use guerdon_core::claims::view::ClaimView;
use guerdon_core::claims::{Claim, ClaimStatus};
use guerdon_core::idempotency::Advice;
use guerdon_core::{Code, EventId, Rejection};
use std::fmt::Write;
use std::sync::Arc;

/// Claims an event's rewards, once for each key. Waits for the end of it; the same key again says how it ended, or where
/// it stands, and starts nothing.
#[utoipa::path(
    post, path = "/v1/event-claims/{eventId}/claim", tag = "Claims", operation_id = "claimRewards",
    params(
        ("eventId" = String, Path),
        ("X-Idempotency-Key" = String, Header, description = "Of the caller's choice, 8 to 128 visible ASCII characters: the claim's `requestId`. `Idempotency-Key` is the same"),
        ("Prefer" = Option<String>, Header, description = "`wait=N` seconds, at most 60; `respond-async` for an answer at once")
    ),
    responses(
        (status = 200, body = ClaimView),
        (status = 202, body = ClaimView, headers(("Location" = String), ("Retry-After" = u32)))
    )
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<ClaimRewards>,
    Id(event_id): Id<EventId>,
    OfClaim(key): OfClaim,
    Patience(patience): Patience,
) -> Result<Response, Problem> {
    let claimed = app.engine.claim(event_id, caller.user_id().clone(), key, patience).await;
    let claimed = claimed.map_err(|failure| Problem::from(failure).with_key_advice())?;
    answer(&claimed.claim, claimed.duplicate)
}

/// What is said of a claim wherever it stands.
fn answer(claim: &Claim, duplicate: bool) -> Result<Response, Problem> {
    let status = claim.status();
    let mut view = ClaimView::of(claim);
    view.duplicate = Some(duplicate);
    if let Some(code) = code_of(status) {
        return Err(refusal(code, claim, &view).into());
    }
    if status.is_success() {
        return Ok((StatusCode::OK, json::answer(&view)).into_response());
    }
    let location = format!("/v1/claims/{}", escaped(claim.request_id.as_str()));
    let mut response = (StatusCode::ACCEPTED, json::answer(&view)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    if let Ok(location) = HeaderValue::try_from(location) {
        headers.insert(header::LOCATION, location);
    }
    Ok(response)
}

/// The code of an end that is a failure: the name of the status.
fn code_of(status: ClaimStatus) -> Option<Code> {
    Code::ALL.iter().copied().find(|code| code.as_str() == status.as_str())
}

fn refusal(code: Code, claim: &Claim, view: &ClaimView) -> Rejection {
    let failure = claim.progress.state.failure();
    let detail = failure.map_or_else(String::new, |failure| format!("{}: {}", failure.code, failure.message));
    let advice = if claim.status().is_failure() { Advice::NewKey } else { Advice::SameKey };
    let view = serde_json::to_value(view).unwrap_or_default();
    advice.on(Rejection::new(code, detail)).saying("claim", view)
}

/// A key as a segment of an address.
fn escaped(key: &str) -> String {
    let mut text = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{code_of, escaped};
    use crate::problem::status_of;
    use guerdon_core::claims::ClaimStatus;

    #[test]
    fn every_failure_has_its_code_and_its_status() {
        use ClaimStatus as S;
        let table = [
            (S::ValidationFailedExternalAuth, 502),
            (S::ValidationFailedUserInactive, 409),
            (S::ValidationFailedEventNotActive, 409),
            (S::ValidationFailedAlreadyClaimed, 409),
            (S::ConditionCheckFailedExternal, 502),
            (S::ConditionNotMet, 422),
            (S::InventoryAllocationFailedOutOfStock, 409),
            (S::InventoryAllocationFailedConcurrency, 503),
            (S::FailedRolledBack, 502),
            (S::CompensationFailedManualInterventionRequired, 502),
        ];
        for status in ClaimStatus::ALL.iter().copied() {
            let found = table.iter().find(|(of, _)| *of == status).map(|(_, code)| *code);
            assert_eq!(code_of(status).map(|code| status_of(code).as_u16()), found, "{status:?}");
            let fails = status.is_failure() || status == S::CompensationFailedManualInterventionRequired;
            assert_eq!(found.is_some(), fails, "{status:?}");
        }
    }

    #[test]
    fn keys_in_addresses() {
        assert_eq!(escaped("a-B_9.~"), "a-B_9.~");
        assert_eq!(escaped("a/b?c#%"), "a%2Fb%3Fc%23%25");
    }
}
