//! A hostile internet: connections that hold on, bodies without end, JSON that unfolds, paths that lead elsewhere.

use crate::support::{as_user, on_sqlite, operator, token};
use guerdon_harness::{Server, until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

#[test]
fn five_thousand_connections_that_say_nothing_hold_nobody_up() {
    // With the usual ten seconds the first would be hung up on before the last is there.
    let (_database, server) = on_sqlite(&[("GUERDON_HTTP__HEADER_TIMEOUT", "60s")]);
    let mut idle = Vec::new();
    for number in 0..5_000 {
        let mut stream = connect(&server);
        if number % 2 == 0 {
            stream.write_all(b"GET /v1/events HTTP/1.1\r\nhost: x\r\nx-slow: ").unwrap();
        }
        idle.push(stream);
    }
    until("all of them to be let in", Duration::from_secs(20), || {
        (server.api().metric("guerdon_http_connections") > 5_000.5).then_some(())
    });
    let started = Instant::now();
    for number in 0..50 {
        as_user(&server, number).get("/v1/events").expect(200);
        operator(&server).get("/v1/admin/events").expect(200);
    }
    // Not a figure, only that nothing waits for the idle ones' time to be over.
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    drop(idle);
    until("all of them to be gone", Duration::from_secs(20), || {
        (server.api().metric("guerdon_http_connections") < 10.0).then_some(())
    });
}

#[test]
fn a_hundred_megabytes_are_not_taken() {
    let (_database, server) = on_sqlite(&[]);
    let token = token("op", "OPERATOR");
    for announced in [true, false] {
        let mut stream = connect(&server);
        let length = if announced { "content-length: 104857600" } else { "transfer-encoding: chunked" };
        write!(stream, "POST /v1/admin/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\n{length}\r\n\r\n").unwrap();
        let block = vec![b'['; 65_536];
        let mut sent = 0;
        while sent < 104_857_600 {
            let done = if announced {
                stream.write_all(&block)
            } else {
                write!(stream, "10000\r\n")
                    .and_then(|()| stream.write_all(&block))
                    .and_then(|()| stream.write_all(b"\r\n"))
            };
            if done.is_err() {
                break;
            }
            sent += block.len();
        }
        assert!(sent < 60_000_000, "{sent} bytes were taken");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.contains("413"), "{answer}");
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 400_000, "{peak} kB");
    operator(&server).get("/v1/admin/events").expect(200);
}

#[test]
fn json_that_unfolds_is_refused() {
    let (_database, server) = on_sqlite(&[]);
    let api = operator(&server);
    let many = format!("{{{}}}", (0..20_000).map(|n| format!("\"k{n}\":1")).collect::<Vec<_>>().join(","));
    let long = format!("{{\"eventId\": {}}}", "9".repeat(200_000));
    let exponent = "{\"capacityTotal\": 1e999999999}".to_owned();
    let repeated = format!("{{{}}}", vec!["\"name\":\"x\""; 10_000].join(","));
    let deep = format!("{}1{}", "{\"a\":".repeat(30_000), "}".repeat(30_000));
    for body in [many, long, exponent, repeated, deep] {
        let started = Instant::now();
        let answer = api.send("POST", "/v1/admin/events", &[], Some(&body));
        assert!(matches!(answer.status, 400 | 413 | 422), "{}", answer.text);
        assert!(answer.text.len() < 10_000, "the answer does not repeat it");
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn paths_lead_nowhere_else() {
    let (_database, server) = on_sqlite(&[]);
    let token = token("u-1", "USER");
    for path in [
        "/v1/../v1/admin/events",
        "/v1/admin%2fevents",
        "/v1/%61dmin/events",
        "//v1/admin/events",
        "/v1/admin/events/",
        "/v1/events/..%2f..%2fadmin%2fevents",
        "/v1/requests/..%2f..%2fadmin/stream",
        "/docs/errors/../../../../etc/passwd",
        "/docs/errors/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/docs/errors/%2e%2e/%2e%2e/Cargo.toml",
        "/v1/events/%00",
        "/v1/events/a%0d%0aset-cookie:x",
        "/v1/admin/events;x=1",
        "/V1/ADMIN/EVENTS",
        "/v1\\admin\\events",
    ] {
        let mut stream = connect(&server);
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(matches!(status, "400" | "403" | "404"), "{path}: {answer}");
        assert!(!answer.contains("root:") && !answer.contains("set-cookie"), "{path}: {answer}");
    }
}

#[test]
fn more_headers_than_a_client_needs_are_refused() {
    let (_database, server) = on_sqlite(&[]);
    let mut stream = connect(&server);
    let headers: Vec<_> = (0..500).map(|number| format!("x-{number}: 1\r\n")).collect();
    let headers = headers.concat();
    write!(stream, "GET /healthz HTTP/1.1\r\nhost: x\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
}
