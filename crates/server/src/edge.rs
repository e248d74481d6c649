//! Around every request: an id, headers that nobody may forge, a net beneath panics, problems rendered, figures kept.

use crate::address::Peer;
use crate::app::{App, Identities};
use crate::identity::Brought;
use crate::limits::{Allowance, Exceeded, Limits};
use crate::problem::{self, Problem};
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use guerdon_core::Code;
use guerdon_core::Trace;
use guerdon_engine::{OpenSpan, Stopwatch, Traces, trace};
use http_body_util::BodyExt;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service, layer::layer_fn};

pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const REQUEST_ID_MAX: usize = 64;

/// The id of the request under way: the caller's, if it is one that we would have made, or a new one.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(pub(crate) Arc<str>);

/// The layer around every route. By hand, and not as a function of the framework's, because that clones and boxes the route
/// once more for every request.
#[derive(Clone)]
pub(crate) struct Around<S> {
    app: Arc<App>,
    route: S,
}

pub(crate) fn around(app: Arc<App>) -> impl Layer<Route, Service = Around<Route>> + Clone {
    layer_fn(move |route| Around { app: Arc::clone(&app), route })
}

impl<S> Service<Request> for Around<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes take what comes.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let call = Call::begin(&self.app, &mut request);
        let app = Arc::clone(&self.app);
        let (has_body, small) = (call.body != Announced::None, call.body == Announced::Small);
        if let Err(exceeded) = call.of_address(&app, &request) {
            let mut refused = call.end(&app, Ok(Ok(Problem::from(exceeded).into_response())));
            if has_body {
                refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            return Box::pin(async move {
                // Whoever is still sending would see a broken connection instead of the answer.
                if small {
                    let _ = read_small_body(&mut request, app.http.body_timeout).await;
                }
                Ok(refused)
            });
        }
        if call.body != Announced::Small {
            let answer = self.route.call(request);
            return call.follow(|call| async move {
                Ok(call.end(&app, AssertUnwindSafe(answer).catch_unwind().await))
            });
        }
        let mut route = self.route.clone();
        call.follow(|call| async move {
            let answered = match read_small_body(&mut request, app.http.body_timeout).await {
                Ok(()) => AssertUnwindSafe(route.call(request)).catch_unwind().await,
                Err(problem) => Ok(Ok(problem.into_response())),
            };
            Ok(call.end(&app, answered))
        })
    }
}

/// A request under way.
struct Call {
    id: Arc<str>,
    started: Stopwatch,
    method: Method,
    route: Option<MatchedPath>,
    body: Announced,
    spent: Spent,
    span: Option<OpenSpan>,
}

impl Call {
    fn begin(app: &App, request: &mut Request) -> Self {
        let started = Stopwatch::start();
        if let Identities::Gateway(trusted) = &app.identities {
            let address = request.uri().path_and_query().map_or("/", |address| address.as_str());
            let found = trusted.verify(request.headers(), request.method(), address, app.engine.now());
            request.extensions_mut().insert(Brought(found));
        }
        strip_identity(request.headers_mut());
        let spent = Spent::default();
        if app.guard.limits.are_any() {
            request.extensions_mut().insert(spent.clone());
        }
        let id = request_id(request.headers()).unwrap_or_else(|| app.engine.new_id().into());
        request.extensions_mut().insert(RequestId(Arc::clone(&id)));
        let route = request.extensions().get::<MatchedPath>().cloned();
        let path = route.as_ref().map_or("", MatchedPath::as_str);
        let span = begin_span(app.engine.traces(), request.method(), path, request.headers(), &id);
        Self {
            id,
            started,
            method: request.method().clone(),
            route,
            body: Announced::by(request.headers()),
            spent,
            span,
        }
    }

    /// Answers it, and lets what is done for it know where it belongs, if anybody follows it.
    fn follow<F>(self, answer: impl FnOnce(Self) -> F) -> BoxFuture<'static, Result<Response, Infallible>>
    where
        F: Future<Output = Result<Response, Infallible>> + Send + 'static,
    {
        match self.span.as_ref().map(OpenSpan::trace) {
            None => Box::pin(answer(self)),
            belongs => Box::pin(trace::within(belongs, answer(self))),
        }
    }

    /// Takes the call from the budget of where it comes from. Whoever asks whether the server lives, or is ready, is answered.
    fn of_address(&self, app: &App, request: &Request) -> Result<(), Exceeded> {
        let asks_for_life =
            self.route.as_ref().is_some_and(|route| matches!(route.as_str(), "/healthz" | "/readyz"));
        match request.extensions().get::<Peer>() {
            Some(Peer(peer)) if !asks_for_life => {
                let client = app.guard.proxies.client(*peer, request.headers());
                let spent = app.guard.limits.address(client);
                self.spent.note(spent);
                spent.map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Renders the answer: a panic, a refusal of the framework and one of ours all leave as problems.
    fn end(mut self, app: &App, answered: std::thread::Result<Result<Response, Infallible>>) -> Response {
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Err(_) => {
                tracing::error!(request_id = &*self.id, "a handler panicked");
                Problem::new(
                    Code::InternalError,
                    "the fault is ours and has been logged under the id in `instance`",
                )
                .into_response()
            }
        };
        let cause = response.extensions().get::<Problem>().and_then(|problem| problem.cause.clone());
        response = render_problem(response, &self.id);
        if self.body == Announced::Large && refuses_unread(response.status()) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if response.status().is_server_error() {
            let (method, status) = (&self.method, response.status().as_u16());
            let route = self.route.as_ref().map(MatchedPath::as_str);
            tracing::error!(request_id = &*self.id, %method, route, status, cause, "a call failed");
        }
        if let Ok(value) = HeaderValue::from_str(&self.id) {
            response.headers_mut().insert(REQUEST_ID.clone(), value);
        }
        self.spent.tell(&app.guard.limits, response.headers_mut());
        app.metrics.observe(&self.method, self.route.as_ref(), response.status(), self.started.elapsed());
        end_span(self.span.take(), response.status());
        response
    }
}

/// Begins to follow a call, as a part of its caller's trace if it names one.
pub(crate) fn begin_span(
    traces: &Traces,
    method: &Method,
    route: &str,
    headers: &HeaderMap,
    id: &str,
) -> Option<OpenSpan> {
    let caller = || Trace::parse(headers.get(&TRACEPARENT)?.to_str().ok()?);
    let mut span = traces.of_call(|| format!("{method} {route}"), caller)?;
    span.text("http.request.method", method.as_str());
    span.text("http.route", route);
    span.text("guerdon.request_id", id);
    Some(span)
}

pub(crate) fn end_span(span: Option<OpenSpan>, status: StatusCode) {
    let Some(mut span) = span else { return };
    span.number("http.response.status_code", status.as_u16());
    span.end(status.is_server_error().then(|| status.to_string()));
}

/// What became of the caller's budget in this call; the last one that was looked at is told.
#[derive(Clone, Default)]
pub(crate) struct Spent(Arc<Mutex<Option<Result<Allowance, Exceeded>>>>);

impl Spent {
    pub(crate) fn note(&self, spent: Result<Option<Allowance>, Exceeded>) {
        if let Some(spent) = spent.transpose() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(spent);
        }
    }

    pub(crate) fn tell(&self, limits: &Limits, headers: &mut HeaderMap) {
        if let Some(spent) = *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            limits.tell(spent, headers);
        }
    }
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
    matches!(status.as_u16(), 401 | 403 | 404 | 405 | 408 | 413 | 415 | 429 | 503)
}

/// Identity comes from a verified token and from nowhere else, however the header is spelled.
pub(crate) fn strip_identity(headers: &mut HeaderMap) {
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

pub(crate) fn request_id(headers: &HeaderMap) -> Option<Arc<str>> {
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
