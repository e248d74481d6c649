use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::ClaimKey;
use guerdon_core::claims::view::ClaimView;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

const NOTE_MAX: usize = 1_000;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResolveBody {
    /// What was done about it.
    note: String,
    /// Whether what the claim holds goes back into the stock: yes, unless set.
    return_stock: Option<bool>,
}

/// Notes that somebody has seen to a claim that needed a hand. It counts as rolled back from then on.
#[utoipa::path(
    post, path = "/v1/admin/claims/{requestId}/resolve", tag = "Operators", operation_id = "resolveClaim",
    params(("requestId" = String, Path)), request_body = ResolveBody,
    responses((status = 200, body = ClaimView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(key): Id<ClaimKey>,
    json::Json(body): json::Json<ResolveBody>,
) -> Result<Json<ClaimView>, Problem> {
    let note = json::note(&body.note, NOTE_MAX)?;
    let return_stock = body.return_stock.unwrap_or(true);
    let claim = app.engine.resolve_claim(caller.actor(), key, note, return_stock).await?;
    Ok(Json(ClaimView::for_operators(&claim)))
}
