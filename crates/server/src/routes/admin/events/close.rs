use super::make_move;
use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::EventId;
use guerdon_core::events::EventView;
use guerdon_core::events::lifecycle::Move;
use std::sync::Arc;

/// Closes an open event: nobody gets in any more.
#[utoipa::path(
    post, path = "/v1/admin/events/{eventId}/close", tag = "Operators", operation_id = "closeEvent",
    params(("eventId" = String, Path)),
    responses((status = 200, body = EventView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<EventId>,
) -> Result<Json<EventView>, Problem> {
    make_move(&app, &caller, id, Move::Close).await
}
