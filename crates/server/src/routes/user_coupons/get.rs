use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::coupons::UserCouponId;
use guerdon_core::coupons::view::UserCouponView;
use std::sync::Arc;

/// One of the caller's coupons, or one that they asked for; anybody else's does not exist for them.
#[utoipa::path(
    get, path = "/v1/user-coupons/{userCouponId}", tag = "Coupons", operation_id = "getUserCoupon",
    params(("userCouponId" = String, Path)),
    responses((status = 200, body = UserCouponView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(id): Id<UserCouponId>,
) -> Result<Json<UserCouponView>, Problem> {
    let found = app.engine.user_coupon(id, caller.sees()).await?;
    Ok(Json(UserCouponView::of(&found.held, &found.coupon, app.engine.now())))
}
