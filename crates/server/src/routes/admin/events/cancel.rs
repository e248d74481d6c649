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

/// Cancels an event for good.
#[utoipa::path(
    post, path = "/v1/admin/events/{eventId}/cancel", tag = "Operators", operation_id = "cancelEvent",
    params(("eventId" = String, Path)),
    responses((status = 200, body = EventView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<EventId>,
) -> Result<Json<EventView>, Problem> {
    make_move(&app, &caller, id, Move::Cancel).await
}
