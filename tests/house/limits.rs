//! Whoever calls too often is told so, and keeps nobody else from calling.

use crate::support::{as_user, on_sqlite, operator, seconds_now, token};
use guerdon_harness::{Answer, Server, until};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A lottery that is drawn in an hour.
fn open_lottery(server: &Server) {
    let cutoff = (seconds_now() + 3_600) * 1_000;
    let lottery = json!({"eventId": "lot", "name": "L", "type": "LOTTERY", "startsAt": 0, "endsAt": cutoff,
        "lotteryCutoffAt": cutoff, "capacityTotal": 1});
    operator(server).post("/v1/admin/events", &lottery).expect(201);
    operator(server).post("/v1/admin/events/lot/open", &json!({})).expect(200);
}

/// Calls until one is refused, which has to come soon.
fn until_refused(mut call: impl FnMut() -> Answer) -> (usize, Answer) {
    for count in 0..200 {
        let answer = call();
        if answer.status == 429 {
            return (count, answer);
        }
    }
    panic!("nothing was refused");
}

#[test]
fn one_user_has_a_budget_for_writing_and_one_for_looking() {
    let (_database, server) = on_sqlite(&[("GUERDON_LIMITS__PER_USER", "5")]);
    crate::support::open_drop(&operator(&server), "drop_1", 10);
    let (eager, other) = (as_user(&server, 1), as_user(&server, 2));
    let first = eager.get("/v1/events").expect(200);
    assert_eq!(first.header("ratelimit-policy"), Some("\"user\";q=5;w=1"));
    assert_eq!(first.header("ratelimit"), Some("\"user\";r=4;t=1"));
    let (_, refused) = until_refused(|| eager.get("/v1/events"));
    assert_eq!(refused.code(), "RATE_LIMITED");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("ratelimit"), Some("\"user\";r=0;t=1"));
    eager.post("/v1/events/drop_1/requests", &json!({})).expect(202);
    other.get("/v1/events").expect(200);
    // Whoever runs the event is not counted.
    for _ in 0..50 {
        operator(&server).get("/v1/admin/events").expect(200);
    }
    until("the budget to fill again", Duration::from_secs(10), || {
        (eager.get("/v1/events").status == 200).then_some(())
    });
    // A refused call changes nothing.
    let summary = || operator(&server).get("/v1/admin/events/drop_1/summary").expect(200).json();
    let (tries, _) = until_refused(|| other.post("/v1/events/drop_1/requests", &json!({})));
    assert!(tries >= 5, "{tries}");
    assert_eq!(summary()["byStatus"]["SUCCEEDED"], 2);
}

#[test]
fn an_address_has_a_budget_and_only_known_proxies_may_name_another() {
    let (_database, server) = on_sqlite(&[("GUERDON_LIMITS__PER_ADDRESS", "5")]);
    let from = |address: &str| server.api().send("GET", "/v1/events", &[("x-forwarded-for", address)], None);
    let mut number = 0;
    let (_, refused) = until_refused(|| {
        number += 1;
        from(&format!("198.51.100.{number}"))
    });
    assert_eq!(refused.code(), "RATE_LIMITED", "whatever a stranger says of where it comes from");
    server.api().get("/healthz").expect(200);

    let proxied = [("GUERDON_LIMITS__PER_ADDRESS", "5"), ("GUERDON_HTTP__TRUSTED_PROXIES", "127.0.0.0/8")];
    let (_database, server) = on_sqlite(&proxied);
    let from =
        |value: &str| server.api().send("GET", "/v1/events", &[("x-forwarded-for", value)], None).status;
    for number in 1..=50 {
        assert_eq!(from(&format!("198.51.100.{number}")), 401, "each has a budget of its own");
    }
    let (_, refused) = until_refused(|| {
        number += 1;
        let invented = format!("203.0.113.{}, 198.51.100.77", number % 250);
        server.api().send("GET", "/v1/events", &[("x-forwarded-for", &invented)], None)
    });
    assert_eq!(refused.code(), "RATE_LIMITED", "what stands before the last stranger is invented");
    // The header that the proxies do not write is whoever's.
    let (_, refused) = until_refused(|| {
        number += 1;
        let sent = [("forwarded", format!("for=203.0.113.{}", number % 250))];
        server.api().send("GET", "/v1/events", &[(sent[0].0, &sent[0].1)], None)
    });
    assert_eq!(refused.code(), "RATE_LIMITED");
    for path in ["/healthz", "/readyz"] {
        server.api().get(path).expect(200);
    }
}

/// While people wait, others of them are turned away at once, and operators get through.
#[test]
fn beyond_what_it_takes_the_server_turns_people_away_and_lets_operators_through() {
    let (_database, server) = on_sqlite(&[("GUERDON_LIMITS__UNDERWAY", "2")]);
    open_lottery(&server);
    std::thread::scope(|scope| {
        let server = &server;
        let waiting: Vec<_> = (1..=2)
            .map(|number| {
                scope.spawn(move || {
                    let prefer = [("prefer", "wait=30")];
                    as_user(server, number).send("POST", "/v1/events/lot/requests", &prefer, Some("{}"))
                })
            })
            .collect();
        // Once both are in line, both wait: a look before that could take the place of one.
        until("both to be in line", Duration::from_secs(20), || {
            let summary = operator(server).get("/v1/admin/events/lot/summary").expect(200).json();
            (summary["byStatus"]["QUEUED"] == 2).then_some(())
        });
        let refused = as_user(server, 3).get("/v1/events").expect(503);
        assert_eq!(refused.code(), "OVERLOADED");
        assert!(refused.header("retry-after").is_some());
        server.api().get("/healthz").expect(200);
        operator(server).get("/v1/admin/events/lot/summary").expect(200);
        operator(server).post("/v1/admin/events/lot/cancel", &json!({})).expect(200);
        for one in waiting {
            one.join().unwrap().expect(200);
        }
    });
    as_user(&server, 3).get("/v1/events").expect(200);
}

/// A stream is one of its user's calls for as long as it lasts, and keeps nobody else out.
#[test]
fn one_user_cannot_have_streams_without_number() {
    let (_database, server) =
        on_sqlite(&[("GUERDON_LIMITS__PER_USER", "3"), ("GUERDON_LIMITS__UNDERWAY", "3")]);
    open_lottery(&server);
    let user = as_user(&server, 1);
    let request = user.post("/v1/events/lot/requests", &json!({})).expect(202).json();
    let path = format!("/v1/requests/{}/stream", request["requestId"].as_str().unwrap());
    let open = || {
        let mut stream = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let token = token("u-1", "USER");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n").unwrap();
        let mut stream = BufReader::new(stream);
        let mut status = String::new();
        stream.read_line(&mut status).unwrap();
        status.contains("200").then_some(stream)
    };
    // Three a second may look, so the third may have to wait.
    let streams: Vec<_> = (0..3).map(|_| until("a stream", Duration::from_secs(10), open)).collect();
    let full = || user.post("/v1/events/lot/requests", &json!({}));
    until("the user to have too many under way", Duration::from_secs(10), || {
        let answer = full();
        (answer.status == 429 && answer.text.contains("under way")).then_some(())
    });
    as_user(&server, 2).get("/v1/events").expect(200);
    drop(streams);
    until("the streams to be given back", Duration::from_secs(30), || (full().status == 200).then_some(()));
}
