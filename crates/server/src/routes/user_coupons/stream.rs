use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::path::Id;
use crate::problem::Problem;
use crate::stream::{Frame, Shown, changes};
use axum::extract::State;
use axum::response::IntoResponse;
use guerdon_core::UserId;
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
    Ok(changes(app, caller.take_place(), OneCoupon { id, user }))
}

struct OneCoupon {
    id: UserCouponId,
    /// Whose it has to be; anybody's for an operator.
    user: Option<UserId>,
}

impl Shown for OneCoupon {
    async fn look(&mut self, app: &App) -> Result<Frame, Problem> {
        let found = app.engine.user_coupon(self.id, self.user.as_ref()).await?;
        let view = UserCouponView::of(&found.held, &found.coupon, app.engine.now());
        let data = serde_json::to_string(&view).unwrap_or_default();
        Ok(Frame { name: "userCoupon", data, last: !found.held.state.is_pending() })
    }

    async fn changed(&mut self, app: &App) {
        app.engine.coupon_changed(self.id, LOOK_ANYWAY).await;
    }
}
