use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Pair;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::explain::ExplanationView;
use guerdon_core::{EventId, UserId};
use std::sync::Arc;

/// One user at one event: what came of it, why, and what that rests on.
#[utoipa::path(
    get, path = "/v1/admin/events/{eventId}/users/{userId}", tag = "Operators", operation_id = "explainOutcome",
    params(("eventId" = String, Path), ("userId" = String, Path)),
    responses((status = 200, body = ExplanationView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Pair(event_id, user_id): Pair<EventId, UserId>,
) -> Result<Json<ExplanationView>, Problem> {
    Ok(Json(app.engine.explanation(&event_id, &user_id).await?))
}
