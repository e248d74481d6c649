use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use guerdon_core::allocations::view::{BulkAction, RetryBody, RetryView};
use std::sync::Arc;

/// Has all deliveries tried again that match, in the background; `Location` tells of its progress.
#[utoipa::path(
    post, path = "/v1/admin/allocations/retry", tag = "Operators", operation_id = "retryAllocations",
    request_body = RetryBody,
    responses((status = 202, body = RetryView, headers(("Location" = String))))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    json::Json(body): json::Json<RetryBody>,
) -> Result<Response, Problem> {
    let view = app.engine.change_allocations(caller.actor(), body.validate(BulkAction::Retry)?).await?;
    let location = format!("/v1/admin/allocations/retries/{}", view.retry_id);
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], json::answer(&view)).into_response())
}
