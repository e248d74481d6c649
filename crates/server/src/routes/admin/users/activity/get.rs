use super::ActivityView;
use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::UserId;
use std::sync::Arc;

/// What is known of a user's activity; nothing, unless somebody said so.
#[utoipa::path(
    get, path = "/v1/admin/users/{userId}/activity", tag = "Operators", operation_id = "getActivity",
    params(("userId" = String, Path)),
    responses((status = 200, body = ActivityView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<UserId>,
) -> Result<Json<ActivityView>, Problem> {
    let activity = app.engine.user_activity(&id).await?;
    Ok(Json(ActivityView { user_id: id.into(), activity }))
}
