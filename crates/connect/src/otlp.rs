//! Spans on their way to a collector: OpenTelemetry's protocol over HTTP, in JSON.
//!
//! A span is handed over without waiting. One task gathers them and sends them in batches; what there is no room for, or what
//! the collector does not take, is lost and counted: nothing of the product waits for it.

use crate::address::Reach;
use crate::http::{self, retry_after, root_cause};
use crate::{Now, choose_encryption};
use guerdon_core::trace::Hex;
use guerdon_engine::trace::Value;
use guerdon_engine::{Entropy, Span, SpanKind, SpanSink};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How many wait at the most.
const QUEUE: usize = 8_192;
const BATCH: usize = 512;
/// How long a batch that is not full waits for more.
const GATHER: Duration = Duration::from_secs(1);
const TRIES: u32 = 4;
const RETRY: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long what waits may take at the end.
const LAST: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub struct OtlpOptions {
    pub url: String,
    /// What the collector wants to see beside the spans: `name=value`, separated by commas.
    pub headers: String,
    pub service: String,
    pub timeout: Duration,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    outcome: &'static str,
}

/// What became of spans.
#[derive(Clone, Debug, Default)]
pub struct SpanMetrics(Family<Labels, Counter>);

impl SpanMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        for outcome in ["exported", "dropped", "failed"] {
            metrics.count(outcome, 0);
        }
        let help = "Spans, by whether the collector has them: exported, dropped for lack of room, or failed";
        registry.register("guerdon_trace_spans", help, metrics.0.clone());
        metrics
    }

    fn count(&self, outcome: &'static str, spans: usize) {
        self.0.get_or_create(&Labels { outcome }).inc_by(u64::try_from(spans).unwrap_or(0));
    }
}

/// Keeps spans until the collector has them.
pub struct OtlpSink {
    queue: mpsc::Sender<Span>,
    metrics: SpanMetrics,
}

impl SpanSink for OtlpSink {
    fn take(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.metrics.count("dropped", 1);
        }
    }
}

/// Ends the sending, after what waits.
pub struct OtlpEnd(oneshot::Sender<oneshot::Sender<()>>);

impl OtlpEnd {
    pub async fn flush(self) {
        let (done, ended) = oneshot::channel();
        if self.0.send(done).is_ok() {
            let _ = tokio::time::timeout(LAST, ended).await;
        }
    }
}

/// Begins to send what is handed over.
pub fn start(
    options: &OtlpOptions,
    metrics: SpanMetrics,
    now: Now,
) -> Result<(Arc<OtlpSink>, OtlpEnd), String> {
    choose_encryption();
    let exporter = Exporter {
        client: http::client(Reach::Anywhere, options.timeout)?,
        url: http::parse(&options.url, Reach::Anywhere)?,
        headers: headers(&options.headers)?,
        resource: resource(&options.service),
        metrics: metrics.clone(),
        now,
    };
    let (queue, waiting) = mpsc::channel(QUEUE);
    let (end, ends) = oneshot::channel();
    tokio::spawn(exporter.run(waiting, ends));
    Ok((Arc::new(OtlpSink { queue, metrics }), OtlpEnd(end)))
}

/// `name=value` pairs, as they are given to every other exporter.
fn headers(text: &str) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let odd = || "headers are name=value, separated by commas".to_owned();
        let (name, value) = pair.split_once('=').ok_or_else(odd)?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| odd())?;
        let mut value = HeaderValue::try_from(value.trim()).map_err(|_| odd())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

fn resource(service: &str) -> serde_json::Value {
    let instance = Hex(&Entropy.bytes::<8>()).to_string();
    json!({"attributes": [
        {"key": "service.name", "value": {"stringValue": service}},
        {"key": "service.version", "value": {"stringValue": env!("CARGO_PKG_VERSION")}},
        {"key": "service.instance.id", "value": {"stringValue": instance}},
    ]})
}

struct Exporter {
    client: Client,
    url: Url,
    headers: HeaderMap,
    resource: serde_json::Value,
    metrics: SpanMetrics,
    now: Now,
}

impl Exporter {
    async fn run(self, mut waiting: mpsc::Receiver<Span>, ends: oneshot::Receiver<oneshot::Sender<()>>) {
        let mut ends = ends;
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let done = tokio::select! {
                taken = waiting.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        return;
                    }
                    self.gather(&mut waiting, &mut batch).await;
                    None
                }
                end = &mut ends => match end {
                    Ok(done) => Some(done),
                    Err(_) => return,
                },
            };
            if let Some(done) = done {
                waiting.close();
                while waiting.recv_many(&mut batch, BATCH).await > 0 {
                    self.send(&mut batch).await;
                }
                let _ = done.send(());
                return;
            }
            self.send(&mut batch).await;
        }
    }

    /// Waits a moment for more.
    async fn gather(&self, waiting: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
        let more = async {
            while batch.len() < BATCH {
                let room = BATCH - batch.len();
                if waiting.recv_many(batch, room).await == 0 {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(GATHER, more).await;
    }

    async fn send(&self, batch: &mut Vec<Span>) {
        let spans = std::mem::take(batch);
        let body = body(&self.resource, &spans).to_string();
        for tries in 1..=TRIES {
            match self.post(body.clone()).await {
                Sent::Taken => return self.metrics.count("exported", spans.len()),
                Sent::Refused(reason) => {
                    tracing::warn!(reason, spans = spans.len(), "the collector does not take these spans");
                    break;
                }
                Sent::Later { reason, .. } if tries == TRIES => {
                    tracing::warn!(reason, spans = spans.len(), "spans are lost: the collector is away");
                }
                Sent::Later { after, .. } => {
                    let pause = after.unwrap_or(RETRY * 2_u32.saturating_pow(tries - 1));
                    tokio::time::sleep(pause.min(RETRY_MAX)).await;
                }
            }
        }
        self.metrics.count("failed", spans.len());
    }

    async fn post(&self, body: String) -> Sent {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        match request.header(CONTENT_TYPE, "application/json").body(body).send().await {
            Err(error) => Sent::Later { reason: root_cause(&error.without_url()), after: None },
            Ok(answer) if answer.status().is_success() => Sent::Taken,
            Ok(answer) => {
                let reason = format!("it answered {}", answer.status());
                // The protocol names these as the ones to try again after.
                match answer.status().as_u16() {
                    429 | 502 | 503 | 504 => {
                        Sent::Later { reason, after: retry_after(answer.headers(), (self.now)()) }
                    }
                    _ => Sent::Refused(reason),
                }
            }
        }
    }
}

enum Sent {
    Taken,
    Later { reason: String, after: Option<Duration> },
    Refused(String),
}

fn body(resource: &serde_json::Value, spans: &[Span]) -> serde_json::Value {
    let scope = json!({"name": "guerdon", "version": env!("CARGO_PKG_VERSION")});
    let spans: Vec<_> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

/// As the protocol has it: ids in hexadecimal digits, 64-bit numbers as text.
fn span(span: &Span) -> serde_json::Value {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    };
    let attributes: Vec<_> = span
        .attributes
        .iter()
        .map(|(name, value)| match value {
            Value::Text(text) => json!({"key": name, "value": {"stringValue": text}}),
            Value::Number(number) => json!({"key": name, "value": {"intValue": number.to_string()}}),
        })
        .collect();
    let mut told = json!({
        "traceId": Hex(&span.trace.trace_id).to_string(),
        "spanId": Hex(&span.trace.span_id).to_string(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": span.started_ns.to_string(),
        "endTimeUnixNano": span.ended_ns.to_string(),
        "attributes": attributes,
        "flags": 1,
    });
    if let Some(parent) = span.parent {
        told["parentSpanId"] = Hex(&parent).to_string().into();
    }
    if let Some(failure) = &span.failure {
        told["status"] = json!({"code": 2, "message": failure});
    }
    told
}

#[cfg(test)]
mod tests {
    use super::{body, headers};
    use guerdon_core::Trace;
    use guerdon_engine::trace::Value;
    use guerdon_engine::{Span, SpanKind};
    use serde_json::json;

    #[test]
    fn a_span_is_written_as_the_protocol_has_it() {
        let span = Span {
            trace: Trace { trace_id: [0xab; 16], span_id: [1; 8], sampled: true },
            parent: Some([2; 8]),
            name: "GET /v1/events".into(),
            kind: SpanKind::Server,
            started_ns: 1_700_000_000_000_000_001,
            ended_ns: 1_700_000_000_000_000_002,
            attributes: vec![
                ("http.route", Value::Text("/v1/events".into())),
                ("http.response.status_code", Value::Number(200)),
            ],
            failure: Some("broken".into()),
        };
        let written = body(&json!({}), &[span]);
        let expected = json!({
            "traceId": "abababababababababababababababab",
            "spanId": "0101010101010101",
            "parentSpanId": "0202020202020202",
            "name": "GET /v1/events",
            "kind": 2,
            "startTimeUnixNano": "1700000000000000001",
            "endTimeUnixNano": "1700000000000000002",
            "attributes": [
                {"key": "http.route", "value": {"stringValue": "/v1/events"}},
                {"key": "http.response.status_code", "value": {"intValue": "200"}},
            ],
            "flags": 1,
            "status": {"code": 2, "message": "broken"},
        });
        assert_eq!(written["resourceSpans"][0]["scopeSpans"][0]["spans"][0], expected);
    }

    #[test]
    fn headers_for_the_collector() {
        assert_eq!(headers("").unwrap().len(), 0);
        let some = headers("authorization=Bearer a=b, x-team = one").unwrap();
        assert_eq!(
            (&some["authorization"], &some["x-team"]),
            (&"Bearer a=b".parse().unwrap(), &"one".parse().unwrap())
        );
        assert!(some["authorization"].is_sensitive());
        for odd in ["authorization", "a b=c", "x=\u{7}"] {
            assert!(headers(odd).is_err(), "{odd}");
        }
    }
}
