use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use guerdon_core::allocations::view::AllocationView;
use guerdon_core::allocations::{AllocationId, AllocationStatus};
use std::sync::Arc;

/// Calls a delivery off. 200 when it is cancelled; 202 when a call is under way or its outcome unknown: it is cancelled
/// once that is known not to have been applied, and stays delivered if it was.
#[utoipa::path(
    post, path = "/v1/admin/allocations/{allocationId}/cancel", tag = "Operators", operation_id = "cancelAllocation",
    params(("allocationId" = String, Path)),
    responses((status = 200, body = AllocationView), (status = 202, body = AllocationView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<AllocationId>,
) -> Result<Response, Problem> {
    let row = app.engine.cancel_allocation(caller.actor(), id).await?;
    let done = row.status == AllocationStatus::Cancelled;
    let status = if done { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok((status, json::answer(&AllocationView::of(&row))).into_response())
}
