use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use crate::stream::{Frame, Shown, changes};
use axum::extract::State;
use axum::response::IntoResponse;
use guerdon_core::EventId;
use guerdon_core::pace::Pace;
use std::sync::Arc;
use tokio::sync::watch;

/// The pace of an event without a line as server-sent events named `pace`: one for each second.
#[utoipa::path(
    get, path = "/v1/admin/events/{eventId}/pace/stream", tag = "Operators", operation_id = "streamEventPace",
    params(("eventId" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    mut caller: Caller<Inspect>,
    Id(id): Id<EventId>,
) -> Result<impl IntoResponse, Problem> {
    let watched = app.engine.follow_pace(&id).await?;
    Ok(changes(app, caller.take_place(), Seconds(watched)))
}

struct Seconds(watch::Receiver<Pace>);

impl Shown for Seconds {
    async fn look(&mut self, _: &App) -> Result<Frame, Problem> {
        // The first look is under way; whoever ends the engine ends the stream.
        let pace = self.0.wait_for(Pace::is_known).await.map(|pace| pace.view()).ok();
        let data = serde_json::to_string(&pace).unwrap_or_default();
        Ok(Frame { name: "pace", data, last: pace.is_none() || self.0.has_changed().is_err() })
    }

    async fn changed(&mut self, _: &App) {
        let _ = self.0.changed().await;
    }
}
