use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::requests::{RequestId, RequestView};
use std::sync::Arc;

/// One of the caller's own requests; anybody else's does not exist for them.
#[utoipa::path(
    get, path = "/v1/requests/{requestId}", tag = "Requests", operation_id = "getRequest",
    params(("requestId" = String, Path)),
    responses((status = 200, body = RequestView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(id): Id<RequestId>,
) -> Result<Json<RequestView>, Problem> {
    let shown = app.engine.request(id, Some(caller.user_id())).await?;
    Ok(Json(shown.view(app.engine.now())))
}
