use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::UserId;
use guerdon_core::requests::RequestView;
use std::sync::Arc;

/// A user's requests, the newest first.
#[utoipa::path(
    get, path = "/v1/admin/users/{userId}/requests", tag = "Operators", operation_id = "listUserRequests",
    params(
        ("userId" = String, Path),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<RequestView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(user): Id<UserId>,
    query: ListQuery,
) -> Result<Json<List<RequestView>>, Problem> {
    let name = format!("admin/users/{user}/requests");
    let page = app.engine.requests_of(&user, None, query.page(&name)?).await?;
    let now = app.engine.now();
    Ok(Json(List::of(&name, page, |shown| shown.view(now))))
}
