use crate::app::App;
use crate::identity::{Caller, Inspect};
use crate::list::{List, ListQuery};
use crate::problem::Problem;
use axum::Json;
use axum::extract::State;
use guerdon_core::coupons::view::CouponView;
use std::sync::Arc;

/// Coupons, in the order of their ids.
#[utoipa::path(
    get, path = "/v1/admin/coupons", tag = "Operators", operation_id = "listCoupons",
    params(("limit" = Option<u16>, Query, description = "1 to 200; 20 unless set"), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = List<CouponView>))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    _caller: Caller<Inspect>,
    query: ListQuery,
) -> Result<Json<List<CouponView>>, Problem> {
    let page = app.engine.all_coupons(query.page("coupons")?).await?;
    let view = |(coupon, count): (_, guerdon_core::coupons::Count)| {
        CouponView::of(&coupon, count.issued, count.epoch)
    };
    Ok(Json(List::of("coupons", page, view)))
}
