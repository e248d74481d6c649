//! Calls over HTTP, a bounded number at a time.

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Calls at one time: the rest of the crowd waits for its turn, as people in a browser do.
const CALLS_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(30);
/// Shorter than the server keeps a connection that nothing is sent over.
const IDLE: Duration = Duration::from_secs(5);

pub(crate) struct Client {
    http: hyper_util::client::legacy::Client<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
    places: Semaphore,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Arc<Self> {
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(CALLS_MAX)
            .build_http();
        Arc::new(Self { http, address, places: Semaphore::new(CALLS_MAX) })
    }
}

/// Somebody who calls.
#[derive(Clone)]
pub(crate) struct Person {
    client: Arc<Client>,
    bearer: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// The answer, if it is one of success.
    pub(crate) fn done(self) -> Result<Value, String> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        Err(format!("{}: {}", self.status, self.body["detail"].as_str().unwrap_or_default()))
    }
}

impl Person {
    pub(crate) fn new(client: &Arc<Client>, token: &str) -> Self {
        Self { client: Arc::clone(client), bearer: format!("Bearer {token}") }
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Answer, String> {
        self.call(Method::GET, path, None, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        self.call(Method::POST, path, None, body).await
    }

    /// The same under a key.
    pub(crate) async fn post_once(
        &self,
        path: &str,
        key: &str,
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        self.call(Method::POST, path, Some(key), body).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.client.address))
            .header(header::AUTHORIZATION, &self.bearer);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let mut text = Bytes::new();
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json");
            text = body.to_string().into();
        }
        let request = request.body(Full::new(text)).map_err(|error| error.to_string())?;
        let answered = async {
            let _place = self.client.places.acquire().await.map_err(|error| error.to_string())?;
            let response = self.client.http.request(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(|error| error.to_string())?;
            Ok(Answer { status, body: serde_json::from_slice(&body.to_bytes()).unwrap_or_default() })
        };
        tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| Err(format!("{path}: no answer")))
    }
}
