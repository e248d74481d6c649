use super::verifier;
use crate::address::Peer;
use crate::app::App;
use crate::problem::Problem;
use crate::session;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use std::sync::Arc;

/// Signs the browser out: its cookie is taken away.
#[utoipa::path(
    delete, path = "/v1/session", tag = "Sessions", operation_id = "endSession",
    responses((status = 204))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let token = session::token(&headers, &Method::DELETE)?;
    session::present(verifier(&app)?, token, app.engine.now()).await?;
    Ok(session::end(app.guard.is_secure(peer.map(|Extension(Peer(peer))| peer), &headers)))
}
