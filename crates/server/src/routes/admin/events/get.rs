use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::events::EventView;
use std::sync::Arc;

/// An event in any status.
#[utoipa::path(
    get, path = "/v1/admin/events/{eventId}", tag = "Operators", operation_id = "getAnyEvent",
    params(("eventId" = String, Path)),
    responses((status = 200, body = EventView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<EventId>,
) -> Result<Json<EventView>, Problem> {
    let event = app.engine.event(&id).await?;
    Ok(Json(EventView::of(&event, app.engine.now())))
}
