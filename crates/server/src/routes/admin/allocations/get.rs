use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::allocations::AllocationId;
use guerdon_core::allocations::view::AllocationView;
use std::sync::Arc;

/// A reward that was won.
#[utoipa::path(
    get, path = "/v1/admin/allocations/{allocationId}", tag = "Operators", operation_id = "getAllocation",
    params(("allocationId" = String, Path)),
    responses((status = 200, body = AllocationView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<AllocationId>,
) -> Result<Json<AllocationView>, Problem> {
    Ok(Json(AllocationView::of(&app.engine.allocation(id).await?)))
}
