use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::requests::{RequestId, RequestView};
use std::sync::Arc;

/// Anybody's request.
#[utoipa::path(
    get, path = "/v1/admin/requests/{requestId}", tag = "Operators", operation_id = "getAnyRequest",
    params(("requestId" = String, Path)),
    responses((status = 200, body = RequestView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<RequestId>,
) -> Result<Json<RequestView>, Problem> {
    let shown = app.engine.request(id, None).await?;
    Ok(Json(shown.view(app.engine.now())))
}
