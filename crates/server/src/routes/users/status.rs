use crate::app::App;
use crate::identity::{Caller, LookUpUsers};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::UserId;
use guerdon_core::users::UserStatus;
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

/// A user's status in the registry.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserView {
    pub(crate) user_id: String,
    pub(crate) status: UserStatus,
}

/// Whether a user is active, for the services of the house.
#[utoipa::path(
    get, path = "/v1/users/{userId}/status", tag = "Users", operation_id = "getUserStatus",
    params(("userId" = String, Path)),
    responses((status = 200, body = UserView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<LookUpUsers>,
    Id(id): Id<UserId>,
) -> Result<Json<UserView>, Problem> {
    let status = app.engine.user_status(&id).await?;
    Ok(Json(UserView { user_id: id.into(), status }))
}
