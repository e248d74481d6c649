use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use guerdon_core::EventId;
use guerdon_core::allocations::view::AllocationView;
use guerdon_core::entries::view::CheckInView;
use std::sync::Arc;

/// Checks the caller in for today, in the event's time zone. 201 the first time, 200 with the same check-in after that.
#[utoipa::path(
    post, path = "/v1/events/{eventId}/attendance", tag = "Entries", operation_id = "checkIn",
    params(("eventId" = String, Path)),
    responses((status = 201, body = CheckInView), (status = 200, body = CheckInView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(event_id): Id<EventId>,
) -> Result<Response, Problem> {
    let checked = app.engine.check_in(event_id.clone(), caller.user_id().clone()).await?;
    let view = CheckInView {
        entry_id: checked.entry.id.to_string(),
        event_id: event_id.to_string(),
        user_id: caller.user_id().to_string(),
        date: checked.entry.day.to_string(),
        checked_in_at: checked.entry.at,
        total_days: checked.entry.number,
        streak: checked.entry.streak,
        duplicate: checked.duplicate,
        allocations: checked.allocations.iter().map(AllocationView::public).collect(),
    };
    let status = if checked.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, json::answer(&view)).into_response())
}
