use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::outbox::MessageId;
use guerdon_core::outbox::view::OutboxEventView;
use std::sync::Arc;

/// Has a message sent again, whatever became of it.
#[utoipa::path(
    post, path = "/v1/admin/outbox/{eventId}/replay", tag = "Operators", operation_id = "replayMessage",
    params(("eventId" = String, Path, description = "The message's id")),
    responses((status = 200, body = OutboxEventView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<MessageId>,
) -> Result<Json<OutboxEventView>, Problem> {
    Ok(Json(OutboxEventView::of(app.engine.replay_message(caller.actor(), id).await?)))
}
