//! Web servers that are told of events: slow ones, gone ones, and such as must not be called.

use crate::publishing::{
    PATIENCE, SECRET, assert_in_order, ids, open_and_close, start, until_all_arrived, written,
};
use crate::support::{BINARY, Cluster, at_once, operator};
use guerdon_harness::api::drop_body;
use guerdon_harness::{Hook, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

#[test]
fn an_address_that_is_gone_is_left_alone_until_it_is_enabled() {
    let hook = Hook::start();
    hook.answer_all(410);
    let database = TestDatabase::new(TestEngine::Sqlite);
    let url = hook.url();
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_OUTBOX__SINK", "webhook")
        .with("GUERDON_OUTBOX__URL", &url)
        .with("GUERDON_OUTBOX__SECRET", SECRET);
    let server = Server::start(BINARY, &options);
    open_and_close(&operator(&server), "a");
    let sink = |server: &Server| operator(server).get("/v1/admin/outbox/sink").expect(200).json();
    until("it to be off", PATIENCE, || (sink(&server)["enabled"] == false).then_some(()));
    assert!(sink(&server)["reason"].as_str().unwrap().contains("410"));
    let calls = hook.calls().len();
    server.stop();
    // Also after a restart, and whatever else happens.
    hook.answer_all(204);
    let server = Server::start(BINARY, &options);
    open_and_close(&operator(&server), "b");
    until("the publisher to have looked", PATIENCE, || {
        (server.api().metric("guerdon_outbox_backlog") > 3.5).then_some(())
    });
    assert_eq!(hook.calls().len(), calls);
    let enabled = operator(&server).post("/v1/admin/outbox/sink/enable", &json!({})).expect(200).json();
    assert_eq!(enabled["enabled"], true);
    until("everything to arrive", PATIENCE, || (ids(&hook.taken()) == written(&database)).then_some(()));
    assert_in_order(&hook.taken());
}

#[test]
fn an_address_that_asks_for_time_gets_it() {
    let hook = Hook::start();
    let called = AtomicUsize::new(0);
    hook.answer(move |_| {
        let status = if called.fetch_add(1, Ordering::SeqCst) == 0 { 503 } else { 204 };
        (status, vec![("Retry-After".to_owned(), "2".to_owned())])
    });
    let cluster = start(TestEngine::Sqlite, 1, &hook, &[]);
    open_and_close(&cluster.operator(0), "a");
    until_all_arrived(&cluster, &hook);
    let calls = hook.calls();
    assert_eq!(calls.iter().map(|call| call.status).collect::<Vec<_>>(), [503, 204, 204]);
    assert!(calls[1].at - calls[0].at >= Duration::from_millis(1_990), "{:?}", calls[1].at - calls[0].at);
}

/// More than can be told of within a lease is told of in several, and nothing twice.
#[test]
fn a_slow_address_is_not_told_twice() {
    let hook = Hook::start();
    let (closed, gate) = (Arc::new((Mutex::new(0), Condvar::new())), Duration::from_millis(700));
    hook.answer(move |_| {
        // Nobody rings: it takes as long as it says.
        drop(closed.1.wait_timeout(closed.0.lock().unwrap(), gate).unwrap());
        (204, Vec::new())
    });
    let cluster = start(TestEngine::Sqlite, 1, &hook, &[("GUERDON_OUTBOX__LEASE", "4s")]);
    let mut body = drop_body("drop");
    // Nothing to win, so that nothing else is told of.
    body["rewards"] = json!([]);
    cluster.operator(0).post("/v1/admin/events", &body).expect(201);
    cluster.operator(0).post("/v1/admin/events/drop/open", &json!({})).expect(200);
    let apply = |first: usize, count| {
        at_once(count, |number| {
            let api = crate::support::as_user(&cluster.servers[0], first + number);
            api.post("/v1/events/drop/requests", &json!({})).expect(202);
        });
    };
    // Sixteen at a time: more than a lease of work.
    apply(0, 150);
    until_all_arrived(&cluster, &hook);
    assert_eq!(hook.calls().len(), 151, "each once");
    // Also when it is asked to stop in the middle of it.
    apply(150, 80);
    until("it to be at it", PATIENCE, || (hook.calls().len() > 160).then_some(()));
    let Cluster { database, mut servers } = cluster;
    assert_eq!(servers.remove(0).stop(), Some(0));
    let told = hook.calls().len();
    assert!(told < 231, "it stops before all is told");
    let mut sql = database.sql();
    let table = sql.table("integration.outbox_events");
    let sent = sql.number(&format!("SELECT COUNT(*) FROM {table} WHERE status = 'SENT'"));
    assert_eq!(usize::try_from(sent), Ok(told), "what was told is noted");
}

#[test]
fn an_address_of_our_own_network_is_refused_at_the_start() {
    let start = |url: &str, private: &str| {
        let database = TestDatabase::new(TestEngine::Sqlite);
        let options = ServerOptions::on(&database.url)
            .with("GUERDON_OUTBOX__SINK", "webhook")
            .with("GUERDON_OUTBOX__URL", url)
            .with("GUERDON_WEBHOOKS__PRIVATE_ADDRESSES", private);
        Server::try_start(BINARY, &options).err()
    };
    for (url, private) in
        [("http://169.254.169.254/", "auto"), ("http://10.1.2.3/", "auto"), ("http://127.0.0.1:9/", "refuse")]
    {
        let said = start(url, private).unwrap();
        assert!(said.contains("outbox.url") && said.contains("no public address"), "{said}");
    }
    assert!(start("http://127.0.0.1:9/", "auto").is_none());
    assert!(start("http://10.1.2.3/", "allow").is_none());
}

/// A name that leads into our own network is refused with every connection, not only at the start.
#[test]
fn a_name_of_our_own_network_is_not_called() {
    let hook = Hook::start();
    let url = format!("http://localhost:{}/hook", hook.address.port());
    let settings = [
        ("GUERDON_OUTBOX__SINK", "webhook"),
        ("GUERDON_OUTBOX__URL", url.as_str()),
        ("GUERDON_WEBHOOKS__PRIVATE_ADDRESSES", "refuse"),
    ];
    let cluster = Cluster::start_with(TestEngine::Sqlite, 1, &settings);
    open_and_close(&cluster.operator(0), "a");
    until("the refusal to be logged", PATIENCE, || {
        cluster.servers[0].log_text().contains("localhost has no public address").then_some(())
    });
    assert!(hook.calls().is_empty());
}
