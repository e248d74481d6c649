use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::list::{List, ListQuery};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::wallet::AccountId;
use guerdon_core::wallet::view::EntryView;
use std::sync::Arc;

/// An account's statement: what went in and out and what it held after that, the newest first.
#[utoipa::path(
    get, path = "/v1/accounts/{accountId}/entries", tag = "Wallet", operation_id = "listEntries",
    params(
        ("accountId" = i64, Path),
        ("at" = Option<i64>, Query, description = "Only entries up to then, in epoch milliseconds"),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<EntryView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(id): Id<AccountId>,
    query: ListQuery,
) -> Result<Json<List<EntryView>>, Problem> {
    let (at, name) = (query.time("at")?, format!("accounts/{id}/entries"));
    let page = app.engine.entries(id, caller.sees(), at, query.page(&name)?).await?;
    Ok(Json(List::of(&name, page, |entry| entry)))
}
