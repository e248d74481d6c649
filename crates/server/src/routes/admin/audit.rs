use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::Code;
use guerdon_core::audit::Report;
use std::sync::Arc;

/// Checks every promise against what is stored, as `guerdon audit` does, and gives way to everything else meanwhile. One
/// audit runs at a time; a large store takes minutes.
#[utoipa::path(
    get, path = "/v1/admin/audit", tag = "Operators", operation_id = "audit",
    responses((status = 200, body = Report))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
) -> Result<Json<Report>, Problem> {
    let mut stopping = app.stopping.subscribe();
    tokio::select! {
        report = app.engine.audit() => Ok(Json(report?)),
        _ = stopping.wait_for(|stopping| *stopping) => {
            Err(Problem::new(Code::ShuttingDown, "the audit was cut off; ask another server or try again"))
        }
    }
}
