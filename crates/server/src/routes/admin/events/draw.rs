use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::draw::{DrawView, check_nonce};
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DrawBody {
    /// What the declared source gave, as the verifiers will type it.
    public_nonce: String,
}

/// Draws a lottery with the public nonce that it has waited for. Only after its root is published; a lottery without
/// `publicNonceSource` is drawn by itself at its cutoff.
#[utoipa::path(
    post, path = "/v1/admin/events/{eventId}/draw", tag = "Operators", operation_id = "drawEvent",
    params(("eventId" = String, Path)), request_body = DrawBody,
    responses((status = 200, body = DrawView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<EventId>,
    json::Json(body): json::Json<DrawBody>,
) -> Result<Json<DrawView>, Problem> {
    let nonce = check_nonce(body.public_nonce).map_err(|reason| Problem::field("publicNonce", reason))?;
    Ok(Json(app.engine.draw_with(caller.actor(), id, nonce).await?))
}
