use super::verifier;
use crate::address::Peer;
use crate::app::App;
use crate::json;
use crate::problem::Problem;
use crate::session::{self, SessionBody, SessionView};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use std::sync::Arc;

/// Signs a browser in: the token becomes a cookie that no script can read. Every other call then takes the cookie where it has no
/// Authorization header; calls that are not reads also need `csrfToken` in the header `X-CSRF-Token`.
#[utoipa::path(
    post, path = "/v1/session", tag = "Sessions", operation_id = "createSession",
    request_body = SessionBody, security(()),
    responses((status = 201, body = SessionView, headers(("Set-Cookie" = String))))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    json::Json(body): json::Json<SessionBody>,
) -> Result<Response, Problem> {
    session::is_from_a_page_of_ours(&headers)?;
    let secure = app.guard.is_secure(peer.map(|Extension(Peer(peer))| peer), &headers);
    session::begin(verifier(&app)?, &body.token, app.engine.now(), secure).await
}
