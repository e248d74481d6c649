use super::OrderBody;
use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::json;
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::coupons::UserCouponId;
use guerdon_core::coupons::view::UserCouponView;
use std::sync::Arc;

/// Gives a coupon back whose order was called off. The same order again changes nothing.
#[utoipa::path(
    post, path = "/v1/user-coupons/{userCouponId}/cancel-use", tag = "Coupons", operation_id = "cancelCouponUse",
    params(("userCouponId" = String, Path)), request_body = OrderBody,
    responses((status = 200, body = UserCouponView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(id): Id<UserCouponId>,
    json::Json(body): json::Json<OrderBody>,
) -> Result<Json<UserCouponView>, Problem> {
    let moved = app.engine.cancel_coupon_use(id, Some(caller.user_id()), body.order()?).await?;
    Ok(Json(UserCouponView::of(&moved.held, &moved.coupon, app.engine.now())))
}
