use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::wallet::view::AccountView;
use std::sync::Arc;

/// The caller's accounts, by currency.
#[utoipa::path(
    get, path = "/v1/me/accounts", tag = "Wallet", operation_id = "listMyAccounts",
    params(("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<AccountView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    query: ListQuery,
) -> Result<Json<List<AccountView>>, Problem> {
    let page = app.engine.accounts_of(caller.user_id(), query.page("me/accounts")?).await?;
    Ok(Json(List::of("me/accounts", page, AccountView::from)))
}
