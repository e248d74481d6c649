use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use crate::routes::users::status::UserView;
use axum::Json;
use axum::extract::State;
use guerdon_core::UserId;
use guerdon_core::users::UserStatus;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UserBody {
    status: UserStatus,
}

/// Sets a user's status; a user who is not active is refused at every call, whatever their token says.
#[utoipa::path(
    put, path = "/v1/admin/users/{userId}", tag = "Operators", operation_id = "putUser",
    params(("userId" = String, Path)), request_body = UserBody,
    responses((status = 200, body = UserView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<UserId>,
    json::Json(body): json::Json<UserBody>,
) -> Result<Json<UserView>, Problem> {
    app.engine.set_user_status(caller.actor(), id.clone(), body.status).await?;
    Ok(Json(UserView { user_id: id.into(), status: body.status }))
}
