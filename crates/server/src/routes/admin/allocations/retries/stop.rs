use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::path::{Id, RetryId};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::allocations::view::RetryView;
use std::sync::Arc;

/// Stops a retry of many where it is.
#[utoipa::path(
    post, path = "/v1/admin/allocations/retries/{retryId}/stop", tag = "Operators", operation_id = "stopRetry",
    params(("retryId" = String, Path)),
    responses((status = 200, body = RetryView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(RetryId(id)): Id<RetryId>,
) -> Result<Json<RetryView>, Problem> {
    Ok(Json(app.engine.stop_retry(caller.actor(), id).await?))
}
