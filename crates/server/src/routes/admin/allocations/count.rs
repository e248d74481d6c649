use super::list::filter;
use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::ListQuery;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::allocations::AllocationStatus;
use guerdon_core::allocations::view::CountView;
use std::sync::Arc;

/// How many open deliveries match, before they are retried or cancelled; counted as far as ten thousand that are open.
#[utoipa::path(
    get, path = "/v1/admin/allocations/count", tag = "Operators", operation_id = "countAllocations",
    params(
        ("status" = Option<AllocationStatus>, Query, description = "`FAILED` unless set; `PENDING` or `PROCESSING`"),
        ("eventId" = Option<String>, Query), ("memberId" = Option<String>, Query)
    ),
    responses((status = 200, body = CountView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<CountView>, Problem> {
    use AllocationStatus::{Cancelled, Success};
    let filter = filter(&query)?;
    if matches!(filter.status, Some(Success | Cancelled)) {
        return Err(Problem::field("status", "must be FAILED, PENDING or PROCESSING: the others are done"));
    }
    Ok(Json(app.engine.count_allocations(filter).await?))
}
