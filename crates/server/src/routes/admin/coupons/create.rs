use crate::app::App;
use crate::identity::{Caller, Operate};
use crate::json;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use guerdon_core::coupons::CouponBody;
use guerdon_core::coupons::view::CouponView;
use std::sync::Arc;

/// Makes a coupon. It does not change afterwards.
#[utoipa::path(
    post, path = "/v1/admin/coupons", tag = "Operators", operation_id = "createCoupon", request_body = CouponBody,
    responses((status = 201, body = CouponView, headers(("Location" = String))))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Operate>,
    json::Json(body): json::Json<CouponBody>,
) -> Result<impl IntoResponse, Problem> {
    let coupon = app.engine.create_coupon(caller.actor(), body).await?;
    let location = format!("/v1/admin/coupons/{}", coupon.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(CouponView::of(&coupon, 0, 0))))
}
