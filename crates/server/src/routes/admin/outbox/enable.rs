use super::sink::SinkView;
use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;

/// Has messages sent again to an address that had answered that it is gone.
#[utoipa::path(
    post, path = "/v1/admin/outbox/sink/enable", tag = "Operators", operation_id = "enableSink",
    responses((status = 200, body = SinkView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
) -> Result<Json<SinkView>, Problem> {
    Ok(Json(app.engine.enable_sink(caller.actor()).await?.into()))
}
