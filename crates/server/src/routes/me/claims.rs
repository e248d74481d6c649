use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::claims::view::ClaimView;
use std::sync::Arc;

/// The caller's claims, the newest first.
#[utoipa::path(
    get, path = "/v1/me/claims", tag = "Claims", operation_id = "listMyClaims",
    params(("eventId" = Option<String>, Query, description = "Only those at this event"), ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<ClaimView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    query: ListQuery,
) -> Result<Json<List<ClaimView>>, Problem> {
    let event_id = query.one_of("eventId", |text| EventId::parse(text).ok())?;
    let name = query.name("me/claims", &["eventId"]);
    let page = app.engine.claims_of(caller.user_id(), event_id, query.page(&name)?).await?;
    Ok(Json(List::of(&name, page, |claim| ClaimView::of(&claim))))
}
