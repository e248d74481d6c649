//! Ids and keys: of their alphabet and length, and written in the way they are read.

use crate::{lines, says_why};
use guerdon_core::allocations::AllocationId;
use guerdon_core::coupons::UserCouponId;
use guerdon_core::entries::Day;
use guerdon_core::hash::Hash;
use guerdon_core::outbox::MessageId;
use guerdon_core::requests::RequestId;
use guerdon_core::wallet::{AccountId, TransferId};
use guerdon_core::{ClaimKey, CouponId, Currency, EventId, IdempotencyKey, RewardId, UserId};
use serde_json::{from_value, json};

pub(crate) fn hold(data: &[u8]) {
    let Some([text]) = lines(data) else { return };
    macro_rules! texts {
        ($($id:ident at least $least:literal, at most $most:literal, $fits:expr;)+) => { $({
            let read = $id::parse(text);
            let fits: fn(u8) -> bool = $fits;
            let sound = ($least..=$most).contains(&text.len()) && text.bytes().all(fits);
            assert_eq!(read.is_ok(), sound, "{} {text:?}", stringify!($id));
            match read {
                Ok(id) => {
                    assert_eq!(id.as_str(), text);
                    assert_eq!(id.to_string(), text);
                    assert_eq!(json!(id), json!(text));
                    assert_eq!(from_value::<$id>(json!(text)).unwrap(), id);
                }
                Err(reason) => {
                    says_why(&reason);
                    assert!(from_value::<$id>(json!(text)).is_err());
                }
            }
        })+ };
    }
    texts! {
        EventId at least 1, at most 64, |byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
        RewardId at least 1, at most 64, |byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
        CouponId at least 1, at most 64, |byte| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
        UserId at least 1, at most 128, |byte| (b'!'..=b'~').contains(&byte) && !b"#/".contains(&byte);
        Currency at least 1, at most 16, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit();
        IdempotencyKey at least 1, at most 128, |byte| (b'!'..=b'~').contains(&byte);
        ClaimKey at least 8, at most 128, |byte| (b'!'..=b'~').contains(&byte);
    }
    macro_rules! uuids {
        ($($id:ident)+) => { $(
            if let Some(id) = $id::parse(text) {
                assert_eq!($id::parse(&id.to_string()), Some(id));
                assert_eq!($id::from_bytes(*id.as_bytes()), id);
                let digits = |text: &str| text.to_lowercase().replace(['-', '{', '}'], "").replace("urn:uuid:", "");
                assert_eq!(digits(text), digits(&id.to_string()), "no digit is lost");
            }
        )+ };
    }
    uuids! { AllocationId UserCouponId MessageId RequestId TransferId }
    if let Some(account) = AccountId::parse(text) {
        assert_eq!(account.to_string(), text, "numbers are written in one way");
        assert!(account.number() > 0);
    }
    if let Some(day) = Day::parse(text) {
        assert_eq!(Day::from_number(day.number()).to_string(), text, "days are written in one way");
        assert!(day.plus(1) > day && day.plus(1).plus(-1) == day);
    }
    if let Some(hash) = Hash::parse(text) {
        assert_eq!(hash.to_string(), text.to_ascii_lowercase());
        assert_eq!(Hash::from_bytes(*hash.as_bytes()), hash);
    }
}
