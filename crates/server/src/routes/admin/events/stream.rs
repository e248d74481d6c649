use super::summary::SummaryView;
use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use crate::stream::{Frame, changes};
use axum::extract::State;
use axum::response::IntoResponse;
use guerdon_core::EventId;
use std::sync::Arc;
use std::time::Duration;

const LOOK_ANYWAY: Duration = Duration::from_secs(15);

/// An event's figures as server-sent events named `summary`: at once, and whenever they change.
#[utoipa::path(
    get, path = "/v1/admin/events/{eventId}/stream", tag = "Operators", operation_id = "streamEventSummary",
    params(("eventId" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    mut caller: Caller<Inspect>,
    Id(id): Id<EventId>,
) -> Result<impl IntoResponse, Problem> {
    app.engine.summary(&id).await?;
    let watched = id.clone();
    let look = move |app: Arc<App>| {
        let id = id.clone();
        async move {
            let summary = SummaryView::from(app.engine.summary(&id).await?);
            let data = serde_json::to_string(&summary).unwrap_or_default();
            Ok(Frame { name: "summary", data, last: false })
        }
    };
    let changed = move |app: Arc<App>| {
        let id = watched.clone();
        async move { app.engine.line_changed(&id, LOOK_ANYWAY).await }
    };
    Ok(changes(app, caller.take_place(), look, changed))
}
