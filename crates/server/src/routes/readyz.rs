use crate::app::App;
use crate::edge::OwnBody;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ReadinessView {
    ready: bool,
    /// `ok`, or what is wrong with it.
    checks: BTreeMap<&'static str, String>,
    /// Services outside: `ok`, or what is wrong with them. They do not make this process unready.
    services: BTreeMap<String, String>,
}

/// Whether this process should be sent work: 200, or 503 with what is wrong.
#[utoipa::path(
    get, path = "/readyz", tag = "Service", operation_id = "readyz",
    responses((status = 200, body = ReadinessView), (status = 503, body = ReadinessView))
)]
pub(crate) async fn handle(State(app): State<Arc<App>>) -> Response {
    let readiness = app.engine.readiness().await;
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let view = ReadinessView {
        ready: readiness.is_ready(),
        checks: readiness
            .checks
            .into_iter()
            .map(|(name, problem)| (name, problem.unwrap_or_else(|| "ok".into())))
            .collect(),
        services: readiness
            .services
            .into_iter()
            .map(|(name, problem)| (name, problem.unwrap_or_else(|| "ok".into())))
            .collect(),
    };
    (status, Extension(OwnBody), Json(view)).into_response()
}
