use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::coupons::view::UserCouponView;
use std::sync::Arc;

/// The caller's coupons, the newest first.
#[utoipa::path(
    get, path = "/v1/me/coupons", tag = "Coupons", operation_id = "listMyCoupons",
    params(("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<UserCouponView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    query: ListQuery,
) -> Result<Json<List<UserCouponView>>, Problem> {
    let page = app.engine.coupons_of(caller.user_id(), query.page("me/coupons")?).await?;
    let now = app.engine.now();
    Ok(Json(List::of("me/coupons", page, |(held, coupon)| UserCouponView::of(&held, &coupon, now))))
}
