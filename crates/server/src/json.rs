//! Bodies: read whole within their limits, and refused with the place of what is wrong.

use crate::app::App;
use crate::problem::Problem;
use crate::strict::Strict;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use guerdon_core::Code;
use http_body_util::BodyExt;
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use std::sync::Arc;
use std::time::Duration;

const DISCARDED_BYTES_MAX: usize = 8 << 20;

/// A JSON body of this shape.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        must_be_json(&parts.headers)?;
        let whole = read(&parts.headers, body, app.http.body_bytes_max, app.http.body_timeout).await?;
        parse(&whole).map(Self)
    }
}

/// A body that was read already, as this shape.
pub(crate) fn of<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    must_be_json(headers)?;
    parse(body)
}

/// Most answers fit in this, so that writing one allocates once.
const ANSWER_BYTES: usize = 1024;

/// A JSON answer.
pub(crate) fn answer(value: &impl Serialize) -> Response {
    let mut text = Vec::with_capacity(ANSWER_BYTES);
    match serde_json::to_writer(&mut text, value) {
        Ok(()) => ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], text).into_response(),
        Err(error) => {
            let mut problem = Problem::new(Code::InternalError, "the answer could not be written");
            problem.cause = Some(error.to_string());
            problem.into_response()
        }
    }
}

fn must_be_json(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Problem::new(Code::UnsupportedMediaType, "send Content-Type: application/json"))
}

/// A body that is no larger than it may be, and comes in time.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    timeout: Duration,
) -> Result<Bytes, Problem> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let within_limit = announced.is_none_or(|length| length <= limit);
    let too_large = || Problem::new(Code::BodyTooLarge, format!("the body must be at most {limit} bytes"));
    // A client that asks first, or announces more than we would ever discard, is told at once.
    let hopeless =
        announced.is_some_and(|length| length > DISCARDED_BYTES_MAX) || headers.contains_key(EXPECT);
    if !within_limit && hopeless {
        return Err(too_large());
    }
    match tokio::time::timeout(timeout, collect(body, limit, within_limit)).await {
        Err(_) if !within_limit => Err(too_large()),
        Err(_) => Err(Problem::new(Code::RequestTimeout, format!("the body must arrive within {timeout:?}"))),
        Ok(outcome) => outcome,
    }
}

/// Reads the body as far as the limit. What is beyond is read and thrown away, up to a point: a client that is still
/// sending would otherwise see a broken connection and never our answer.
async fn collect(mut body: Body, limit: usize, mut within_limit: bool) -> Result<Bytes, Problem> {
    let mut whole = BytesMut::new();
    let mut discarded = 0;
    while let Some(frame) = body.frame().await {
        let broken = |_| Problem::new(Code::BadRequest, "the body ended before it was whole");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        within_limit = within_limit && whole.len() + data.len() <= limit;
        if within_limit {
            whole.extend_from_slice(&data);
        } else {
            discarded += data.len();
            if discarded > DISCARDED_BYTES_MAX {
                break;
            }
        }
    }
    if within_limit {
        Ok(whole.freeze())
    } else {
        Err(Problem::new(Code::BodyTooLarge, format!("the body must be at most {limit} bytes")))
    }
}

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| Problem::new(Code::MalformedJson, "the body is not UTF-8"))?;
    if has_reserved_key(text) {
        return Err(Problem::field("body", "must not use names that begin with $serde_json"));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(Strict(&mut json)).map_err(|error| {
        // A field is only at fault in a body that is JSON to its end.
        match serde_json::from_slice::<IgnoredAny>(bytes) {
            Ok(_) => refusal(&error),
            Err(error) => Problem::new(Code::MalformedJson, place(&error)),
        }
    })?;
    json.end().map_err(|error| Problem::new(Code::MalformedJson, place(&error)))?;
    Ok(value)
}

/// The field at fault, in a body that is known to be JSON.
fn refusal(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let path = if path == "." { "body".into() } else { path };
    let inner = error.inner();
    if inner.classify() != Category::Data {
        return Problem::new(Code::MalformedJson, place(inner));
    }
    // The parser adds where in the text; the path says it better. Nor do the names of our types help anybody.
    let text = inner.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    if let Some(field) = reason.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        let path = if path == "body" { field.to_owned() } else { format!("{path}.{field}") };
        return Problem::field(path, "is required");
    }
    match reason.split_once("expected struct ") {
        Some((before, _)) => Problem::field(path, format!("is not acceptable: {before}expected an object")),
        None => Problem::field(path, format!("is not acceptable: {reason}")),
    }
}

/// The JSON library keeps objects with such a key for numbers of its own; stored, they could not be read back.
fn has_reserved_key(text: &str) -> bool {
    const RESERVED: &str = "$serde_json";
    // Written with escapes it takes a closer look.
    text.contains(RESERVED) || (text.contains("\\u") && unescaped(text).contains(RESERVED))
}

/// The text with every `\\uXXXX` of a plain ASCII character written out.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("\\u") {
        plain.push_str(&rest[..start]);
        let digits = rest.get(start + 2..start + 6);
        let character = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(u8::is_ascii);
        match character {
            Some(character) => {
                plain.push(char::from(character));
                rest = &rest[start + 6..];
            }
            None => {
                plain.push_str("\\u");
                rest = &rest[start + 2..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn place(error: &serde_json::Error) -> String {
    format!("the body is not JSON: {error}")
}

/// What somebody has to say about what they do.
pub(crate) fn note(text: &str, most: usize) -> Result<String, Problem> {
    let note = text.trim();
    if note.is_empty() || note.chars().count() > most || note.contains('\0') {
        let reason = format!("must have 1 to {most} characters, none of them NUL");
        return Err(Problem::field("note", reason));
    }
    Ok(note.to_owned())
}

#[cfg(test)]
mod tests {
    use super::has_reserved_key;

    #[test]
    fn reserved_keys_are_found_however_they_are_written() {
        for (text, reserved) in [
            (r#"{"$serde_json::private::Number": "1"}"#, true),
            (r#"{"\u0024serde_json::private::Number": "1"}"#, true),
            (r#"{"\u0024\u0073erde_json": "1"}"#, true),
            (r#"{"price": "\u0024 5", "name": "\uc774"}"#, false),
            (r#"{"broken": "\u00"#, false),
        ] {
            assert_eq!(has_reserved_key(text), reserved, "{text}");
        }
    }
}
