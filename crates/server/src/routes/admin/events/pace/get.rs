use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::pace::PaceView;
use std::sync::Arc;

/// How fast an event without a line goes: what came of the check-ins, plays or claims of the last minute. Where nobody
/// watches, it is there after the next look, within a second.
#[utoipa::path(
    get, path = "/v1/admin/events/{eventId}/pace", tag = "Operators", operation_id = "getEventPace",
    params(("eventId" = String, Path)),
    responses((status = 200, body = PaceView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<EventId>,
) -> Result<Json<PaceView>, Problem> {
    Ok(Json(app.engine.pace(&id).await?.view()))
}
