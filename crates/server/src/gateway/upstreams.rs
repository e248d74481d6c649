//! The servers behind the gateway: which of them are ready, and whose turn it is.

use axum::body::Body;
use axum::http::Uri;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// For a server to say whether it is ready.
const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// Shorter than a server keeps a connection that nothing is sent over, so that none is used that has just been closed.
const IDLE: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    /// `http://HOST:PORT`, without a path.
    pub urls: Vec<String>,
    pub health_interval: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: String,
}

pub(super) struct Upstream {
    pub(super) authority: String,
    up: AtomicBool,
    gauge: Gauge,
}

impl Upstream {
    fn set(&self, up: bool) {
        if self.up.swap(up, Ordering::Relaxed) != up {
            if up {
                tracing::info!(upstream = self.authority, "a server is ready");
            } else {
                tracing::warn!(upstream = self.authority, "a server is not ready");
            }
        }
        self.gauge.set(i64::from(up));
    }

    /// Nobody is there; the next look tells when somebody is again.
    pub(super) fn is_gone(&self) {
        self.set(false);
    }
}

pub(super) struct Upstreams {
    all: Vec<Arc<Upstream>>,
    next: AtomicUsize,
    health_interval: Duration,
    pub(super) client: Client<HttpConnector, Body>,
}

impl Upstreams {
    pub(super) fn new(options: &UpstreamOptions, registry: &mut Registry) -> Result<Self, String> {
        let up = Family::<UpstreamLabels, Gauge>::default();
        let gateway = registry.sub_registry_with_prefix("guerdon_gateway");
        gateway.register("upstream_up", "Whether a server behind the gateway is ready", up.clone());
        let mut all = Vec::new();
        for url in &options.urls {
            let authority = authority(url)
                .ok_or("an upstream must be written as http://HOST:PORT, without a name and a password")?;
            let labels = UpstreamLabels { upstream: authority.clone() };
            let gauge = up.get_or_create(&labels).clone();
            all.push(Arc::new(Upstream { authority, up: AtomicBool::new(false), gauge }));
        }
        if all.is_empty() {
            return Err("there is no server to pass calls on to: --upstream http://HOST:PORT".into());
        }
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            // Whether a call may be sent a second time is ours to decide.
            .retry_canceled_requests(false)
            .build(connector);
        Ok(Self { all, next: AtomicUsize::new(0), health_interval: options.health_interval, client })
    }

    /// Those that are ready, beginning with the one whose turn it is.
    pub(super) fn in_turn(&self) -> Vec<Arc<Upstream>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.all.len();
        let turned = self.all[first..].iter().chain(&self.all[..first]);
        turned.filter(|upstream| upstream.up.load(Ordering::Relaxed)).map(Arc::clone).collect()
    }

    pub(super) async fn watch(&self) {
        loop {
            let asked = self.all.iter().map(|upstream| async {
                upstream.set(self.is_ready(&upstream.authority).await);
            });
            futures_util::future::join_all(asked).await;
            tokio::time::sleep(self.health_interval).await;
        }
    }

    async fn is_ready(&self, authority: &str) -> bool {
        let Ok(uri) = format!("http://{authority}/readyz").parse::<Uri>() else { return false };
        match tokio::time::timeout(ASK_TIMEOUT, self.client.get(uri)).await {
            Ok(Ok(answer)) => answer.status().is_success(),
            _ => false,
        }
    }
}

fn authority(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none();
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    plain.then(|| authority.as_str().to_owned())
}
