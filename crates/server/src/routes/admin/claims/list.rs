use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::claims::ClaimStatus;
use guerdon_core::claims::view::{ClaimFilter, ClaimView};
use guerdon_core::{EventId, UserId};
use std::sync::Arc;

/// Claims, the newest first. A filtered page may come back short with a `nextCursor`.
#[utoipa::path(
    get, path = "/v1/admin/claims", tag = "Operators", operation_id = "listClaims",
    params(
        ("status" = Option<ClaimStatus>, Query, description = "Only those that stand there"),
        ("eventId" = Option<String>, Query), ("userId" = Option<String>, Query),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<ClaimView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<ClaimView>>, Problem> {
    let filter = ClaimFilter {
        status: query.one_of("status", ClaimStatus::parse)?,
        event_id: query.one_of("eventId", |text| EventId::parse(text).ok())?,
        user_id: query.one_of("userId", |text| UserId::parse(text).ok())?,
    };
    let name = format!(
        "claims/{}/{}/{}",
        filter.status.map_or("", ClaimStatus::as_str),
        filter.event_id.as_ref().map_or("", EventId::as_str),
        filter.user_id.as_ref().map_or("", UserId::as_str),
    );
    let page = app.engine.claims(filter, query.page(&name)?).await?;
    Ok(Json(List::of(&name, page, |claim| ClaimView::for_operators(&claim))))
}
