use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::ClaimKey;
use guerdon_core::claims::view::ClaimView;
use std::sync::Arc;

/// Has the compensation of a claim that needs a hand tried again, as often as a new one.
#[utoipa::path(
    post, path = "/v1/admin/claims/{requestId}/retry", tag = "Operators", operation_id = "retryClaim",
    params(("requestId" = String, Path)),
    responses((status = 200, body = ClaimView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(key): Id<ClaimKey>,
) -> Result<Json<ClaimView>, Problem> {
    Ok(Json(ClaimView::for_operators(&app.engine.retry_claim(caller.actor(), key).await?)))
}
