//! Connections that misbehave: slow, silent, oversized, broken.

use crate::support::{BINARY, operator, token};
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

struct Fixture {
    _database: TestDatabase,
    server: Server,
}

/// A server with little patience.
fn impatient() -> Fixture {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_HTTP__HEADER_TIMEOUT", "400ms")
        .with("GUERDON_HTTP__BODY_TIMEOUT", "400ms")
        .with("GUERDON_HTTP__BODY_BYTES_MAX", "2048");
    Fixture { server: Server::start(BINARY, &options), _database: database }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// All that comes until the server hangs up.
fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => {
            panic!("the server does not hang up: {error}")
        }
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

fn request(server: &Server, extra: &str) -> String {
    let token = token("op", "OPERATOR");
    let address = server.address.trim_start_matches("http://");
    format!(
        "POST /v1/admin/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n{extra}\r\n"
    )
}

#[test]
fn headers_that_never_end_are_cut_off() {
    let fixture = impatient();
    let mut stream = connect(&fixture.server);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").unwrap();
    assert!(!read_to_end(&mut stream).contains("200 OK"));
}

#[test]
fn a_connection_that_says_nothing_more_is_closed() {
    let fixture = impatient();
    let mut stream = connect(&fixture.server);
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert!(read_to_end(&mut stream).contains("alive"), "answered, and closed some time after");
}

#[test]
fn a_body_that_never_ends_is_a_408() {
    let fixture = impatient();
    let mut stream = connect(&fixture.server);
    let head = request(&fixture.server, "content-type: application/json\r\ncontent-length: 100\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"{\"eventId\":").unwrap();
    let answer = read_to_end(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("REQUEST_TIMEOUT"), "{answer}");
}

#[test]
fn a_body_that_is_too_large_is_a_413_whether_announced_or_not() {
    let fixture = impatient();
    let large = format!("{{\"name\": \"{}\"}}", "x".repeat(4_000));
    let answer = operator(&fixture.server).send("POST", "/v1/admin/events", &[], Some(&large)).expect(413);
    assert_eq!(answer.code(), "BODY_TOO_LARGE");
    let mut stream = connect(&fixture.server);
    let head = request(&fixture.server, "content-type: application/json\r\ntransfer-encoding: chunked\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..4 {
        // The server may have answered and hung up already.
        let _ = stream.write_all(format!("400\r\n{}\r\n", "x".repeat(1024)).as_bytes());
    }
    let _ = stream.write_all(b"0\r\n\r\n");
    let answer = read_to_end(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("BODY_TOO_LARGE"), "{answer}");
}

#[test]
fn a_body_that_breaks_off_writes_nothing_and_harms_nobody() {
    let fixture = impatient();
    for _ in 0..20 {
        let mut stream = connect(&fixture.server);
        let head = request(&fixture.server, "content-type: application/json\r\ncontent-length: 100\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(b"{").unwrap();
        drop(stream);
    }
    let mut stream = connect(&fixture.server);
    stream.write_all(b"\x16\x03\x01 this is not HTTP\r\n\r\n").unwrap();
    assert!(read_to_end(&mut stream).starts_with("HTTP/1.1 400"));
    assert_eq!(fixture.server.api().get("/readyz").status, 200);
    let events = operator(&fixture.server).get("/v1/admin/events").expect(200).json();
    assert!(events["items"].as_array().unwrap().is_empty());
}

#[test]
fn every_answer_carries_its_request_id() {
    let fixture = impatient();
    let api = fixture.server.api();
    let own = api.send("GET", "/nowhere", &[("x-request-id", "mine-1")], None).expect(404);
    assert_eq!(own.header("x-request-id"), Some("mine-1"));
    assert_eq!(own.json()["instance"], "mine-1");
    for odd in ["with space", "<script>", &"x".repeat(100)] {
        let answer = api.send("GET", "/healthz", &[("x-request-id", odd)], None).expect(200);
        let id = answer.header("x-request-id").unwrap();
        assert!(id != odd && id.len() == 36, "{id}");
    }
}

/// A call that needs no body, or is refused before it is read, leaves the connection fit for the next one.
#[test]
fn a_connection_survives_bodies_that_nobody_needs() {
    let fixture = impatient();
    let mut stream = connect(&fixture.server);
    let answer = |stream: &mut TcpStream| {
        let mut bytes = vec![0; 4_096];
        let count = stream.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    for (path, token, status) in [
        ("/v1/admin/events", "nonsense".to_owned(), "401"),
        ("/v1/admin/events/nope/open", token("op", "OPERATOR"), "404"),
        ("/v1/events/nope/requests", token("u-1", "USER"), "404"),
        ("/v1/admin/events", token("u-1", "USER"), "403"),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: 20\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.flush().unwrap();
        // The body comes in a packet of its own.
        std::thread::park_timeout(Duration::from_millis(50));
        stream.write_all(&[b' '; 20]).unwrap();
        let said = answer(&mut stream);
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {said}");
    }
}
