use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::entries::view::CalendarView;
use std::sync::Arc;

/// The caller's calendar: the days on which they checked in, how many, and how many in a row.
#[utoipa::path(
    get, path = "/v1/events/{eventId}/attendance", tag = "Entries", operation_id = "getAttendance",
    params(("eventId" = String, Path)),
    responses((status = 200, body = CalendarView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(event_id): Id<EventId>,
) -> Result<Json<CalendarView>, Problem> {
    let calendar = app.engine.calendar(&event_id, caller.user_id()).await?;
    let ids = (event_id.as_str(), caller.user_id().as_str());
    Ok(Json(CalendarView::of(ids, &calendar.time_zone, calendar.today, calendar.standing, &calendar.days)))
}
