use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::ListQuery;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::search::Hit;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

const TEXT_MAX: usize = 255;

/// What has the id.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Hits {
    items: Vec<Hit>,
}

/// Finds what has this id, or was done under it as a key: events, requests, claims, allocations, coupons, transfers, accounts,
/// messages, users. The whole id; there is no search by parts.
#[utoipa::path(
    get, path = "/v1/admin/search", tag = "Operators", operation_id = "search",
    params(("q" = String, Query, min_length = 1, max_length = 255)),
    responses((status = 200, body = Hits))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<Hits>, Problem> {
    let text = query.text("q").unwrap_or_default().trim();
    if text.is_empty() || text.len() > TEXT_MAX || text.contains('\0') {
        return Err(Problem::field("q", format!("must be an id of 1 to {TEXT_MAX} bytes")));
    }
    Ok(Json(Hits { items: app.engine.search(text.to_owned()).await? }))
}
