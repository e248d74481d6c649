//! The other bodies of calls, and JSON itself: what is kept of it can be read again.

use crate::says_why;
use guerdon_core::coupons::CouponBody;
use guerdon_core::wallet::{AccountBody, DepositBody, RefundBody, TransferBody, Wish};
use guerdon_core::{Rejection, Timestamp};
use guerdon_server::untrusted::body;
use serde_json::{Map, Value};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) fn hold(data: &[u8]) {
    match body::<Value>(data) {
        Ok(value) => {
            let stored = value.to_string();
            assert_eq!(serde_json::from_str::<Value>(&stored).expect("it can be read again"), value);
            assert_eq!(body::<Value>(stored.as_bytes()), Ok(value), "also by us");
        }
        Err(reason) => {
            says_why(&reason);
            assert!(body::<Map<String, Value>>(data).is_err(), "what is no JSON is no object");
        }
    }
    if let Some(order) = read(data, TransferBody::validate) {
        assert!(order.from != order.to && order.from.number() > 0 && order.to.number() > 0);
        assert!(order.amount.is_positive());
        let wish = Wish::Transfer(order);
        let again = format!(
            "{{\"amount\": {}, \"toAccountId\": {}, \"fromAccountId\": {}}}",
            order.amount, order.to, order.from
        );
        let again = read(again.as_bytes(), TransferBody::validate).map(Wish::Transfer);
        assert_eq!(
            again.map(|wish| wish.fingerprint()),
            Some(wish.fingerprint()),
            "one wish, one fingerprint"
        );
    }
    if let Some(amount) = read(data, DepositBody::validate) {
        assert!(amount.is_positive());
    }
    if let Some(Some(amount)) = read(data, RefundBody::validate) {
        assert!(amount.is_positive());
    }
    if let Some(account) = read(data, AccountBody::validate) {
        assert!(account.scale.is_none_or(|scale| scale <= 4));
    }
    if let Some(coupon) = read(data, |coupon: CouponBody| coupon.validate(NOW)) {
        assert!(coupon.valid_from < coupon.valid_until && coupon.total_quantity > 0);
        assert!(coupon.per_user_limit > 0 && !coupon.name.trim().is_empty());
    }
}

fn read<T: serde::de::DeserializeOwned, V>(
    data: &[u8],
    validate: impl Fn(T) -> Result<V, Rejection>,
) -> Option<V> {
    match body(data).map(validate) {
        Ok(Ok(valid)) => return Some(valid),
        Ok(Err(rejection)) => {
            says_why(&rejection.detail);
            assert!(!rejection.fields.is_empty(), "{rejection}");
        }
        Err(reason) => says_why(&reason),
    }
    None
}
