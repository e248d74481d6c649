use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::{Id, RetryId};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::allocations::view::RetryView;
use std::sync::Arc;

/// How far a retry of many has come.
#[utoipa::path(
    get, path = "/v1/admin/allocations/retries/{retryId}", tag = "Operators", operation_id = "getRetry",
    params(("retryId" = String, Path)),
    responses((status = 200, body = RetryView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(RetryId(id)): Id<RetryId>,
) -> Result<Json<RetryView>, Problem> {
    Ok(Json(app.engine.retry_of_many(id).await?))
}
