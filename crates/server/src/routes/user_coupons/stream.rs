use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use crate::stream::{Frame, changes};
use axum::extract::State;
use axum::response::IntoResponse;
use guerdon_core::coupons::UserCouponId;
use guerdon_core::coupons::view::UserCouponView;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked at again even though nobody said that something became of it.
const LOOK_ANYWAY: Duration = Duration::from_secs(15);

/// A user coupon as server-sent events named `userCoupon`: at once, and when it is decided.
#[utoipa::path(
    get, path = "/v1/user-coupons/{userCouponId}/stream", tag = "Coupons", operation_id = "streamUserCoupon",
    params(("userCouponId" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = String))
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    mut caller: Caller<Participate>,
    Id(id): Id<UserCouponId>,
) -> Result<impl IntoResponse, Problem> {
    let user = caller.sees().cloned();
    app.engine.user_coupon(id, user.as_ref()).await?;
    let look = move |app: Arc<App>| {
        let user = user.clone();
        async move {
            let found = app.engine.user_coupon(id, user.as_ref()).await?;
            let view = UserCouponView::of(&found.held, &found.coupon, app.engine.now());
            let data = serde_json::to_string(&view).unwrap_or_default();
            Ok(Frame { name: "userCoupon", data, last: !found.held.state.is_pending() })
        }
    };
    let changed = move |app: Arc<App>| async move { app.engine.coupon_changed(id, LOOK_ANYWAY).await };
    Ok(changes(app, caller.take_place(), look, changed))
}
