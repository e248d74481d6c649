use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::events::{EventBody, EventView};
use std::sync::Arc;

/// Changes an event: anything of a draft; of an open event its name, a later end, or odds to come.
#[utoipa::path(
    patch, path = "/v1/admin/events/{eventId}", tag = "Operators", operation_id = "patchEvent",
    params(("eventId" = String, Path)), request_body = EventBody,
    responses((status = 200, body = EventView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<EventId>,
    json::Json(body): json::Json<EventBody>,
) -> Result<Json<EventView>, Problem> {
    let event = app.engine.patch_event(caller.actor(), id, body).await?;
    Ok(Json(EventView::of(&event, app.engine.now())))
}
