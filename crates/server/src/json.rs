//! Bodies: read whole within their limits, and refused with the place of what is wrong.

use crate::app::App;
use crate::problem::Problem;
use crate::strict::Strict;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use guerdon_core::Code;
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use std::sync::Arc;

const DISCARDED_BYTES_MAX: usize = 8 << 20;

/// A JSON body of this shape.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(Code::UnsupportedMediaType, "send Content-Type: application/json"));
        }
        let (parts, body) = request.into_parts();
        parse(&read(&parts.headers, body, app).await?).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(value)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

async fn read(headers: &HeaderMap, body: Body, app: &App) -> Result<Bytes, Problem> {
    let limit = app.http.body_bytes_max;
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let within_limit = announced.is_none_or(|length| length <= limit);
    match tokio::time::timeout(app.http.body_timeout, collect(body, limit, within_limit)).await {
        Err(_) => Err(Problem::new(
            Code::RequestTimeout,
            format!("the body must arrive within {:?}", app.http.body_timeout),
        )),
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

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
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
        return Problem::field(path, "has a value of the wrong type");
    }
    // The parser adds where in the text; the path says it better. Nor do the names of our types help anybody.
    let text = inner.to_string();
    let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    match reason.split_once("expected struct ") {
        Some((before, _)) => Problem::field(path, format!("is not acceptable: {before}expected an object")),
        None => Problem::field(path, format!("is not acceptable: {reason}")),
    }
}

fn place(error: &serde_json::Error) -> String {
    format!("the body is not JSON: {error}")
}
