use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::outbox::view::{ReplayBody, Replayed};
use std::sync::Arc;

/// Has all dead messages sent again, from one to another, or all that were sent; at most 10,000 in a call.
#[utoipa::path(
    post, path = "/v1/admin/outbox/replay", tag = "Operators", operation_id = "replayMessages",
    request_body = ReplayBody,
    responses((status = 200, body = Replayed))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    json::Json(body): json::Json<ReplayBody>,
) -> Result<Json<Replayed>, Problem> {
    let (from, to, dead) = body.validate()?;
    let replay = guerdon_engine::Replay { from, to, dead };
    let (replayed, next) = app.engine.replay_messages(caller.actor(), replay).await?;
    Ok(Json(Replayed { replayed, next: next.map(|id| id.to_string()) }))
}
