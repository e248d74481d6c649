//! What the HTTP surface tells about itself.

use axum::extract::MatchedPath;
use axum::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::time::Duration;

/// The route is the pattern, never the path: ids in labels would be without number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

impl RequestLabels {
    pub(crate) fn new(method: &Method, route: Option<&MatchedPath>, status: StatusCode) -> Self {
        let method = match method.as_str() {
            "GET" => "GET",
            "POST" => "POST",
            "PUT" => "PUT",
            "PATCH" => "PATCH",
            "DELETE" => "DELETE",
            _ => "other",
        };
        let route = route.map_or("none", MatchedPath::as_str).to_owned();
        Self { method, route, status: status.as_u16() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

#[derive(Clone, Debug)]
pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
    pub(crate) connections: Gauge,
    pub(crate) cached_tokens: Gauge,
}

impl HttpMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            connections: Gauge::default(),
            cached_tokens: Gauge::default(),
        };
        let http = registry.sub_registry_with_prefix("guerdon_http");
        http.register("requests", "Requests that were answered", metrics.requests.clone());
        http.register_with_unit(
            "request",
            "From a request's headers to its answer",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        http.register("connections", "Connections that are open", metrics.connections.clone());
        http.register("cached_tokens", "Verified tokens that are remembered", metrics.cached_tokens.clone());
        metrics
    }

    pub(crate) fn observe(&self, labels: &RequestLabels, elapsed: Duration) {
        self.requests.get_or_create(labels).inc();
        let route = RouteLabels { method: labels.method, route: labels.route.clone() };
        self.seconds.get_or_create(&route).observe(elapsed.as_secs_f64());
    }
}
