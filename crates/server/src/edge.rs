//! Around every request: an id, headers that nobody may forge, a net beneath panics, problems rendered, figures kept.

use crate::app::App;
use crate::problem::{self, Problem};
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::FutureExt;
use guerdon_core::Code;
use guerdon_engine::Stopwatch;
use http_body_util::BodyExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_MAX: usize = 64;

/// The id of the request under way: the caller's, if it is one that we would have made, or a new one.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

pub(crate) async fn around(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Stopwatch::start();
    strip_identity(request.headers_mut());
    let id = request_id(request.headers()).unwrap_or_else(|| app.engine.new_id().into());
    request.extensions_mut().insert(RequestId(Arc::clone(&id)));
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = request.method().clone();
    let body = Announced::by(request.headers());

    let whole = match body {
        Announced::Small => read_small_body(&mut request, app.http.body_timeout).await,
        Announced::None | Announced::Large => Ok(()),
    };
    let answered = match whole {
        Ok(()) => AssertUnwindSafe(next.run(request)).catch_unwind().await,
        Err(problem) => Ok(axum::response::IntoResponse::into_response(problem)),
    };
    let mut response = answered.unwrap_or_else(|_| {
        tracing::error!(request_id = &*id, "a handler panicked");
        axum::response::IntoResponse::into_response(Problem::new(
            Code::InternalError,
            "the fault is ours and has been logged under the id in `instance`",
        ))
    });
    let cause = response.extensions().get::<Problem>().and_then(|problem| problem.cause.clone());
    response = render_problem(response, &id);
    if body == Announced::Large && refuses_unread(response.status()) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if response.status().is_server_error() {
        let status = response.status().as_u16();
        tracing::error!(request_id = &*id, %method, route = route.as_ref().map(MatchedPath::as_str), status, cause, "a call failed");
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID.clone(), value);
    }
    app.metrics.observe(&method, route.as_ref(), response.status(), started.elapsed());
    response
}

/// What a request says of its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announced {
    None,
    Small,
    /// Or of unknown length.
    Large,
}

const SMALL_BODY_BYTES: u64 = 64 * 1024;

impl Announced {
    fn by(headers: &HeaderMap) -> Self {
        if headers.contains_key(header::TRANSFER_ENCODING) {
            return Self::Large;
        }
        let length =
            headers.get(header::CONTENT_LENGTH).map(|value| value.to_str().ok()?.parse::<u64>().ok());
        match length {
            None | Some(Some(0)) => Self::None,
            Some(Some(length)) if length <= SMALL_BODY_BYTES => Self::Small,
            Some(_) => Self::Large,
        }
    }
}

/// Reads a small body before anybody looks at the request: a call that is refused, or that needs no body, would leave it
/// on the connection, which could then not be used again.
async fn read_small_body(request: &mut Request, timeout: Duration) -> Result<(), Problem> {
    let body = std::mem::take(request.body_mut());
    match tokio::time::timeout(timeout, body.collect()).await {
        Ok(Ok(whole)) => {
            *request.body_mut() = Body::from(whole.to_bytes());
            Ok(())
        }
        Ok(Err(_)) => Err(Problem::new(Code::BadRequest, "the body ended before it was whole")),
        Err(_) => Err(Problem::new(Code::RequestTimeout, format!("the body must arrive within {timeout:?}"))),
    }
}

/// Answers that may leave the request's body unread: the connection cannot be used again, and says so.
fn refuses_unread(status: StatusCode) -> bool {
    matches!(status.as_u16(), 401 | 403 | 404 | 405 | 408 | 413 | 415 | 503)
}

/// Identity comes from a verified token and from nowhere else, however the header is spelled.
fn strip_identity(headers: &mut HeaderMap) {
    let forged: Vec<_> = headers.keys().filter(|name| claims_identity(name.as_str())).cloned().collect();
    for name in forged {
        headers.remove(name);
    }
}

fn claims_identity(name: &str) -> bool {
    let prefix = b"x-user-".iter();
    let spelled = name.bytes().map(|byte| if byte == b'_' { b'-' } else { byte });
    name.len() >= prefix.len() && spelled.zip(prefix).all(|(byte, wanted)| byte == *wanted)
}

fn request_id(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = headers.get(&REQUEST_ID)?.to_str().ok()?;
    let fits = (1..=REQUEST_ID_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    fits.then(|| text.into())
}

/// Turns ours, and whatever the framework answered by itself, into problem+json.
fn render_problem(mut response: Response, id: &str) -> Response {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let ours = response.extensions_mut().remove::<Problem>();
    if response.extensions().get::<OwnBody>().is_some() {
        return response;
    }
    let problem = ours.unwrap_or_else(|| problem::of_framework(status));
    let mut rendered = problem.render(id);
    if let Some(allow) = response.headers_mut().remove(header::ALLOW) {
        rendered.headers_mut().insert(header::ALLOW, allow);
    }
    rendered
}

/// Marks an error answer whose body is not a problem: `/readyz` says in its own words what is wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnBody;

#[cfg(test)]
mod tests {
    use super::{request_id, strip_identity};
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    #[test]
    fn forged_identity_never_gets_in() {
        let mut headers = HeaderMap::new();
        for name in ["X-User-ID", "x-user-roles", "X-USER-NAME", "x_user_id", "X-User-Anything"] {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name.clone(), HeaderValue::from_static("admin"));
            headers.append(name, HeaderValue::from_static("again"));
        }
        headers.insert("x-username", HeaderValue::from_static("kept"));
        strip_identity(&mut headers);
        assert_eq!(headers.len(), 1);
    }

    #[test]
    fn a_caller_may_choose_a_sound_request_id() {
        for (text, kept) in
            [("abc-1", true), ("", false), ("a b", false), ("a\"b", false), (&"x".repeat(65), false)]
        {
            let mut headers = HeaderMap::new();
            headers.insert("x-request-id", HeaderValue::from_str(text).unwrap());
            assert_eq!(request_id(&headers).is_some(), kept, "{text}");
        }
    }
}
