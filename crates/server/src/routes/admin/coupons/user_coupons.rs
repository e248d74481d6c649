use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::CouponId;
use guerdon_core::coupons::UserCouponStatus;
use guerdon_core::coupons::view::UserCouponView;
use std::sync::Arc;

/// Who has a coupon or asked for it, the newest first. A filtered page may come back short with a `nextCursor`.
#[utoipa::path(
    get, path = "/v1/admin/coupons/{couponId}/user-coupons", tag = "Operators", operation_id = "listUserCoupons",
    params(
        ("couponId" = String, Path),
        ("status" = Option<UserCouponStatus>, Query, description = "Only those that stand there"),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<UserCouponView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(id): Id<CouponId>,
    query: ListQuery,
) -> Result<Json<List<UserCouponView>>, Problem> {
    let status = query.one_of("status", UserCouponStatus::parse)?;
    let name = format!("coupons/{id}/{}", status.map_or("", UserCouponStatus::as_str));
    let page = app.engine.holders_of(&id, status, query.page(&name)?).await?;
    let now = app.engine.now();
    Ok(Json(List::of(&name, page, |(held, coupon)| UserCouponView::for_operators(&held, &coupon, now))))
}
