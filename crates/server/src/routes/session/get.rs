use super::verifier;
use crate::app::App;
use crate::problem::Problem;
use crate::session::{self, SessionView};
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use std::sync::Arc;

/// Who is signed in.
#[utoipa::path(
    get, path = "/v1/session", tag = "Sessions", operation_id = "getSession",
    responses((status = 200, body = SessionView))
)]
pub(crate) async fn handle(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, Problem> {
    session::present(verifier(&app)?, session::token(&headers, &Method::GET)?, app.engine.now()).await
}
