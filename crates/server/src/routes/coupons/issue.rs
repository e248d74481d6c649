use crate::app::App;
use crate::identity::{Caller, Participate};
use crate::json;
use crate::once::Key;
use crate::path::Id;
use crate::prefer::Patience;
use crate::problem::Problem;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use guerdon_core::CouponId;
use guerdon_core::coupons::view::UserCouponView;
use guerdon_core::coupons::{State as Standing, refusal};
use guerdon_core::idempotency::Advice;
use std::sync::Arc;

/// Asks for a coupon, once for each key: 201 with the coupon; 202 while Redis has yet to count it (`Prefer: wait=N` holds
/// the answer until it has); 409 where nothing is left or the user has as many as one can have.
#[utoipa::path(
    post, path = "/v1/coupons/{couponId}/issue", tag = "Coupons", operation_id = "issueCoupon",
    params(
        ("couponId" = String, Path),
        ("Idempotency-Key" = String, Header, description = "Of the caller's choice: 1 to 128 visible ASCII characters"),
        ("Prefer" = Option<String>, Header, description = "`wait=N`: how many seconds to wait for the decision")
    ),
    responses(
        (status = 201, body = UserCouponView, headers(("Location" = String))),
        (status = 202, body = UserCouponView, headers(("Location" = String)))
    )
)]
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    caller: Caller<Participate>,
    Id(coupon_id): Id<CouponId>,
    Key(key): Key,
    Patience(wait): Patience,
) -> Result<Response, Problem> {
    let user = caller.user_id().clone();
    let issued = app.engine.issue_coupon(&coupon_id, user, key, wait.unwrap_or_default()).await;
    let issued = issued.map_err(|failure| Problem::from(failure).with_key_advice())?;
    let view = UserCouponView::of(&issued.held, &issued.coupon, app.engine.now());
    let status = match &issued.held.state {
        Standing::Pending => StatusCode::ACCEPTED,
        Standing::Rejected { why, .. } => {
            let rejection = Advice::NewKey.on(refusal(&issued.coupon, *why));
            let shown = serde_json::to_value(&view).unwrap_or_default();
            return Err(rejection.saying("userCoupon", shown).into());
        }
        _ => StatusCode::CREATED,
    };
    let location = format!("/v1/user-coupons/{}", issued.held.id);
    Ok((status, [(header::LOCATION, location)], json::answer(&view)).into_response())
}
