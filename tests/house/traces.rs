//! Traces: from the call to the webhook, across processes and restarts, and at nobody's cost.

use crate::claims::claim;
use crate::gateway::{BEHIND, gateway_with};
use crate::support::{BINARY, Cluster, as_user, for_every_setup, on_sqlite, operator};
use guerdon_harness::hook::Call;
use guerdon_harness::{
    Api, BrokerKind, ConsumerProcess, Hook, Server, ServerOptions, TestDatabase, TestEngine, until,
};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLERS_SPAN: &str = "b7ad6b7169203331";

for_every_setup! {
    one_trace_leads_from_the_call_to_the_webhook
    a_trace_goes_on_after_a_crash
}

fn traceparent() -> String {
    format!("00-{TRACE_ID}-{CALLERS_SPAN}-01")
}

/// Everything outside: a collector, a provider, and whoever is told of events.
struct Outside {
    collector: Hook,
    provider: Hook,
    webhook: Hook,
}

impl Outside {
    fn start() -> Self {
        Self { collector: Hook::start(), provider: Hook::start(), webhook: Hook::start() }
    }

    fn options(&self, database: &str) -> ServerOptions {
        ServerOptions::on(database)
            .with("GUERDON_TRACES__URL", &self.collector.url())
            .with("GUERDON_PROVIDERS__DEFAULT__URL", &self.provider.url())
            .with("GUERDON_ALLOCATIONS__RETRY_DELAY", "50ms")
            .with("GUERDON_ALLOCATIONS__RETRY_INTERVAL", "50ms")
            .with("GUERDON_ALLOCATIONS__MAX_ATTEMPTS", "100000")
            .with("GUERDON_ALLOCATIONS__LEASE", "11s")
            .with("GUERDON_CLAIMS__LEASE", "1s")
            .with("GUERDON_CLAIMS__RETRIES", "100")
            .with("GUERDON_CLAIMS__RETRY_DELAY", "200ms")
            .with("GUERDON_OUTBOX__SINK", "webhook")
            .with("GUERDON_OUTBOX__URL", &self.webhook.url())
            .with("GUERDON_OUTBOX__LEASE", "2s")
    }
}

/// The spans of our trace that a collector was told of.
fn spans(collector: &Hook) -> Vec<Value> {
    let batches: Vec<_> = collector.calls().iter().map(Call::json).collect();
    let scopes = batches.iter().map(|batch| &batch["resourceSpans"][0]["scopeSpans"][0]["spans"]);
    scopes
        .flat_map(|spans| spans.as_array().unwrap().clone())
        .filter(|span| span["traceId"] == TRACE_ID)
        .collect()
}

fn names(spans: &[Value]) -> BTreeSet<String> {
    spans.iter().map(|span| span["name"].as_str().unwrap().to_owned()).collect()
}

/// The trace that a call was told to belong in, and its span.
fn told(call: &Call) -> Option<(&str, &str)> {
    let mut parts = call.headers.get("traceparent")?.split('-').skip(1);
    Some((parts.next()?, parts.next()?))
}

fn open(api: &Api, id: &str, kind: &str) {
    let mut body = json!({
        "eventId": id, "name": "Followed", "type": kind, "startsAt": 1_700_000_000_000_i64,
        "endsAt": 4_000_000_000_000_i64, "rewards": [{"rewardId": "sword", "kind": "ITEM"}],
    });
    if kind == "FIRST_COME" {
        body["capacityTotal"] = json!(10);
    }
    api.post("/v1/admin/events", &body).expect(201);
    api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
}

fn apply(api: &Api, event: &str) {
    let path = format!("/v1/events/{event}/requests");
    api.send("POST", &path, &[("traceparent", &traceparent())], Some("{}")).expect(202);
}

fn one_trace_leads_from_the_call_to_the_webhook(engine: TestEngine, count: usize) {
    let outside = Outside::start();
    let database = TestDatabase::new(engine);
    let options = BEHIND
        .iter()
        .fold(outside.options(&database.url), |options, (name, value)| options.with(name, value));
    let servers: Vec<_> = (0..count).map(|_| Server::start(BINARY, &options)).collect();
    let addresses: Vec<_> = servers.iter().map(|server| server.address.as_str()).collect();
    let gateway = gateway_with(&addresses, &[("GUERDON_TRACES__URL", &outside.collector.url())]);
    open(&operator(&gateway), "drop", "FIRST_COME");
    open(&operator(&gateway), "gift", "CLAIM");
    apply(&as_user(&gateway, 1), "drop");
    claim(&as_user(&gateway, 2), "gift", "key-00001", &[("traceparent", &traceparent())]).expect(200);
    // A request decided, its reward delivered, a claim ended: each tells in which trace.
    let ours = |call: &Call| told(call).is_some_and(|(trace, _)| trace == TRACE_ID);
    let published = until("what is published of the trace", PATIENCE, || {
        let calls: Vec<_> = outside.webhook.calls().into_iter().filter(ours).collect();
        (calls.len() == 3).then_some(calls)
    });
    let types: BTreeSet<_> =
        published.iter().map(|call| call.json()["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(types.len(), 3, "{types:?}");
    for call in &published {
        assert_eq!(call.json()["traceparent"].as_str(), call.headers.get("traceparent").map(String::as_str));
    }
    let provided: Vec<_> = outside.provider.calls().into_iter().filter(ours).collect();
    assert_eq!(provided.len(), outside.provider.calls().len());
    assert!(provided.len() >= 2, "a delivery and a claim: {}", provided.len());
    gateway.stop();
    for server in servers {
        server.stop();
    }
    // What was handed over before the end is with the collector at the end.
    let spans = spans(&outside.collector);
    let known: HashSet<_> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
    for span in &spans {
        let parent = span["parentSpanId"].as_str().unwrap();
        assert!(parent == CALLERS_SPAN || known.contains(parent), "nobody knows what caused {span}");
    }
    for call in published.iter().chain(&provided) {
        let (_, span) = told(call).unwrap();
        assert!(known.contains(span), "nobody knows of the span that {call:?} was told");
    }
    let names = names(&spans);
    for part in [
        "POST ",
        "POST /v1/events/{eventId}/requests",
        "POST /v1/event-claims/{eventId}/claim",
        "deliver default",
        "claim: grant provider:default",
    ] {
        assert!(names.contains(part), "{part} is missing in {names:?}");
    }
    for (beginning, least) in [("commit ", 2), ("publish ", 3)] {
        let found = names.iter().filter(|name| name.starts_with(beginning)).count();
        assert!(found >= least, "{found} of {beginning:?} in {names:?}");
    }
    crate::audit::assert_clean(&database);
}

fn a_trace_goes_on_after_a_crash(engine: TestEngine, count: usize) {
    let outside = Outside::start();
    // Busy; and whoever is asked what became of a call that was cut off knows nothing of it.
    let asked = |call: &Call| call.body.is_empty();
    outside.provider.answer(move |call| (if asked(call) { 404 } else { 429 }, Vec::new()));
    outside.webhook.answer_all(503);
    let database = TestDatabase::new(engine);
    let options = outside.options(&database.url);
    let servers: Vec<_> = (0..count).map(|_| Server::start(BINARY, &options)).collect();
    let api = operator(&servers[0]);
    open(&api, "drop", "FIRST_COME");
    open(&api, "gift", "CLAIM");
    apply(&as_user(&servers[0], 1), "drop");
    let later = [("Prefer", "respond-async"), ("traceparent", &traceparent())];
    claim(&as_user(&servers[0], 2), "gift", "key-00001", &later).expect(202);
    let keys = |calls: &[Call]| -> BTreeSet<String> {
        calls.iter().filter_map(|call| call.headers.get("idempotency-key").cloned()).collect()
    };
    until("both to be tried", PATIENCE, || (keys(&outside.provider.calls()).len() == 2).then_some(()));
    servers.into_iter().for_each(Server::kill);
    let before = outside.provider.calls().len();
    outside.provider.answer(move |call| (if asked(call) { 404 } else { 204 }, Vec::new()));
    outside.webhook.answer_all(204);
    // Who starts now has it from the rows alone.
    let server = Server::start(BINARY, &options);
    let calls = until("both to be given", PATIENCE, || {
        let calls = outside.provider.calls().split_off(before);
        (keys(&calls).len() == 2).then_some(calls)
    });
    for call in &calls {
        assert_eq!(told(call).map(|(trace, _)| trace), Some(TRACE_ID), "{call:?}");
    }
    until("what is published of the trace", PATIENCE, || {
        let calls = outside.webhook.calls();
        let taken = calls.iter().filter(|call| call.status == 204);
        let ours = taken.filter(|call| told(call).is_some_and(|(trace, _)| trace == TRACE_ID));
        (ours.count() >= 3).then_some(())
    });
    server.stop();
    crate::audit::assert_clean(&database);
}

#[test]
fn rabbitmq_a_consumer_goes_on_with_the_trace() {
    let (collector, hook) = (Hook::start(), Hook::start());
    let (url, topic) = (BrokerKind::RabbitMq.shared_url(), crate::brokers::topic());
    let (database, consumers) =
        (TestDatabase::new(TestEngine::Sqlite), TestDatabase::new(TestEngine::Sqlite));
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_TRACES__URL", &collector.url())
        .with("GUERDON_OUTBOX__SINK", "rabbitmq")
        .with("GUERDON_OUTBOX__URL", &url)
        .with("GUERDON_OUTBOX__TOPIC", &topic);
    let server = Server::start(BINARY, &options);
    let consumer = ConsumerProcess::start(
        BINARY,
        BrokerKind::RabbitMq,
        &url,
        &topic,
        &consumers.url,
        &[
            ("GUERDON_TRACES__URL", &collector.url()),
            ("GUERDON_CONSUME__HANDLER", "webhook"),
            ("GUERDON_CONSUME__WEBHOOK_URL", &hook.url()),
        ],
    );
    open(&operator(&server), "drop", "FIRST_COME");
    apply(&as_user(&server, 1), "drop");
    let span = until("the consumer to tell of it", PATIENCE, || {
        let calls = hook.calls();
        let ours = calls.iter().filter_map(told).find(|(trace, _)| *trace == TRACE_ID);
        ours.map(|(_, span)| span.to_owned())
    });
    server.stop();
    consumer.stop();
    let spans = spans(&collector);
    let handled = spans.iter().find(|known| known["spanId"] == *span).unwrap();
    assert_eq!(handled["kind"], 5, "{handled}");
    let published = spans.iter().find(|known| known["spanId"] == handled["parentSpanId"]).unwrap();
    assert!(published["name"].as_str().unwrap().starts_with("publish "), "{published}");
}

#[test]
fn nothing_waits_for_a_collector() {
    // One that answers nobody, one that is not there, one that wants nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = format!("127.0.0.1:{}", guerdon_harness::free_port());
    let refusing = Hook::start();
    refusing.answer_all(400);
    let urls = [format!("http://{}", silent.local_addr().unwrap()), format!("http://{gone}"), refusing.url()];
    for url in urls {
        let (_database, server) = on_sqlite(&[("GUERDON_TRACES__URL", &url)]);
        open(&operator(&server), "drop", "FIRST_COME");
        apply(&as_user(&server, 1), "drop");
        assert_eq!(server.stop(), Some(0), "{url}");
    }
    assert!(!refusing.calls().is_empty());
}

#[test]
fn only_what_is_wanted_is_kept_and_headers_are_sent_but_never_shown() {
    let collector = Hook::start();
    let cluster = Cluster::start_with(
        TestEngine::Sqlite,
        1,
        &[
            ("GUERDON_TRACES__URL", &collector.url()),
            ("GUERDON_TRACES__HEADERS", "authorization=Bearer hush"),
            ("GUERDON_TRACES__SERVICE", "rewards"),
            // The caller's trace is at 28 % of all.
            ("GUERDON_TRACES__SHARE", "0.29"),
        ],
    );
    let server = &cluster.servers[0];
    let get = |traceparent: &str| {
        server.api().send("GET", "/healthz", &[("traceparent", traceparent)], None).expect(200);
    };
    get(&format!("00-{TRACE_ID}-{CALLERS_SPAN}-00"));
    get("00-0af7651916cd43dd84ffeb211c80319c-b7ad6b7169203331-01");
    get(&traceparent());
    let log = server.log_text();
    let metrics = until("the span to arrive", PATIENCE, || {
        let metrics = server.api().get("/metrics").text;
        metrics.contains("guerdon_trace_spans_total{outcome=\"exported\"}").then_some(metrics)
    });
    assert!(metrics.contains("outcome=\"failed\"} 0"), "{metrics}");
    cluster.servers.into_iter().for_each(|server| assert_eq!(server.stop(), Some(0)));
    let spans = spans(&collector);
    assert_eq!(names(&spans), BTreeSet::from(["GET /healthz".to_owned()]));
    assert_eq!(spans.len(), 1, "one of three: {spans:?}");
    let call = &collector.calls()[0];
    assert_eq!(call.headers["authorization"], "Bearer hush");
    let service = &call.json()["resourceSpans"][0]["resource"]["attributes"][0];
    assert_eq!(service["value"]["stringValue"], "rewards");
    assert!(!log.contains("hush"), "{log}");
}
