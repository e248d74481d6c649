use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::CouponId;
use guerdon_core::coupons::view::PublicCouponView;
use std::sync::Arc;

/// A coupon as participants see it, and how many are left as the store has it.
#[utoipa::path(
    get, path = "/v1/coupons/{couponId}", tag = "Coupons", operation_id = "getPublicCoupon",
    params(("couponId" = String, Path)),
    responses((status = 200, body = PublicCouponView))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Participate>,
    Id(id): Id<CouponId>,
) -> Result<Json<PublicCouponView>, Problem> {
    let (coupon, count) = app.engine.counted_coupon(&id).await?;
    Ok(Json(PublicCouponView::of(&coupon, count.issued)))
}
