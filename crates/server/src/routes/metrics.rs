use crate::app::App;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Figures for Prometheus, in its text format.
#[utoipa::path(get, path = "/metrics", tag = "Service", operation_id = "metrics", responses((status = 200, body = String, content_type = "application/openmetrics-text")))]
pub(crate) async fn handle(State(app): State<Arc<App>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &app.registry) {
        Ok(()) => {
            let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(CONTENT_TYPE, content_type)], text).into_response()
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
