use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::UserId;
use guerdon_core::wallet::view::AccountView;
use std::sync::Arc;

/// Accounts in the order of their numbers; those of one owner by currency.
#[utoipa::path(
    get, path = "/v1/admin/accounts", tag = "Operators", operation_id = "listAccounts",
    params(
        ("ownerId" = Option<String>, Query),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<AccountView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<AccountView>>, Problem> {
    if let Some(owner) = query.one_of("ownerId", |text| UserId::parse(text).ok())? {
        let name = format!("admin/accounts/{owner}");
        let page = app.engine.accounts_of(&owner, query.page(&name)?).await?;
        return Ok(Json(List::of(&name, page, AccountView::from)));
    }
    let page = app.engine.all_accounts(query.page("admin/accounts")?).await?;
    Ok(Json(List::of("admin/accounts", page, AccountView::from)))
}
