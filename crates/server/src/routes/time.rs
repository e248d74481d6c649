use crate::app::App;
use crate::identity::{Caller, Participate};
use axum::Json;
use axum::extract::State;
use guerdon_core::Timestamp;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TimeView {
    /// Epoch milliseconds.
    #[schema(value_type = i64)]
    now: Timestamp,
}

/// The time that events start and end by, for a countdown that does not trust the clock it runs on.
#[utoipa::path(
    get, path = "/v1/time", tag = "Events", operation_id = "getTime",
    responses((status = 200, body = TimeView))
)]
pub(crate) async fn handle(State(app): State<Arc<App>>, _caller: Caller<Participate>) -> Json<TimeView> {
    Json(TimeView { now: app.engine.now() })
}
