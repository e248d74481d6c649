//! What an id can be found to be.

use serde::Serialize;
use utoipa::ToSchema;

crate::named::named! {
    HitKind {
        Event "EVENT",
        Request "REQUEST",
        Claim "CLAIM",
        Allocation "ALLOCATION",
        Coupon "COUPON",
        UserCoupon "USER_COUPON",
        Transfer "TRANSFER",
        Account "ACCOUNT",
        Message "MESSAGE",
        User "USER",
        IdempotencyKey "IDEMPOTENCY_KEY",
    }
}

/// One thing that the id is the id of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Hit {
    pub kind: HitKind,
    /// Its own id, which may be another than the one that was looked for: a key leads to what was done under it.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
}

impl Hit {
    pub fn new(kind: HitKind, id: String) -> Self {
        Self { kind, id, name: None, status: None, event_id: None, user_id: None }
    }

    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    #[must_use]
    pub fn status(mut self, status: &str) -> Self {
        self.status = Some(status.into());
        self
    }

    #[must_use]
    pub fn event(mut self, id: &str) -> Self {
        self.event_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn user(mut self, id: &str) -> Self {
        self.user_id = Some(id.into());
        self
    }
}
