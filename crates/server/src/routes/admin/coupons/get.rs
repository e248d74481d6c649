use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::CouponId;
use guerdon_core::coupons::view::CouponView;
use std::sync::Arc;

/// A coupon, and how many of it are issued.
#[utoipa::path(
    get, path = "/v1/admin/coupons/{couponId}", tag = "Operators", operation_id = "getCoupon",
    params(("couponId" = String, Path)),
    responses((status = 200, body = CouponView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<CouponId>,
) -> Result<Json<CouponView>, Problem> {
    let (coupon, count) = app.engine.counted_coupon(&id).await?;
    Ok(Json(CouponView::of(&coupon, count.issued, count.epoch)))
}
