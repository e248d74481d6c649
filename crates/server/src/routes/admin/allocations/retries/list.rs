use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::allocations::view::RetryView;
use std::sync::Arc;

/// Retries and cancellations of many, the newest first.
#[utoipa::path(
    get, path = "/v1/admin/allocations/retries", tag = "Operators", operation_id = "listRetries",
    params(("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<RetryView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<RetryView>>, Problem> {
    let page = app.engine.retries_of_many(query.page("admin/retries")?).await?;
    Ok(Json(List::of("admin/retries", page, |view| view)))
}
