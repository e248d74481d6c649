use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::ClaimKey;
use guerdon_core::claims::view::ClaimView;
use std::sync::Arc;

/// One of the caller's own claims, wherever it stands; anybody else's does not exist for them.
#[utoipa::path(
    get, path = "/v1/claims/{requestId}", tag = "Claims", operation_id = "getClaim",
    params(("requestId" = String, Path)),
    responses((status = 200, body = ClaimView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(key): Id<ClaimKey>,
) -> Result<Json<ClaimView>, Problem> {
    Ok(Json(ClaimView::of(&app.engine.claim_of(caller.user_id(), &key).await?)))
}
