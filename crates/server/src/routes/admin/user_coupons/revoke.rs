use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::coupons::UserCouponId;
use guerdon_core::coupons::view::UserCouponView;
use serde::Deserialize;
use std::sync::Arc;
use utoipa::ToSchema;

const NOTE_MAX: usize = 1_000;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RevokeBody {
    /// Why.
    note: String,
}

/// Takes a coupon back that nobody has used; it can be issued again.
#[utoipa::path(
    post, path = "/v1/admin/user-coupons/{userCouponId}/revoke", tag = "Operators", operation_id = "revokeUserCoupon",
    params(("userCouponId" = String, Path)), request_body = RevokeBody,
    responses((status = 200, body = UserCouponView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    Id(id): Id<UserCouponId>,
    json::Json(body): json::Json<RevokeBody>,
) -> Result<Json<UserCouponView>, Problem> {
    let note = json::note(&body.note, NOTE_MAX)?;
    let moved = app.engine.revoke_coupon(caller.actor(), id, note).await?;
    Ok(Json(UserCouponView::for_operators(&moved.held, &moved.coupon, app.engine.now())))
}
