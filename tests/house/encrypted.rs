//! HTTPS, with a certificate from a file.

use crate::support::{BINARY, token};
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A certificate of its own making, for 127.0.0.1.
fn certificate(folder: &Path) -> (String, String) {
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate.to_str().unwrap().into(), key.to_str().unwrap().into())
}

fn over_tls(address: &str, trusted: &str, protocol: &str, request: &str) -> (bool, String) {
    let mut client = Command::new("openssl")
        .args([
            "s_client",
            "-quiet",
            "-verify_return_error",
            "-verify_ip",
            "127.0.0.1",
            "-CAfile",
            trusted,
            protocol,
        ])
        .args(["-connect", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl");
    // It may have hung up already.
    let _ = client.stdin.as_mut().unwrap().write_all(request.as_bytes());
    let output = client.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn calls_over_tls_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_TLS__CERTIFICATE", &certificate)
        .with("GUERDON_TLS__KEY", &key)
        .with("GUERDON_HTTP__HEADER_TIMEOUT", "2s");
    let server = Server::start(BINARY, &options);
    let address = server.address.strip_prefix("https://").expect("an address of HTTPS").to_owned();
    let token = token("u-1", "USER");
    let request = format!(
        "GET /v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    for protocol in ["-tls1_2", "-tls1_3"] {
        let (_, answer) = over_tls(&address, &certificate, protocol, &request);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{protocol}: {answer}");
    }
    let (_, answer) = over_tls(&address, &certificate, "-tls1_1", &request);
    assert!(!answer.contains("200 OK"), "an old protocol: {answer}");
    // Whoever speaks plainly, or not at all, is hung up on.
    for said in [request.as_str(), ""] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{said:?}");
    }
    assert_eq!(server.stop(), Some(0), "a server with TLS stops as any other");
}

#[test]
fn certificates_that_cannot_be_used_are_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = certificate(folder.path());
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let empty = empty.to_str().unwrap();
    for (certificate, key, wanted) in [
        (Some(certificate.as_str()), None, "tls.key is not set"),
        (None, Some(key.as_str()), "tls.certificate is not set"),
        (Some("nowhere.pem"), Some(key.as_str()), "nowhere.pem"),
        (Some(empty), Some(key.as_str()), "no certificate"),
        (Some(certificate.as_str()), Some(empty), "empty.pem"),
    ] {
        let database = TestDatabase::new(TestEngine::Sqlite);
        let mut options = ServerOptions::on(&database.url);
        for (name, value) in [("GUERDON_TLS__CERTIFICATE", certificate), ("GUERDON_TLS__KEY", key)] {
            if let Some(value) = value {
                options = options.with(name, value);
            }
        }
        let Err(said) = Server::try_start(BINARY, &options) else { panic!("it started: {wanted}") };
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}
