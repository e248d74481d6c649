//! The same edge as a process of its own: it checks tokens, holds off whoever calls too often, and passes on what it could verify,
//! signed, to servers that believe nothing but that signature.

mod forward;
mod upstreams;

pub use upstreams::UpstreamOptions;

use crate::address::Peer;
use crate::app::Guard;
use crate::edge::{REQUEST_ID, Spent, begin_span, end_span, request_id};
use crate::identity::is_of_the_house;
use crate::json;
use crate::limits::{Kind, Underway};
use crate::problem::Problem;
use crate::session::{self, SessionBody};
use crate::token::Verifier;
use crate::trusted::GatewayKey;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use forward::Forward;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use guerdon_core::Code;
use guerdon_core::Trace;
use guerdon_core::identity::Identity;
use guerdon_engine::{Clock, Entropy, OpenSpan, Traces};
use prometheus_client::registry::Registry;
use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::Service;
use upstreams::Upstreams;

/// What can be asked without a token.
const OPEN: [&str; 6] = ["/readyz", "/openapi.json", "/docs", "/console", "/play", "/assets"];

/// Somebody, or anybody, and a place for people.
type Admitted = (Option<Arc<Identity>>, Option<Underway>);

#[derive(Clone, Copy, Debug)]
pub struct GatewayOptions {
    pub body_bytes_max: usize,
    pub body_timeout: Duration,
    /// For a server to begin its answer; longer than anybody may ask it to wait.
    pub answer_timeout: Duration,
}

pub struct Gateway {
    verifier: Arc<Verifier>,
    guard: Guard,
    key: GatewayKey,
    options: GatewayOptions,
    upstreams: Upstreams,
    clock: Arc<Clock>,
    traces: Traces,
    registry: Registry,
}

impl Gateway {
    pub fn new(
        verifier: Arc<Verifier>,
        guard: Guard,
        key: GatewayKey,
        options: GatewayOptions,
        upstreams: &UpstreamOptions,
        clock: Arc<Clock>,
        mut registry: Registry,
    ) -> Result<Self, String> {
        let upstreams = Upstreams::new(upstreams, &mut registry)?;
        let traces = Traces::default();
        Ok(Self { verifier, guard, key, options, upstreams, clock, traces, registry })
    }

    /// Says who keeps what happened when.
    #[must_use]
    pub fn followed_by(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Asks the servers again and again whether they are ready; never ends.
    pub async fn watch_upstreams(&self) {
        self.upstreams.watch().await;
    }

    async fn answer(&self, request: Request) -> Response {
        let id = request_id(request.headers()).unwrap_or_else(|| Entropy.id(self.clock.now()).into());
        let spent = Spent::default();
        let has_body = request.headers().contains_key(header::TRANSFER_ENCODING)
            || request.headers().get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
        // A gateway knows no routes, and addresses have ids in them.
        let span = begin_span(&self.traces, request.method(), "", request.headers(), &id);
        let trace = span.as_ref().map(OpenSpan::trace);
        let answered = AssertUnwindSafe(self.pass(request, &id, trace, &spent)).catch_unwind().await;
        let mut response = match answered {
            Ok(Ok(response)) => response,
            Ok(Err(problem)) => {
                if let Some(cause) = &problem.cause {
                    tracing::warn!(request_id = &*id, code = %problem.code, cause, "a call was not passed on");
                }
                let mut refused = problem.render(&id);
                // What was not read would be taken for the next call.
                if has_body {
                    refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                refused
            }
            Err(_) => {
                tracing::error!(request_id = &*id, "the gateway panicked");
                Problem::new(
                    Code::InternalError,
                    "the fault is ours and has been logged under the id in `instance`",
                )
                .render(&id)
            }
        };
        spent.tell(&self.guard.limits, response.headers_mut());
        if let Ok(value) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(REQUEST_ID.clone(), value);
        }
        end_span(span, response.status());
        response
    }

    async fn pass(
        &self,
        request: Request,
        id: &str,
        trace: Option<Trace>,
        spent: &Spent,
    ) -> Result<Response, Problem> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        // What concerns the gateway itself it answers itself.
        if path == "/healthz" {
            return Ok("{\"status\":\"alive\"}".into_response());
        }
        let peer = parts.extensions.get::<Peer>().map(|Peer(peer)| *peer);
        let client = peer.map(|peer| self.guard.proxies.client(peer, &parts.headers));
        // Which servers there are concerns nobody outside.
        if path == "/metrics"
            && client.is_some_and(|client| client.to_canonical().is_loopback() || is_private(client))
        {
            return self.metrics();
        }
        let has_session_call =
            matches!(parts.method, Method::POST | Method::GET | Method::HEAD | Method::DELETE);
        if path == "/v1/session" && has_session_call {
            return self.session(&parts, body, (peer, client), spent).await;
        }
        let (identity, place) = match self.admit(&parts, client, spent).await {
            Ok(admitted) => admitted,
            Err(problem) => {
                // Whoever is still sending would see a broken connection instead of the answer.
                let _ = self.read(&parts.headers, body).await;
                return Err(problem);
            }
        };
        let forward = Forward { gateway: self, id, trace, client, identity: identity.as_deref() };
        let answer = forward.send(parts, body).await;
        drop(place);
        answer
    }

    /// Sessions begin and end where tokens are checked.
    async fn session(
        &self,
        parts: &Parts,
        body: Body,
        (peer, client): (Option<IpAddr>, Option<IpAddr>),
        spent: &Spent,
    ) -> Result<Response, Problem> {
        let (headers, now) = (&parts.headers, self.clock.now());
        let secure = self.guard.is_secure(peer, headers);
        let body = self.read(headers, body).await?;
        if let Some(client) = client {
            let found = self.guard.limits.address(client);
            spent.note(found);
            found?;
        }
        if parts.method == Method::POST {
            session::is_from_a_page_of_ours(headers)?;
            let SessionBody { token } = json::of(headers, &body)?;
            return session::begin(&self.verifier, &token, now, secure).await;
        }
        let view = session::present(&self.verifier, session::token(headers, &parts.method)?, now).await?;
        Ok(if parts.method == Method::DELETE { session::end(secure) } else { view })
    }

    /// Who calls, and their place among the calls that are under way, if they may.
    async fn admit(&self, parts: &Parts, client: Option<IpAddr>, spent: &Spent) -> Result<Admitted, Problem> {
        if let Some(client) = client {
            let found = self.guard.limits.address(client);
            spent.note(found);
            found?;
        }
        let identity = self.identity(parts).await?;
        let place = match &identity {
            Some(identity) if !is_of_the_house(identity) => {
                Some(self.let_in(identity, &parts.method, spent)?)
            }
            _ => None,
        };
        Ok((identity, place))
    }

    async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
        json::read(headers, body, self.options.body_bytes_max, self.options.body_timeout).await
    }

    /// Who calls; nobody, where it may be anybody. What brings a token that is not good goes nowhere.
    async fn identity(&self, parts: &Parts) -> Result<Option<Arc<Identity>>, Problem> {
        let path = parts.uri.path();
        // An address that others might read differently is not taken for an open one.
        let plain = !path.contains("..") && !path.contains("//") && !path.contains(['%', '\\', ';']);
        let begins =
            |open: &str| path.strip_prefix(open).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let open = parts.method.is_safe() && plain && OPEN.iter().any(|open| begins(open));
        if open && !parts.headers.contains_key(header::AUTHORIZATION) {
            return Ok(None);
        }
        self.verifier.verify(session::token(&parts.headers, &parts.method)?, self.clock.now()).await.map(Some)
    }

    fn let_in(&self, identity: &Identity, method: &Method, spent: &Spent) -> Result<Underway, Problem> {
        let user = self.guard.limits.key(identity.user_id.as_str());
        let place = self.guard.limits.enter(user)?;
        let found = self.guard.limits.user(user, Kind::of(method));
        spent.note(found);
        found?;
        Ok(place)
    }

    fn metrics(&self) -> Result<Response, Problem> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)
            .map_err(|_| Problem::new(Code::InternalError, "the figures could not be written"))?;
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
    }
}

fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// The gateway as what answers requests.
#[derive(Clone)]
pub struct GatewayService(pub Arc<Gateway>);

impl Service<Request> for GatewayService {
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let gateway = Arc::clone(&self.0);
        Box::pin(async move { Ok(gateway.answer(request).await) })
    }
}
