//! Ids in addresses. One that could not exist does not.

use crate::app::App;
use crate::problem::Problem;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use guerdon_core::allocations::AllocationId;
use guerdon_core::coupons::UserCouponId;
use guerdon_core::outbox::MessageId;
use guerdon_core::requests::RequestId;
use guerdon_core::wallet::{AccountId, TransferId};
use guerdon_core::{ClaimKey, Code, CouponId, EventId, UserId};
use std::sync::Arc;

/// An id that an address ends in or goes through.
pub(crate) struct Id<T>(pub(crate) T);

/// What can stand in an address.
pub(crate) trait Addressed: Sized {
    fn parse(text: &str) -> Option<Self>;
    fn not_found() -> Problem;
}

impl Addressed for EventId {
    fn parse(text: &str) -> Option<Self> {
        EventId::parse(text).ok()
    }

    fn not_found() -> Problem {
        Problem::new(Code::EventNotFound, "no event can have this id")
    }
}

impl Addressed for UserId {
    fn parse(text: &str) -> Option<Self> {
        UserId::parse(text).ok()
    }

    fn not_found() -> Problem {
        Problem::new(Code::UserNotFound, "no user can have this id")
    }
}

impl Addressed for RequestId {
    fn parse(text: &str) -> Option<Self> {
        RequestId::parse(text)
    }

    fn not_found() -> Problem {
        Problem::new(Code::RequestNotFound, "no request can have this id")
    }
}

impl Addressed for MessageId {
    fn parse(text: &str) -> Option<Self> {
        MessageId::parse(text)
    }

    fn not_found() -> Problem {
        Problem::new(Code::MessageNotFound, "no message can have this id")
    }
}

impl Addressed for AllocationId {
    fn parse(text: &str) -> Option<Self> {
        AllocationId::parse(text)
    }

    fn not_found() -> Problem {
        Problem::new(Code::AllocationNotFound, "no allocation can have this id")
    }
}

impl Addressed for ClaimKey {
    fn parse(text: &str) -> Option<Self> {
        ClaimKey::parse(text).ok()
    }

    fn not_found() -> Problem {
        Problem::new(Code::ClaimNotFound, "no claim can have this id")
    }
}

impl Addressed for CouponId {
    fn parse(text: &str) -> Option<Self> {
        CouponId::parse(text).ok()
    }

    fn not_found() -> Problem {
        Problem::new(Code::CouponNotFound, "no coupon can have this id")
    }
}

impl Addressed for UserCouponId {
    fn parse(text: &str) -> Option<Self> {
        UserCouponId::parse(text)
    }

    fn not_found() -> Problem {
        Problem::new(Code::UserCouponNotFound, "no user coupon can have this id")
    }
}

/// A retry of many allocations.
pub(crate) struct RetryId(pub(crate) RequestId);

impl Addressed for RetryId {
    fn parse(text: &str) -> Option<Self> {
        RequestId::parse(text).map(Self)
    }

    fn not_found() -> Problem {
        Problem::new(Code::RetryNotFound, "no retry can have this id")
    }
}

impl Addressed for AccountId {
    fn parse(text: &str) -> Option<Self> {
        AccountId::parse(text)
    }

    fn not_found() -> Problem {
        Problem::new(Code::AccountNotFound, "no account can have this number")
    }
}

impl Addressed for TransferId {
    fn parse(text: &str) -> Option<Self> {
        TransferId::parse(text)
    }

    fn not_found() -> Problem {
        Problem::new(Code::TransferNotFound, "no transfer can have this id")
    }
}

/// Two ids, in the order of the address.
pub(crate) struct Pair<A, B>(pub(crate) A, pub(crate) B);

impl<A: Addressed, B: Addressed> FromRequestParts<Arc<App>> for Pair<A, B> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let path = Path::<(String, String)>::from_request_parts(parts, app).await;
        let Path((first, second)) =
            path.map_err(|_| Problem::new(Code::BadRequest, "the address is not UTF-8"))?;
        let first = A::parse(&first).ok_or_else(A::not_found)?;
        Ok(Self(first, B::parse(&second).ok_or_else(B::not_found)?))
    }
}

impl<T: Addressed> FromRequestParts<Arc<App>> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, app).await;
        let Path(text) = path.map_err(|_| Problem::new(Code::BadRequest, "the address is not UTF-8"))?;
        T::parse(&text).map(Self).ok_or_else(T::not_found)
    }
}
