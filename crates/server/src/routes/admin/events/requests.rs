use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::requests::{RequestStatus, RequestView, ResultCode};
use guerdon_engine::RequestFilter;
use std::sync::Arc;

/// An event's requests in the order of its line. A filtered page may come back short with a `nextCursor`.
#[utoipa::path(
    get, path = "/v1/admin/events/{eventId}/requests", tag = "Operators", operation_id = "listEventRequests",
    params(
        ("eventId" = String, Path),
        ("status" = Option<RequestStatus>, Query), ("resultCode" = Option<ResultCode>, Query),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<RequestView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<EventId>,
    query: ListQuery,
) -> Result<Json<List<RequestView>>, Problem> {
    let filter = RequestFilter {
        status: query.one_of("status", RequestStatus::parse)?,
        result: query.one_of("resultCode", ResultCode::parse)?,
    };
    let name = format!("admin/events/{id}/requests");
    let page = app.engine.requests_of_event(&id, filter, query.page(&name)?).await?;
    let now = app.engine.now();
    Ok(Json(List::of(&name, page, |shown| shown.view(now))))
}
