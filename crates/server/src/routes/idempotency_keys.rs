use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::json;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use guerdon_core::idempotency::Scope;
use guerdon_core::wallet::view::KeyView;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct KeyBody {
    /// `TRANSFER`; for everything else clients choose their own keys.
    scope: Scope,
}

/// Issues a key under which one transfer can be made.
#[utoipa::path(
    post, path = "/v1/idempotency-keys", tag = "Wallet", operation_id = "issueIdempotencyKey",
    request_body = KeyBody,
    responses((status = 201, body = KeyView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    json::Json(body): json::Json<KeyBody>,
) -> Result<(StatusCode, Json<KeyView>), Problem> {
    if !body.scope.is_issued() {
        return Err(Problem::field("scope", "must be TRANSFER; choose keys for everything else yourself"));
    }
    let (key, expires_at) = app.engine.issue_key(caller.user_id().clone(), body.scope).await?;
    let view = KeyView { idempotency_key: key.into(), scope: body.scope.as_str(), expires_at };
    Ok((StatusCode::CREATED, Json(view)))
}
