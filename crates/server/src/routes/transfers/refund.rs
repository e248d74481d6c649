use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::json;
use crate::once::{self, Key};
use crate::path::Id;
use crate::problem::Problem;
use axum::extract::State;
use axum::response::Response;
use guerdon_core::idempotency::InProgress;
use guerdon_core::identity::Permission;
use guerdon_core::wallet::view::Receipt;
use guerdon_core::wallet::{Asking, RefundBody, TransferId, Wish};
use std::sync::Arc;

/// Gives a transfer back, or a part of it, once for each key: by whoever received it, or by an operator; never more than
/// was transferred.
#[utoipa::path(
    post, path = "/v1/transfers/{transferId}/refund", tag = "Wallet", operation_id = "refundTransfer",
    params(
        ("transferId" = String, Path),
        ("Idempotency-Key" = String, Header, description = "A key of the caller's choice")
    ),
    request_body = RefundBody,
    responses((status = 200, body = Receipt), (status = 202, body = InProgress))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(id): Id<TransferId>,
    Key(key): Key,
    json::Json(body): json::Json<RefundBody>,
) -> Result<Response, Problem> {
    let amount = body.validate().map_err(|rejection| Problem::from(rejection).with_key_advice())?;
    let asking = Asking { user: caller.user_id().clone(), operates: caller.may(Permission::Operate) };
    once::answer(app.engine.carry_out(asking, caller.actor(), key, Wish::Refund { of: id, amount }).await)
}
