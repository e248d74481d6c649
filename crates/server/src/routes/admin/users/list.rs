use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::users::UserStatus;
use guerdon_core::{Timestamp, UserId};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A user whom the registry knows.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RegisteredUser {
    #[schema(value_type = String)]
    user_id: UserId,
    status: UserStatus,
    #[schema(value_type = i64)]
    updated_at: Timestamp,
}

/// Users whom the registry knows, in the order of their ids. A filtered page may come back short with a `nextCursor`.
#[utoipa::path(
    get, path = "/v1/admin/users", tag = "Operators", operation_id = "listUsers",
    params(
        ("status" = Option<UserStatus>, Query),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<RegisteredUser>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<RegisteredUser>>, Problem> {
    let status = query.one_of("status", UserStatus::parse)?;
    let name = format!("admin/users/{}", status.map_or("all", UserStatus::as_str));
    let page = app.engine.registered_users(status, query.page(&name)?).await?;
    let view = |(user_id, status, updated_at)| RegisteredUser { user_id, status, updated_at };
    Ok(Json(List::of(&name, page, view)))
}
