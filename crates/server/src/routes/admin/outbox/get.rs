use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::outbox::MessageId;
use guerdon_core::outbox::view::OutboxEventView;
use std::sync::Arc;

/// One message, for as long as it is kept.
#[utoipa::path(
    get, path = "/v1/admin/outbox/{eventId}", tag = "Operators", operation_id = "getMessage",
    params(("eventId" = String, Path, description = "The message's id")),
    responses((status = 200, body = OutboxEventView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<MessageId>,
) -> Result<Json<OutboxEventView>, Problem> {
    Ok(Json(OutboxEventView::of(app.engine.message(id).await?)))
}
