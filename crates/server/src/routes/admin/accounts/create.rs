use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use guerdon_core::wallet::AccountBody;
use guerdon_core::wallet::view::AccountView;
use std::sync::Arc;

/// Opens a user's account in a currency: 201 when it is new, 200 when it was there. The first account of a currency
/// settles how many decimals it has.
#[utoipa::path(
    post, path = "/v1/admin/accounts", tag = "Operators", operation_id = "openAccount",
    request_body = AccountBody,
    responses(
        (status = 201, body = AccountView, headers(("Location" = String))),
        (status = 200, body = AccountView, headers(("Location" = String)))
    )
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    json::Json(body): json::Json<AccountBody>,
) -> Result<impl IntoResponse, Problem> {
    let (account, new) = app.engine.open_account(caller.actor(), body).await?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    let location = format!("/v1/accounts/{}", account.id);
    Ok((status, [(header::LOCATION, location)], Json(AccountView::from(account))))
}
