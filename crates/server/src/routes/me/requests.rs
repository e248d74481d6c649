use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::requests::RequestView;
use std::sync::Arc;

/// The caller's requests, the newest first.
#[utoipa::path(
    get, path = "/v1/me/requests", tag = "Requests", operation_id = "listMyRequests",
    params(("eventId" = Option<String>, Query, description = "Only the one at this event"), ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<RequestView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    query: ListQuery,
) -> Result<Json<List<RequestView>>, Problem> {
    let event_id = query.one_of("eventId", |text| EventId::parse(text).ok())?;
    let name = query.name("me/requests", &["eventId"]);
    let page = app.engine.requests_of(caller.user_id(), event_id, query.page(&name)?).await?;
    let now = app.engine.now();
    Ok(Json(List::of(&name, page, |shown| shown.view(now))))
}
