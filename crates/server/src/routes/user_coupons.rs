//! `/v1/user-coupons`

pub(crate) mod cancel_use;
pub(crate) mod get;
pub(crate) mod stream;
pub(crate) mod r#use;

use crate::problem::Problem;
use guerdon_core::coupons::check_order;
use serde::Deserialize;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OrderBody {
    /// The order that the coupon is used for: 1 to 128 visible ASCII characters.
    order_id: String,
}

impl OrderBody {
    fn order(self) -> Result<String, Problem> {
        check_order(&self.order_id).map_err(|reason| Problem::field("orderId", reason))?;
        Ok(self.order_id)
    }
}
