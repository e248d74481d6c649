use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::json;
use crate::once::{self, Key};
use crate::problem::Problem;
use axum::extract::State;
use axum::response::Response;
use guerdon_core::idempotency::InProgress;
use guerdon_core::wallet::view::Receipt;
use guerdon_core::wallet::{Asking, TransferBody, Wish};
use std::sync::Arc;

/// Moves money from one of the caller's accounts, once for each key; the same again gets the same answer, byte for
/// byte. 202 for as long as it is not known how it ends.
#[utoipa::path(
    post, path = "/v1/transfers", tag = "Wallet", operation_id = "createTransfer",
    params(("Idempotency-Key" = String, Header, description = "A key from `POST /v1/idempotency-keys`")),
    request_body = TransferBody,
    responses((status = 200, body = Receipt), (status = 202, body = InProgress))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Key(key): Key,
    json::Json(body): json::Json<TransferBody>,
) -> Result<Response, Problem> {
    let order = body.validate().map_err(|rejection| Problem::from(rejection).with_key_advice())?;
    let asking = Asking { user: caller.user_id().clone(), operates: false };
    once::answer(app.engine.carry_out(asking, caller.actor(), key, Wish::Transfer(order)).await)
}
