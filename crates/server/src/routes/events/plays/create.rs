use super::view;
use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::json;
use crate::once::Key;
use crate::path::Id;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use guerdon_core::EventId;
use guerdon_core::entries::view::PlayView;
use std::sync::Arc;

/// Plays once for each key; the same key again shows the same play, and draws nothing.
#[utoipa::path(
    post, path = "/v1/events/{eventId}/plays", tag = "Entries", operation_id = "play",
    params(
        ("eventId" = String, Path),
        ("Idempotency-Key" = String, Header, description = "Of the caller's choice: 1 to 128 visible ASCII characters")
    ),
    responses((status = 201, body = PlayView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(event_id): Id<EventId>,
    Key(key): Key,
) -> Result<Response, Problem> {
    let played = app.engine.play(event_id.clone(), caller.user_id().clone(), key).await;
    let played = played.map_err(|failure| Problem::from(failure).with_key_advice())?;
    Ok((StatusCode::CREATED, json::answer(&view(played, &event_id, caller.user_id()))).into_response())
}
