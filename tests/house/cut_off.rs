//! A COMMIT whose answer is lost on the way: the effect is there once, and the caller learns it.

use crate::invariants;
use crate::support::{BINARY, at_once, operator};
use guerdon_harness::api::drop_body;
use guerdon_harness::proxy::Cut;
use guerdon_harness::{Proxy, Server, ServerOptions, TestDatabase, TestEngine, until};
use std::time::Duration;

/// Two servers, each behind a proxy of its own; the first one's line is cut at its next COMMIT.
fn cut_at_commit(cut: Cut) {
    let database = TestDatabase::new(TestEngine::Postgres);
    let address = database.url.split('@').nth(1).and_then(|rest| rest.split('/').next()).unwrap();
    let proxies = [Proxy::start(address.parse().unwrap()), Proxy::start(address.parse().unwrap())];
    let servers =
        proxies.each_ref().map(|proxy| Server::start(BINARY, &ServerOptions::on(&proxy.url(&database.url))));
    for round in 0..3 {
        proxies[0].arm(cut, &format!("e_{round}_"));
        let answers = at_once(12, |number| {
            let body = drop_body(&format!("e_{round}_{number}"));
            operator(&servers[number % 2]).post("/v1/admin/events", &body)
        });
        assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
        until("the line to be cut", Duration::from_secs(5), || {
            (proxies[0].cuts() == round + 1).then_some(())
        });
    }
    assert_eq!(database.sql().number("SELECT COUNT(*) FROM events"), 36, "each once");
    assert!((servers[0].api().metric("guerdon_store_unknown_commits_total") - 3.0).abs() < 0.1);
    invariants::check(&database);
}

#[test]
fn postgres_commit_was_made() {
    cut_at_commit(Cut::AfterCommit);
}

#[test]
fn postgres_commit_never_arrived() {
    cut_at_commit(Cut::BeforeCommit);
}
