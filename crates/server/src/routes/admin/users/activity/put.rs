use super::ActivityView;
use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::UserId;
use guerdon_core::events::condition::check_activity;
use serde_json::{Map, Value};
use std::sync::Arc;

/// Sets what is known of a user's activity, all of it, for the conditions of claims to be judged by.
#[utoipa::path(
    put, path = "/v1/admin/users/{userId}/activity", tag = "Operators", operation_id = "putActivity",
    params(("userId" = String, Path)), request_body = Object,
    responses((status = 200, body = ActivityView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<UserId>,
    json::Json(activity): json::Json<Map<String, Value>>,
) -> Result<Json<ActivityView>, Problem> {
    check_activity(&activity).map_err(|reason| Problem::field("body", reason))?;
    app.engine.set_user_activity(caller.actor(), id.clone(), activity.clone()).await?;
    Ok(Json(ActivityView { user_id: id.into(), activity }))
}
