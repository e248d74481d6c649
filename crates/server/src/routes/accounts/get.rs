use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::list::ListQuery;
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::wallet::AccountId;
use guerdon_core::wallet::view::AccountView;
use std::sync::Arc;

/// One of the caller's accounts, and what it holds, or held.
#[utoipa::path(
    get, path = "/v1/accounts/{accountId}", tag = "Wallet", operation_id = "getAccount",
    params(
        ("accountId" = i64, Path),
        ("at" = Option<i64>, Query, description = "What it held then, by the ledger, in epoch milliseconds")
    ),
    responses((status = 200, body = AccountView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(id): Id<AccountId>,
    query: ListQuery,
) -> Result<Json<AccountView>, Problem> {
    let at = query.time("at")?;
    let account = app.engine.account(id, caller.sees(), at).await?;
    Ok(Json(AccountView { at, ..account.into() }))
}
