use super::summary::SummaryView;
use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use crate::stream::{Frame, Shown, changes};
use axum::extract::State;
use axum::response::IntoResponse;
use guerdon_core::EventId;
use guerdon_engine::{LineFollower, Summary};
use std::sync::Arc;
use std::time::Duration;

/// How long a stream waits for the line to move before it makes sure that it is still wanted.
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
    // Followed before the first look, so that nothing is missed between.
    let line = app.engine.follow_line(&id);
    let first = Some(app.engine.summary(&id).await?);
    Ok(changes(app, caller.take_place(), Figures { id, line, first }))
}

/// However many consoles show an event, its figures are read once for each tick: by whoever watches the line.
struct Figures {
    id: EventId,
    line: LineFollower,
    /// Read for this stream alone: the watch may not have looked yet.
    first: Option<Summary>,
}

impl Shown for Figures {
    async fn look(&mut self, app: &App) -> Result<Frame, Problem> {
        let summary = match (self.first.take(), self.line.figures()) {
            (Some(first), _) => first,
            (None, Some(figures)) => (*figures).clone(),
            (None, None) => app.engine.summary(&self.id).await?,
        };
        let data = serde_json::to_string(&SummaryView::from(summary)).unwrap_or_default();
        Ok(Frame { name: "summary", data, last: false })
    }

    async fn changed(&mut self, _: &App) {
        self.line.moved(LOOK_ANYWAY).await;
    }
}
