//! Bodies: read whole within their limits, and refused with the place of what is wrong.

use crate::app::App;
use crate::problem::Problem;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use bytes::Bytes;
use guerdon_core::Code;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::sync::Arc;

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
    let too_large = || Problem::new(Code::BodyTooLarge, format!("the body must be at most {limit} bytes"));
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let whole = tokio::time::timeout(app.http.body_timeout, Limited::new(body, limit).collect());
    match whole.await {
        Err(_) => Err(Problem::new(
            Code::RequestTimeout,
            format!("the body must arrive within {:?}", app.http.body_timeout),
        )),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::new(Code::BadRequest, "the body ended before it was whole")),
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| refusal(&error))?;
    json.end().map_err(|error| Problem::new(Code::MalformedJson, place(&error)))?;
    Ok(value)
}

fn refusal(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let inner = error.inner();
    match inner.classify() {
        Category::Data => {
            let path = error.path().to_string();
            // The parser adds where in the text; the path says it better.
            let text = inner.to_string();
            let reason = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
            let path = if path == "." { "body".into() } else { path };
            Problem::field(path, format!("is not acceptable: {reason}"))
        }
        Category::Syntax | Category::Eof | Category::Io => Problem::new(Code::MalformedJson, place(inner)),
    }
}

fn place(error: &serde_json::Error) -> String {
    format!("the body is not JSON: {error}")
}
