//! The gateway: what it passes on, what it never does, and servers that believe nobody else.

use crate::support::{BINARY, Cluster, at_once, open_drop, operator, token};
use guerdon_harness::{Api, Hook, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const SECRET: &str = "a-secret-between-gateway-and-servers";
pub(crate) const BEHIND: [(&str, &str); 2] =
    [("GUERDON_IDENTITY", "trusted-headers"), ("GUERDON_GATEWAY__SECRET", SECRET)];

fn gateway(upstreams: &[&str]) -> Server {
    gateway_with(upstreams, &[])
}

/// A gateway with settings of its own, by their environment variables.
pub(crate) fn gateway_with(upstreams: &[&str], settings: &[(&str, &str)]) -> Server {
    let mut options = ServerOptions::gateway(upstreams)
        .with("GUERDON_GATEWAY__SECRET", SECRET)
        .with("GUERDON_GATEWAY__HEALTH_INTERVAL", "100ms")
        .with("GUERDON_HTTP__BODY_TIMEOUT", "500ms");
    for (name, value) in settings {
        options = options.with(name, value);
    }
    let gateway = Server::start(BINARY, &options);
    until("the gateway to know its servers", Duration::from_secs(10), || {
        (gateway.api().get("/metrics").text.contains("} 1")).then_some(())
    });
    gateway
}

struct Fixture {
    server: Server,
    gateway: Server,
    _database: TestDatabase,
}

fn fixture() -> Fixture {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let mut options = ServerOptions::on(&database.url);
    for (name, value) in BEHIND {
        options = options.with(name, value);
    }
    let server = Server::start(BINARY, &options);
    let gateway = gateway(&[&server.address]);
    Fixture { server, gateway, _database: database }
}

fn somebody(server: &Server, name: &str) -> Api {
    server.api().with_token(&token(name, "USER"))
}

#[test]
fn identity_is_the_tokens_whatever_else_is_sent() {
    let fixture = fixture();
    open_drop(&operator(&fixture.gateway), "drop_1", 10);
    let forged = [
        ("x-user-id", "victim"),
        ("X-User-Id", "victim"),
        ("x_user_id", "victim"),
        ("x-user-roles", "ADMIN"),
        ("x-user-name", "x"),
        ("x-gateway-signature", "v1.1.a.b"),
        ("x-gateway-signature", "v1.2.a.b"),
        ("connection", "x-user-id, x-gateway-signature"),
    ];
    let applied =
        somebody(&fixture.gateway, "u-1").send("POST", "/v1/events/drop_1/requests", &forged, Some("{}"));
    assert_eq!(applied.expect(202).json()["userId"], "u-1");
    somebody(&fixture.gateway, "u-1").send("GET", "/v1/admin/events", &forged, None).expect(403);
    for path in ["/v1/me/requests", "/v1/events", "/v1/admin/events", "/nothing", "/docs/../v1/me/requests"] {
        let refused = fixture.gateway.api().send("GET", path, &forged, None);
        assert_eq!(refused.status, 401, "{path}: {}", refused.text);
    }
    // Around the gateway nothing counts, not even a good token.
    for (name, value) in forged {
        let answer = fixture.server.api().send("GET", "/v1/me/requests", &[(name, value)], None);
        assert_eq!(answer.status, 401, "{name}");
    }
    somebody(&fixture.server, "u-1").get("/v1/me/requests").expect(401);
    fixture.gateway.api().get("/openapi.json").expect(200);
    fixture.gateway.api().get("/readyz").expect(200);
    assert_eq!(fixture.gateway.api().with_token("nonsense").get("/openapi.json").status, 401);
    let name = somebody(&fixture.gateway, "u-2").get("/v1/me/requests").expect(200);
    assert_eq!(name.json()["items"], json!([]), "each sees what is theirs");
}

/// What the gateway sends, as an upstream sees it.
fn taken_by_a_stranger(call: impl FnOnce(&Server)) -> Vec<guerdon_harness::hook::Call> {
    let upstream = Hook::start();
    let gateway = gateway(&[&format!("http://{}", upstream.address)]);
    let before = upstream.calls().len();
    call(&gateway);
    drop(gateway);
    upstream
        .calls()
        .split_off(before)
        .into_iter()
        .filter(|call| call.headers.contains_key("x-user-id"))
        .collect()
}

#[test]
fn a_signature_is_good_once_for_one_call() {
    let fixture = fixture();
    let calls = taken_by_a_stranger(|gateway| {
        somebody(gateway, "u-1").get("/v1/me/requests?limit=3");
    });
    let headers = &calls.last().unwrap().headers;
    assert!(!headers.contains_key("authorization"), "the token stays at the gateway");
    let signed: Vec<_> = ["x-user-id", "x-user-roles", "x-user-name", "x-gateway-signature"]
        .iter()
        .map(|name| (*name, headers[*name].as_str()))
        .collect();
    let api = fixture.server.api();
    let other_path = api.send("GET", "/v1/me/requests?limit=4", &signed, None);
    assert_eq!(other_path.status, 401);
    let other_method = api.send("POST", "/v1/me/requests?limit=3", &signed, Some("{}"));
    assert!(other_method.status == 405 || other_method.status == 401);
    let mut promoted = signed.clone();
    promoted[1].1 = "ADMIN";
    api.send("GET", "/v1/me/requests?limit=3", &promoted, None).expect(401);
    let mut doubled = signed.clone();
    doubled.push(("x-user-id", "victim"));
    api.send("GET", "/v1/me/requests?limit=3", &doubled, None).expect(401);
    api.send("GET", "/v1/me/requests?limit=3", &signed, None).expect(200);
    let again = api.send("GET", "/v1/me/requests?limit=3", &signed, None).expect(401);
    assert!(again.text.contains("used before"), "{}", again.text);
}

#[test]
fn a_signature_that_is_too_old_is_refused() {
    let calls = taken_by_a_stranger(|gateway| {
        somebody(gateway, "u-1").get("/v1/me/requests");
    });
    let database = TestDatabase::new(TestEngine::Sqlite);
    let mut options = ServerOptions::on(&database.url).with("GUERDON_DEV__CLOCK_OFFSET", "1m");
    for (name, value) in BEHIND {
        options = options.with(name, value);
    }
    let later = Server::start(BINARY, &options);
    let headers: Vec<_> =
        calls.last().unwrap().headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let signed: Vec<_> = headers.into_iter().filter(|(name, _)| name.starts_with("x-")).collect();
    let refused = later.api().send("GET", "/v1/me/requests", &signed, None).expect(401);
    assert!(refused.text.contains("too old"), "{}", refused.text);
}

/// Requests that two parsers could read in two ways: whatever becomes of them, the server never sees more than was asked.
#[test]
fn nothing_is_smuggled_past_it() {
    let admin = "GET /v1/admin/events HTTP/1.1\r\nhost: x\r\nx-user-roles: ADMIN\r\n\r\n";
    let token = token("u-1", "USER");
    let head = |extra: &str| {
        format!(
            "POST /v1/events/d/requests HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{extra}\r\n"
        )
    };
    let chunk = format!("0\r\n\r\n{admin}");
    let shapes = [
        head(&format!("content-length: {}\r\ntransfer-encoding: chunked\r\n", chunk.len())) + &chunk,
        head(&format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n", chunk.len())) + &chunk,
        head(&format!("content-length: 0\r\ncontent-length: {}\r\n", admin.len())) + admin,
        head(&format!("content-length: +{}\r\n", admin.len())) + admin,
        head("transfer-encoding: xchunked\r\n") + &chunk,
        head("transfer-encoding: chunked, identity\r\n") + &chunk,
        head("transfer-encoding : chunked\r\n") + &chunk,
        head("transfer-encoding:\x0bchunked\r\n") + &chunk,
        head("x-a: b\r\n transfer-encoding: chunked\r\n") + &chunk,
        head("transfer-encoding: chunked\r\n") + &format!("0;a=\"\r\n\r\n{admin}"),
        head("transfer-encoding: chunked\r\n") + &format!("fffffffffffffffff1\r\n{admin}"),
        format!(
            "GET http://evil.example/v1/admin/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
        ),
        format!("GET * HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"),
        format!("OPTIONS * HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"),
        format!("CONNECT evil.example:80 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"),
        format!("GET http://evil.example?y HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"),
        format!(
            "GET /v1/events\r\nx-user-id: victim HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
        ),
    ];
    for shape in shapes {
        let calls = taken_by_a_stranger(|gateway| {
            let mut stream = TcpStream::connect(gateway.address.trim_start_matches("http://")).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
            stream.write_all(shape.as_bytes()).unwrap();
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
            let up = gateway.api().get("/metrics").text.contains("} 1");
            assert!(up, "{shape:?} makes the gateway lose its server");
        });
        assert!(calls.len() <= 1, "{shape:?}: {calls:?}");
        for call in calls {
            assert_eq!(call.headers["x-user-id"], "u-1", "{shape:?}");
            assert_eq!(call.headers["x-user-roles"], "USER", "{shape:?}");
            assert!(!call.headers.contains_key("transfer-encoding"), "{shape:?}");
        }
    }
}

#[test]
fn what_is_too_large_or_too_slow_ends_at_the_gateway() {
    let calls = taken_by_a_stranger(|gateway| {
        let api = somebody(gateway, "u-1");
        let huge = format!("\"{}\"", "x".repeat(300_000));
        assert_eq!(api.send("POST", "/v1/transfers", &[], Some(&huge)).code(), "BODY_TOO_LARGE");
        let mut stream = TcpStream::connect(gateway.address.trim_start_matches("http://")).unwrap();
        let token = token("u-1", "USER");
        write!(stream, "POST /v1/transfers HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 9\r\n\r\n{{")
            .unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert!(answer.contains("408"), "{answer}");
    });
    assert!(calls.is_empty(), "{calls:?}");
}

/// A stream is passed on as it comes, not when it ends.
#[test]
fn streams_flow_through_it() {
    let fixture = fixture();
    let cutoff = (crate::support::seconds_now() + 3_600) * 1_000;
    let lottery = json!({"eventId": "lot", "name": "L", "type": "LOTTERY", "startsAt": 0, "endsAt": cutoff,
        "lotteryCutoffAt": cutoff, "capacityTotal": 1});
    let api = operator(&fixture.gateway);
    api.post("/v1/admin/events", &lottery).expect(201);
    api.post("/v1/admin/events/lot/open", &json!({})).expect(200);
    let request =
        somebody(&fixture.gateway, "u-1").post("/v1/events/lot/requests", &json!({})).expect(202).json();
    let id = request["requestId"].as_str().unwrap();
    let mut stream = TcpStream::connect(fixture.gateway.address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let token = token("u-1", "USER");
    write!(
        stream,
        "GET /v1/requests/{id}/stream HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut until_line = |wanted: &str| {
        lines
            .by_ref()
            .map(|line| line.unwrap())
            .find(|line| line.contains(wanted))
            .unwrap_or_else(|| panic!("{wanted}"))
    };
    until_line("text/event-stream");
    until_line("QUEUED");
    api.post("/v1/admin/events/lot/cancel", &json!({})).expect(200);
    until_line("REJECTED_EVENT_CANCELLED");
}

#[test]
fn without_a_server_it_says_so_and_comes_back_by_itself() {
    let address = format!("127.0.0.1:{}", guerdon_harness::free_port());
    let gateway = Server::start(
        BINARY,
        &ServerOptions::gateway(&[&format!("http://{address}")])
            .with("GUERDON_GATEWAY__SECRET", SECRET)
            .with("GUERDON_GATEWAY__HEALTH_INTERVAL", "100ms"),
    );
    let call = || somebody(&gateway, "u-1").get("/v1/events");
    let refused = call();
    assert_eq!((refused.status, refused.code().as_str()), (503, "UPSTREAM_UNAVAILABLE"));
    assert!(refused.header("retry-after").is_some());
    gateway.api().get("/healthz").expect(200);
    let database = TestDatabase::new(TestEngine::Sqlite);
    let mut options = ServerOptions::on(&database.url).with("GUERDON_LISTEN", &address);
    for (name, value) in BEHIND {
        options = options.with(name, value);
    }
    let server = Server::start(BINARY, &options);
    until("the server to be found", Duration::from_secs(10), || (call().status == 200).then_some(()));
    server.kill();
    until("its end to be noticed", Duration::from_secs(10), || {
        (call().code() == "UPSTREAM_UNAVAILABLE").then_some(())
    });
}

/// One of two servers dies under load: whoever was told that it was done finds it done, and soon nobody notices any more.
#[test]
fn postgres_one_of_two_servers_dies_behind_it() {
    const PEOPLE: usize = 400;
    let mut cluster = Cluster::start_with(TestEngine::Postgres, 2, &BEHIND);
    let gateway = gateway(&[&cluster.servers[0].address, &cluster.servers[1].address]);
    until("both to be known", Duration::from_secs(10), || {
        let text = gateway.api().get("/metrics").text;
        (text.matches("} 1").count() == 2).then_some(())
    });
    open_drop(&operator(&gateway), "drop_1", 50);
    let victim = cluster.servers.pop().unwrap();
    let apply = |number: usize| {
        let api = somebody(&gateway, &format!("u-{number}"));
        until("an answer that is final", Duration::from_secs(20), || {
            let answer = api.post("/v1/events/drop_1/requests", &json!({}));
            assert!(matches!(answer.status, 200 | 202 | 502 | 503), "{}", answer.text);
            (answer.status < 300).then_some(())
        });
    };
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            at_once(8, |caller| {
                for number in (caller..PEOPLE).step_by(8) {
                    apply(number);
                }
            });
        });
        until("the load to be under way", Duration::from_secs(20), || {
            let summary = operator(&gateway).get("/v1/admin/events/drop_1/summary").json();
            (summary["byStatus"]["SUCCEEDED"].as_i64() > Some(5)).then_some(())
        });
        victim.kill();
        load.join().unwrap();
    });
    let summary = operator(&gateway).get("/v1/admin/events/drop_1/summary").expect(200).json();
    assert_eq!(summary["byResultCode"], json!({"SUCCESS": 50, "REJECTED_CAPACITY": PEOPLE - 50}));
    for _ in 0..20 {
        somebody(&gateway, "u-1").get("/v1/events").expect(200);
    }
}

#[test]
fn what_is_missing_is_told_at_the_start() {
    for (options, wanted) in [
        (ServerOptions::gateway(&["http://127.0.0.1:1"]), "gateway.secret is not set"),
        (ServerOptions::gateway(&[]).with("GUERDON_GATEWAY__SECRET", SECRET), "--upstream"),
        (
            ServerOptions::gateway(&["ftp://x"]).with("GUERDON_GATEWAY__SECRET", SECRET),
            "must be written as http://HOST:PORT",
        ),
        (
            ServerOptions::gateway(&["http://x:1"]).with("GUERDON_GATEWAY__SECRET", "short"),
            "at least 32 bytes",
        ),
        (
            ServerOptions::gateway(&["http://x:1"])
                .with("GUERDON_GATEWAY__SECRET", SECRET)
                .with("GUERDON_IDENTITY", "trusted-headers")
                .with("GUERDON_LISTEN", "0.0.0.0:0")
                .with("GUERDON_AUTH__SECRET", "guerdon-development-secret-for-loopback-only"),
            "the development secret",
        ),
        (
            ServerOptions::on("sqlite:x.db").with("GUERDON_IDENTITY", "trusted-headers"),
            "gateway.secret is not set",
        ),
    ] {
        let Err(said) = Server::try_start(BINARY, &options) else { panic!("it started without {wanted}") };
        assert!(said.contains(wanted), "{said}");
    }
}
