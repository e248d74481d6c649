use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::ClaimKey;
use guerdon_core::claims::view::ClaimView;
use std::sync::Arc;

/// A claim, with what is left to do where it needs a hand.
#[utoipa::path(
    get, path = "/v1/admin/claims/{requestId}", tag = "Operators", operation_id = "inspectClaim",
    params(("requestId" = String, Path)),
    responses((status = 200, body = ClaimView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(key): Id<ClaimKey>,
) -> Result<Json<ClaimView>, Problem> {
    Ok(Json(ClaimView::for_operators(&app.engine.any_claim(&key).await?)))
}
