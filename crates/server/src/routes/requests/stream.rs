use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use crate::stream::{Frame, Shown, changes};
use axum::extract::State;
use axum::response::IntoResponse;
use guerdon_core::UserId;
use guerdon_core::requests::RequestId;
use guerdon_engine::LineFollower;
use std::sync::Arc;
use std::time::Duration;

/// How often a request is looked at again even though nobody said that its line moved.
const LOOK_ANYWAY: Duration = Duration::from_secs(15);

/// A request as server-sent events named `request`: at once, and whenever it changes, until it is decided.
#[utoipa::path(
    get, path = "/v1/requests/{requestId}/stream", tag = "Requests", operation_id = "streamRequest",
    params(("requestId" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    mut caller: Caller<Participate>,
    Id(id): Id<RequestId>,
) -> Result<impl IntoResponse, Problem> {
    let user = caller.user_id().clone();
    let event_id = app.engine.request(id, Some(&user)).await?.request.event_id;
    let line = app.engine.follow_line(&event_id);
    Ok(changes(app, caller.take_place(), OneRequest { id, user, line }))
}

struct OneRequest {
    id: RequestId,
    user: UserId,
    line: LineFollower,
}

impl Shown for OneRequest {
    async fn look(&mut self, app: &App) -> Result<Frame, Problem> {
        let shown = app.engine.request(self.id, Some(&self.user)).await?;
        let data = serde_json::to_string(&shown.view(app.engine.now())).unwrap_or_default();
        Ok(Frame { name: "request", data, last: shown.is_finished() })
    }

    async fn changed(&mut self, _: &App) {
        self.line.moved(LOOK_ANYWAY).await;
    }
}
