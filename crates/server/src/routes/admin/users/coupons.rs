use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::path::Id;
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::UserId;
use guerdon_core::coupons::view::UserCouponView;
use std::sync::Arc;

/// A user's coupons, the newest first.
#[utoipa::path(
    get, path = "/v1/admin/users/{userId}/coupons", tag = "Operators", operation_id = "listUserCoupons",
    params(
        ("userId" = String, Path),
        ("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)
    ),
    responses((status = 200, body = List<UserCouponView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    Id(user): Id<UserId>,
    query: ListQuery,
) -> Result<Json<List<UserCouponView>>, Problem> {
    let name = format!("admin/users/{user}/coupons");
    let page = app.engine.coupons_of(&user, query.page(&name)?).await?;
    let now = app.engine.now();
    Ok(Json(List::of(&name, page, |(held, coupon)| UserCouponView::of(&held, &coupon, now))))
}
