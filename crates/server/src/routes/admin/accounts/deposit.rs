use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::once::{self, Key};
use crate::path::Id;
use crate::problem::Problem;
use axum::extract::State;
use axum::response::Response;
use guerdon_core::idempotency::InProgress;
use guerdon_core::wallet::view::Receipt;
use guerdon_core::wallet::{AccountId, Asking, DepositBody, Wish};
use std::sync::Arc;

/// Puts money into an account, from its currency's issue account, once for each key.
#[utoipa::path(
    post, path = "/v1/admin/accounts/{accountId}/deposit", tag = "Operators", operation_id = "depositIntoAccount",
    params(
        ("accountId" = i64, Path),
        ("Idempotency-Key" = String, Header, description = "A key of the caller's choice")
    ),
    request_body = DepositBody,
    responses((status = 200, body = Receipt), (status = 202, body = InProgress))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(to): Id<AccountId>,
    Key(key): Key,
    json::Json(body): json::Json<DepositBody>,
) -> Result<Response, Problem> {
    let amount = body.validate().map_err(|rejection| Problem::from(rejection).with_key_advice())?;
    let asking = Asking { user: caller.user_id().clone(), operates: true };
    once::answer(app.engine.carry_out(asking, caller.actor(), key, Wish::Deposit { to, amount }).await)
}
