use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::allocations::AllocationId;
use guerdon_core::allocations::view::AllocationView;
use std::sync::Arc;

/// Has a delivery tried again now, under the same key, also one that had failed for good.
#[utoipa::path(
    post, path = "/v1/admin/allocations/{allocationId}/retry", tag = "Operators", operation_id = "retryAllocation",
    params(("allocationId" = String, Path)),
    responses((status = 200, body = AllocationView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<AllocationId>,
) -> Result<Json<AllocationView>, Problem> {
    Ok(Json(AllocationView::of(&app.engine.retry_allocation(caller.actor(), id).await?)))
}
