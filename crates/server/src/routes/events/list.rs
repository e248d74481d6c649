use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::events::EventView;
use std::sync::Arc;

/// The events that are open, the first to start first.
#[utoipa::path(
    get, path = "/v1/events", tag = "Events", operation_id = "listEvents",
    params(("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<EventView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Participate>,
    query: ListQuery,
) -> Result<Json<List<EventView>>, Problem> {
    let page = app.engine.open_events(query.page("events")?).await?;
    let now = app.engine.now();
    Ok(Json(List::of("events", page, |event| EventView::public(&event, now))))
}
