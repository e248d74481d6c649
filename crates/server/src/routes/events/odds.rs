use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::entries::view::OddsInForce;
use std::sync::Arc;

/// The odds that are in force, with each prize's probability, and those that are to come.
#[utoipa::path(
    get, path = "/v1/events/{eventId}/odds", tag = "Entries", operation_id = "getOdds",
    params(("eventId" = String, Path)),
    responses((status = 200, body = OddsInForce))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Participate>,
    Id(event_id): Id<EventId>,
) -> Result<Json<OddsInForce>, Problem> {
    Ok(Json(app.engine.odds(&event_id).await?))
}
