//! Calls that are done once: the idempotency key that they bring, and the answer that is kept under it.

use crate::edge::OwnBody;
use crate::json;
use crate::problem::{PROBLEM_JSON, Problem};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use guerdon_core::idempotency::{Advice, InProgress, StoredAnswer};
use guerdon_core::{ClaimKey, Code, IdempotencyKey, Rejection};
use guerdon_engine::{Carried, Failure};

/// Both are the same header to us.
const HEADERS: [&str; 2] = ["idempotency-key", "x-idempotency-key"];

/// The key that a call brings in `Idempotency-Key`.
pub(crate) struct Key(pub(crate) IdempotencyKey);

impl<S: Sync> FromRequestParts<S> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        key(parts).map(Self)
    }
}

pub(crate) fn key(parts: &Parts) -> Result<IdempotencyKey, Problem> {
    IdempotencyKey::parse(text(parts)?).map_err(bad_key)
}

/// The key of a claim, which is longer.
pub(crate) struct OfClaim(pub(crate) ClaimKey);

impl<S: Sync> FromRequestParts<S> for OfClaim {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        ClaimKey::parse(text(parts)?).map(Self).map_err(bad_key)
    }
}

fn bad_key(reason: String) -> Problem {
    Problem::field("Idempotency-Key", reason)
}

/// What the call's one header of this kind says.
fn text(parts: &Parts) -> Result<&str, Problem> {
    let mut values = HEADERS.iter().flat_map(|name| parts.headers.get_all(*name));
    let Some(value) = values.next() else {
        let rejection = Rejection::new(Code::IdempotencyKeyMissing, "send an Idempotency-Key");
        return Err(Advice::NewKey.on(rejection).into());
    };
    if values.next().is_some() {
        return Err(bad_key("must be there once".into()));
    }
    let text = value.to_str().unwrap_or_default();
    // Some clients write it as a quoted string.
    Ok(text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text))
}

/// The answer to a call that brought a key: the one that is stored, byte for byte, or that somebody is at it.
pub(crate) fn answer(carried: Result<Carried, Failure>) -> Result<Response, Problem> {
    match carried.map_err(|failure| Problem::from(failure).with_key_advice())? {
        Carried::InProgress => Ok((StatusCode::ACCEPTED, json::answer(&InProgress::VIEW)).into_response()),
        Carried::Answered(answer) => Ok(replay(&answer)),
    }
}

fn replay(answer: &StoredAnswer) -> Response {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = if status.is_success() { "application/json" } else { PROBLEM_JSON };
    let mut response = (status, answer.body.to_string()).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.extensions_mut().insert(OwnBody);
    response
}
