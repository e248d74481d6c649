//! What the HTTP surface tells about itself.

use axum::extract::MatchedPath;
use axum::http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

/// The route is the pattern, never the path: ids in labels would be without number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

/// The figures of one route, found without building their labels anew for every request.
#[derive(Debug)]
struct RouteFigures {
    seconds: Histogram,
    requests: [OnceLock<Counter>; STATUSES.len()],
}

type Routes = HashMap<Box<str>, Arc<RouteFigures>>;

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "other"];
/// Those that are worth a place; others are looked up.
const STATUSES: [u16; 14] = [200, 201, 202, 204, 304, 400, 401, 403, 404, 409, 413, 422, 429, 503];

#[derive(Clone, Debug)]
pub struct HttpMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram>,
    /// By method, then by route.
    routes: Arc<[RwLock<Routes>; METHODS.len()]>,
    connections: Gauge,
}

impl HttpMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 2.0, 16));
        let metrics = Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            routes: Arc::default(),
            connections: Gauge::default(),
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
        metrics
    }

    /// How many connections are open.
    pub fn connections(&self) -> Gauge {
        self.connections.clone()
    }

    pub(crate) fn observe(
        &self,
        method: &Method,
        route: Option<&MatchedPath>,
        status: StatusCode,
        elapsed: Duration,
    ) {
        let method = METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(METHODS.len() - 1);
        let route = route.map_or("none", MatchedPath::as_str);
        let status = status.as_u16();
        let figures = self.route(method, route);
        figures.seconds.observe(elapsed.as_secs_f64());
        let count = || {
            let labels = RequestLabels { method: METHODS[method], route: route.to_owned(), status };
            self.requests.get_or_create(&labels).clone()
        };
        match STATUSES.iter().position(|known| *known == status) {
            Some(place) => figures.requests[place].get_or_init(count).inc(),
            None => count().inc(),
        };
    }

    fn route(&self, method: usize, route: &str) -> Arc<RouteFigures> {
        let known = &self.routes[method];
        if let Some(figures) = known.read().unwrap_or_else(PoisonError::into_inner).get(route) {
            return Arc::clone(figures);
        }
        let labels = RouteLabels { method: METHODS[method], route: route.to_owned() };
        let seconds = self.seconds.get_or_create(&labels).clone();
        let figures = Arc::new(RouteFigures { seconds, requests: Default::default() });
        let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.entry(route.into()).or_insert(figures))
    }
}
