//! What every handler can reach, and how the routes are put together.

use crate::address::TrustedProxies;
use crate::edge;
use crate::limits::{LimitOptions, Limits};
use crate::metrics::HttpMetrics;
use crate::openapi;
use crate::pages;
use crate::routes;
use crate::token::Verifier;
use crate::trusted::Trusted;
use axum::Router;
use axum::http::HeaderMap;
use guerdon_engine::Engine;
use prometheus_client::registry::Registry;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// The limits of a connection and of what comes over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    pub body_bytes_max: usize,
    /// For the whole of a request's headers, and for a kept connection to send its next request.
    pub header_timeout: Duration,
    /// For the whole of a request's body.
    pub body_timeout: Duration,
    /// For what was accepted to be answered once the server is asked to stop.
    pub shutdown_timeout: Duration,
    pub connections_max: usize,
}

/// How callers are known.
pub enum Identities {
    /// By the token that they bring.
    Tokens(Arc<Verifier>),
    /// By what a gateway says of them.
    Gateway(Arc<Trusted>),
}

pub struct App {
    pub engine: Arc<Engine>,
    pub identities: Identities,
    pub guard: Guard,
    pub http: HttpOptions,
    pub metrics: HttpMetrics,
    pub registry: Registry,
    /// Becomes true when the server is asked to stop, so that streams end.
    pub stopping: watch::Sender<bool>,
}

/// Who is held off, and how it is known who comes.
pub struct Guard {
    pub(crate) limits: Limits,
    pub(crate) proxies: TrustedProxies,
    /// Whether connections are encrypted by this process itself.
    tls: bool,
}

impl Guard {
    pub fn new(limits: LimitOptions, proxies: TrustedProxies, tls: bool) -> Self {
        Self { limits: Limits::new(limits), proxies, tls }
    }

    /// Whether the caller came over TLS, as far as it is known.
    pub(crate) fn is_secure(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> bool {
        self.tls || peer.is_some_and(|peer| self.proxies.came_encrypted(peer, headers))
    }
}

/// The whole of the HTTP surface.
pub fn router(app: Arc<App>) -> Router {
    let (routes, _) = routes::all().split_for_parts();
    routes
        .merge(openapi::routes())
        .merge(pages::routes())
        .layer(edge::around(Arc::clone(&app)))
        .with_state(app)
}
