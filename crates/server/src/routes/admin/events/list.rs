use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::events::{EventStatus, EventType, EventView};
use guerdon_engine::EventFilter;
use std::sync::Arc;

/// All events, drafts too, the newest first; those of one status in the order of their start. A page that is filtered by type
/// may come back short with a `nextCursor`.
#[utoipa::path(
    get, path = "/v1/admin/events", tag = "Operators", operation_id = "listAllEvents",
    params(
        ("status" = Option<EventStatus>, Query), ("type" = Option<EventType>, Query),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<EventView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<EventView>>, Problem> {
    let status = query.one_of("status", EventStatus::parse)?;
    // A cursor is a place in one order, so each filter has its own.
    let kind = query.one_of("type", EventType::parse)?;
    let (of_status, of_kind) =
        (status.map_or("all", EventStatus::as_str), kind.map_or("", EventType::as_str));
    let name = format!("admin/events/{of_status}/{of_kind}");
    let page = app.engine.events(EventFilter { status, kind }, query.page(&name)?).await?;
    let now = app.engine.now();
    Ok(Json(List::of(&name, page, |event| EventView::of(&event, now))))
}
