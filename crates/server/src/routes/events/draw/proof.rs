use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::draw::Proof;
use std::sync::Arc;

/// That the caller's own entry is in the tree, for `guerdon verify-draw --proof`.
#[utoipa::path(
    get, path = "/v1/events/{eventId}/draw/proof", tag = "Draws", operation_id = "getDrawProof",
    params(("eventId" = String, Path)),
    responses((status = 200, body = Proof))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(id): Id<EventId>,
) -> Result<Json<Proof>, Problem> {
    Ok(Json(app.engine.draw_proof(&id, caller.user_id()).await?))
}
