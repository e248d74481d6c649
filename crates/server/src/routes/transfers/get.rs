use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::wallet::TransferId;
use guerdon_core::wallet::view::TransferView;
use std::sync::Arc;

/// A transfer that the caller has a part in; any other does not exist for them.
#[utoipa::path(
    get, path = "/v1/transfers/{transferId}", tag = "Wallet", operation_id = "getTransfer",
    params(("transferId" = String, Path)),
    responses((status = 200, body = TransferView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(id): Id<TransferId>,
) -> Result<Json<TransferView>, Problem> {
    Ok(Json(app.engine.transfer(id, caller.sees()).await?))
}
