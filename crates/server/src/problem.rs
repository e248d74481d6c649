//! Refusals and faults as `application/problem+json` (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use guerdon_core::fields::FieldError;
use guerdon_core::idempotency::{Advice, StoredAnswer};
use guerdon_core::{Code, Rejection};
use guerdon_engine::Failure;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Where this server keeps the pages of the codes; a code's page is this and its name.
const PAGES: &str = "/docs/errors/";
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// An error on its way out. The edge renders it, since only the edge knows the request's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
    pub(crate) fields: Vec<FieldError>,
    /// What else the answer says, by name.
    pub(crate) extensions: Vec<(&'static str, Value)>,
    /// What broke, for our log alone.
    pub(crate) cause: Option<String>,
    /// When to come again, where that is known.
    pub(crate) retry_after_s: Option<u64>,
}

/// What a client reads.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody<'a> {
    /// The page of this code.
    r#type: String,
    /// The same for every occurrence of the code.
    title: &'a str,
    status: u16,
    /// What happened in this case.
    detail: &'a str,
    /// Stable, upper snake case: branch on this.
    code: &'a str,
    /// The request's id; it is in our logs.
    instance: &'a str,
    /// Which fields are at fault and why, where the problem is about fields.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<FieldProblem>)]
    fields: &'a [FieldError],
    #[serde(flatten)]
    #[schema(value_type = KeyAdvice)]
    extensions: BTreeMap<&'a str, &'a Value>,
}

/// What a problem says of a call that brought an idempotency key.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[expect(dead_code, reason = "describes what guerdon_core::idempotency::Advice says")]
pub(crate) struct KeyAdvice {
    /// Whether the same call with the same key can still do it, or find out whether it was done.
    retry_with_same_key: Option<bool>,
    /// Whether nothing was done and nothing will be, so that a new key does it no second time.
    safe_new_key: Option<bool>,
    /// `FAILED` where the failure is final and kept under the key.
    transfer_status: Option<String>,
}

/// One field at fault.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes guerdon_core::fields::FieldError")]
pub(crate) struct FieldProblem {
    /// `rewards[0].amount`
    path: String,
    reason: String,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        Self {
            code,
            detail: detail.into(),
            fields: Vec::new(),
            extensions: Vec::new(),
            cause: None,
            retry_after_s: None,
        }
    }

    pub(crate) fn field(path: impl Into<String>, reason: impl Into<String>) -> Self {
        let (path, reason) = (path.into(), reason.into());
        let detail = format!("{path} {reason}");
        Self { fields: vec![FieldError { path, reason }], ..Self::new(Code::InvalidFields, detail) }
    }

    /// Says what the client may do, in answer to a call that brought an idempotency key.
    pub(crate) fn with_key_advice(mut self) -> Self {
        let ours = status_of(self.code).is_server_error();
        let advice = if ours { Advice::SameKey } else { Advice::EitherKey };
        let (same, new) = advice.answers();
        for (name, value) in [("retryWithSameKey", same), ("safeNewKey", new)] {
            if !self.extensions.iter().any(|(known, _)| *known == name) {
                self.extensions.push((name, value.into()));
            }
        }
        self
    }

    fn body(&self, instance: &str) -> Vec<u8> {
        let body = ProblemBody {
            r#type: format!("{PAGES}{}", self.code),
            title: self.code.title(),
            status: status_of(self.code).as_u16(),
            detail: &self.detail,
            code: self.code.as_str(),
            instance,
            fields: &self.fields,
            extensions: self.extensions.iter().map(|(name, value)| (*name, value)).collect(),
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    pub(crate) fn render(&self, request_id: &str) -> Response {
        let status = status_of(self.code);
        let mut response = (status, self.body(request_id)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // One of them is final: to come again with the same key would only say so again.
        if status == StatusCode::SERVICE_UNAVAILABLE && self.code != Code::InventoryConcurrency {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Left without a body: the edge finds the problem among the extensions and renders it.
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = status_of(self.code).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// A refusal as it is kept under an idempotency key, to be given again byte for byte.
pub fn stored_problem(rejection: &Rejection, instance: &str) -> StoredAnswer {
    let problem = Problem::from(rejection.clone());
    let body = String::from_utf8(problem.body(instance)).unwrap_or_default();
    StoredAnswer { status: status_of(rejection.code).as_u16(), body: body.into() }
}

impl From<Rejection> for Problem {
    fn from(rejection: Rejection) -> Self {
        let Rejection { code, detail, fields, extensions } = rejection;
        Self { code, detail, fields, extensions, cause: None, retry_after_s: None }
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let code = failure.code();
        match failure {
            Failure::Rejected(rejection) => rejection.into(),
            Failure::Broken(fault) => {
                Self { cause: Some(fault.to_string()), ..Self::new(code, advice(code)) }
            }
        }
    }
}

/// What a caller can do about a fault; what the fault was is for our log alone.
fn advice(code: Code) -> &'static str {
    match code {
        Code::StoreBusy => "nothing was changed; try again after the time in Retry-After",
        Code::StoreUnavailable => "nothing was changed; the store cannot be reached just now, try again",
        Code::OutcomeUnknown => "look it up before you repeat the call: it may or may not have been done",
        Code::ShuttingDown => "nothing was changed; this server is stopping, ask another or try again",
        _ => "the fault is ours and has been logged under the id in `instance`",
    }
}

pub fn status_of(code: Code) -> StatusCode {
    match code {
        Code::MalformedJson | Code::BadCursor | Code::BadRequest | Code::IdempotencyKeyMissing => {
            StatusCode::BAD_REQUEST
        }
        Code::TokenMissing | Code::TokenInvalid | Code::TokenExpired => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::UserNotActive | Code::AccountForbidden | Code::CsrfRefused => {
            StatusCode::FORBIDDEN
        }
        Code::NotFound
        | Code::EventNotFound
        | Code::RequestNotFound
        | Code::UserNotFound
        | Code::IdempotencyKeyNotFound
        | Code::AccountNotFound
        | Code::TransferNotFound
        | Code::MessageNotFound
        | Code::AllocationNotFound
        | Code::RetryNotFound
        | Code::ClaimNotFound
        | Code::CouponNotFound
        | Code::UserCouponNotFound => StatusCode::NOT_FOUND,
        Code::IdempotencyKeyExpired => StatusCode::GONE,
        Code::RateLimited => StatusCode::TOO_MANY_REQUESTS,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
        Code::EventExists
        | Code::EventTransitionRefused
        | Code::EventFieldFrozen
        | Code::EventNotOpen
        | Code::EventWrongType
        | Code::EventNotReady
        | Code::DrawNotReady
        | Code::IdempotencyHashMismatch
        | Code::CurrencyScaleMismatch
        | Code::NoSink
        | Code::AllocationRefused
        | Code::ClaimInProgress
        | Code::ClaimRefused
        | Code::ValidationFailedUserInactive
        | Code::ValidationFailedEventNotActive
        | Code::ValidationFailedAlreadyClaimed
        | Code::OutOfStock
        | Code::CouponExists
        | Code::CouponNotValid
        | Code::CouponOutOfStock
        | Code::CouponDuplicate
        | Code::CouponAlreadyUsed
        | Code::CouponExpired
        | Code::CouponNotUsable
        | Code::PlayLimitReached => StatusCode::CONFLICT,
        Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::InvalidFields
        | Code::Timeout
        | Code::AccountNotActive
        | Code::CurrencyMismatch
        | Code::InsufficientBalance
        | Code::BalanceOutOfRange
        | Code::TransferNotRefundable
        | Code::ConditionNotMet
        | Code::RefundExceedsTransfer => StatusCode::UNPROCESSABLE_ENTITY,
        Code::ValidationFailedExternalAuth
        | Code::ConditionCheckFailedExternal
        | Code::FailedRolledBack
        | Code::UpstreamFailed
        | Code::NeedsIntervention => StatusCode::BAD_GATEWAY,
        Code::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
        Code::StoreBusy
        | Code::StoreUnavailable
        | Code::OutcomeUnknown
        | Code::ShuttingDown
        | Code::IssuerUnavailable
        | Code::KeysUnavailable
        | Code::Overloaded
        | Code::UpstreamUnavailable
        | Code::InventoryConcurrency => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The problem that stands for an error which the framework answered by itself.
pub(crate) fn of_framework(status: StatusCode) -> Problem {
    match status {
        StatusCode::NOT_FOUND => Problem::new(Code::NotFound, "see /docs for the addresses that there are"),
        StatusCode::METHOD_NOT_ALLOWED => {
            Problem::new(Code::MethodNotAllowed, "see the Allow header for the methods that it takes")
        }
        StatusCode::PAYLOAD_TOO_LARGE => {
            Problem::new(Code::BodyTooLarge, "the body is larger than the limit")
        }
        StatusCode::UNSUPPORTED_MEDIA_TYPE => {
            Problem::new(Code::UnsupportedMediaType, "send Content-Type: application/json")
        }
        StatusCode::REQUEST_TIMEOUT => Problem::new(Code::RequestTimeout, "the request came too slowly"),
        status if status.is_client_error() => Problem::new(Code::BadRequest, "the request cannot be read"),
        _ => Problem::new(Code::InternalError, advice(Code::InternalError)),
    }
}
