use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::Timestamp;
use guerdon_engine::SinkState;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// Where messages go, and whether they do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SinkView {
    /// `none`, `webhook`, `rabbitmq` or `kafka`.
    sink: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Whether it may be sent to. An address that answered that it is gone is sent nothing more until it is enabled.
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    disabled_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<SinkState> for SinkView {
    fn from(state: SinkState) -> Self {
        let (disabled_at, reason) = state.disabled.unzip();
        Self {
            sink: state.name,
            address: state.address,
            enabled: disabled_at.is_none(),
            disabled_at: disabled_at.map(Timestamp::as_millis),
            reason,
        }
    }
}

/// Where messages go, and whether they do.
#[utoipa::path(
    get, path = "/v1/admin/outbox/sink", tag = "Operators", operation_id = "getSink",
    responses((status = 200, body = SinkView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
) -> Result<Json<SinkView>, Problem> {
    Ok(Json(app.engine.sink_state().await?.into()))
}
