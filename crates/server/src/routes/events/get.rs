use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::events::EventView;
use std::sync::Arc;

/// An event as its participants see it. A draft does not exist for them.
#[utoipa::path(
    get, path = "/v1/events/{eventId}", tag = "Events", operation_id = "getEvent",
    params(("eventId" = String, Path)),
    responses((status = 200, body = EventView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Participate>,
    Id(id): Id<EventId>,
) -> Result<Json<EventView>, Problem> {
    let event = app.engine.public_event(&id).await?;
    Ok(Json(EventView::public(&event, app.engine.now())))
}
