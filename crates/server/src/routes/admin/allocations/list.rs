use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::allocations::AllocationStatus;
use guerdon_core::allocations::view::{AllocationFilter, AllocationView};
use guerdon_core::{EventId, UserId};
use std::sync::Arc;

/// Rewards that were won, the newest first. A filtered page may come back short with a `nextCursor`.
#[utoipa::path(
    get, path = "/v1/admin/allocations", tag = "Operators", operation_id = "listAllocations",
    params(
        ("status" = Option<AllocationStatus>, Query, description = "Only those that stand there"),
        ("eventId" = Option<String>, Query), ("memberId" = Option<String>, Query),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<AllocationView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<AllocationView>>, Problem> {
    let filter = filter(&query)?;
    // A cursor is good for the list that it was given out with.
    let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
    let name = format!(
        "allocations/{}/{}/{}",
        filter.status.map_or("", AllocationStatus::as_str),
        text(filter.event_id.as_ref().map(EventId::as_str)),
        text(filter.member_id.as_ref().map(UserId::as_str)),
    );
    let page = app.engine.allocations(filter, query.page(&name)?).await?;
    Ok(Json(List::of(&name, page, |row| AllocationView::of(&row))))
}

/// Which of them a query names.
pub(super) fn filter(query: &ListQuery) -> Result<AllocationFilter, Problem> {
    Ok(AllocationFilter {
        status: query.one_of("status", AllocationStatus::parse)?,
        event_id: query.one_of("eventId", |text| EventId::parse(text).ok())?,
        member_id: query.one_of("memberId", |text| UserId::parse(text).ok())?,
    })
}
