use super::view;
use crate::app::App;
use crate::cursor;
use crate::identity::{Caller, Participate};
use crate::list::ListQuery;
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::entries::view::PlaysView;
use std::sync::Arc;

/// The caller's plays, the newest first, and how many they have left.
#[utoipa::path(
    get, path = "/v1/events/{eventId}/plays", tag = "Entries", operation_id = "listMyPlays",
    params(
        ("eventId" = String, Path),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = PlaysView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(event_id): Id<EventId>,
    query: ListQuery,
) -> Result<Json<PlaysView>, Problem> {
    let name = format!("plays/{event_id}");
    let plays = app.engine.plays_of(&event_id, caller.user_id(), query.page(&name)?).await?;
    let items = plays.page.items.into_iter().map(|played| view(played, &event_id, caller.user_id()));
    Ok(Json(PlaysView {
        left: plays.left,
        total: plays.total,
        items: items.collect(),
        next_cursor: plays.page.next.map(|place| cursor::encode(&name, &place)),
    }))
}
