//! `/v1/admin/users/{userId}/activity`

pub(crate) mod get;
pub(crate) mod put;

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// What is known of what a user did.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ActivityView {
    user_id: String,
    #[schema(value_type = Object)]
    activity: Map<String, Value>,
}
