use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::draw::DrawView;
use std::sync::Arc;

/// What a lottery has published of its draw so far; the seed once the winners are announced.
#[utoipa::path(
    get, path = "/v1/events/{eventId}/draw", tag = "Draws", operation_id = "getDraw",
    params(("eventId" = String, Path)),
    responses((status = 200, body = DrawView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Participate>,
    Id(id): Id<EventId>,
) -> Result<Json<DrawView>, Problem> {
    Ok(Json(app.engine.draw(&id).await?))
}
