use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use guerdon_core::events::{EventBody, EventView};
use std::sync::Arc;

/// Creates an event as a draft.
#[utoipa::path(
    post, path = "/v1/admin/events", tag = "Operators", operation_id = "createEvent",
    request_body = EventBody,
    responses((status = 201, body = EventView, headers(("Location" = String))))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    json::Json(body): json::Json<EventBody>,
) -> Result<impl IntoResponse, Problem> {
    let event = app.engine.create_event(caller.actor(), body).await?;
    let location = format!("/v1/admin/events/{}", event.id);
    let view = EventView::of(&event, app.engine.now());
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(view)))
}
