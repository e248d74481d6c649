use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::allocations::view::AllocationView;
use std::sync::Arc;

/// What the caller has won, the newest first, and whether it was delivered.
#[utoipa::path(
    get, path = "/v1/me/allocations", tag = "Entries", operation_id = "listMyAllocations",
    params(("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<AllocationView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    query: ListQuery,
) -> Result<Json<List<AllocationView>>, Problem> {
    let page = app.engine.allocations_of(caller.user_id(), query.page("me/allocations")?).await?;
    Ok(Json(List::of("me/allocations", page, |row| AllocationView::public(&row))))
}
