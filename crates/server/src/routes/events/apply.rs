use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::json;
use crate::path::Id;
use crate::prefer::Patience;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use guerdon_core::requests::{RequestState, RequestView};
use guerdon_core::{EventId, Timestamp};
use guerdon_engine::Applied;
use std::sync::Arc;

/// Applies to an event. 202 once the application is durably in line; 200 when it was there already, or with
/// `Prefer: wait=N` once it is decided.
#[utoipa::path(
    post, path = "/v1/events/{eventId}/requests", tag = "Requests", operation_id = "applyToEvent",
    params(("eventId" = String, Path), ("Prefer" = Option<String>, Header, description = "`wait=N` seconds, at most 60")),
    responses((status = 202, body = RequestView, headers(("Location" = String))), (status = 200, body = RequestView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(event_id): Id<EventId>,
    Patience(patience): Patience,
) -> Result<Response, Problem> {
    // Whoever wants an answer at once waits for nothing.
    let patience = patience.filter(|patience| !patience.is_zero());
    let applied = app.engine.apply(event_id, caller.user_id().clone()).await?;
    let mut view = view_of(&applied, app.engine.now());
    let mut finished = matches!(applied.request.state, RequestState::Finished { .. });
    if let (Some(patience), false) = (patience, finished) {
        // Boxed: hardly anybody waits, and everybody's call would carry the room for it.
        let decided = app.engine.request_once_decided(applied.request.id, None, patience);
        let shown = Box::pin(decided).await?;
        view = shown.view(app.engine.now());
        finished = shown.is_finished();
    }
    view.duplicate = applied.duplicate;
    let waited = patience.is_some() && finished;
    let status = if applied.duplicate || waited { StatusCode::OK } else { StatusCode::ACCEPTED };
    let location = format!("/v1/requests/{}", view.request_id);
    let mut response = (status, [(header::LOCATION, location)], json::answer(&view)).into_response();
    if waited {
        response.headers_mut().insert("preference-applied", HeaderValue::from_static("wait"));
    }
    Ok(response)
}

fn view_of(applied: &Applied, now: Timestamp) -> RequestView {
    let lottery = applied.lottery.as_ref();
    let event = lottery.map(|lottery| &*lottery.event);
    let mut view = RequestView::of(&applied.request, applied.decided_position, event, now);
    view.receipt = lottery.and_then(|lottery| lottery.receipt);
    view
}
