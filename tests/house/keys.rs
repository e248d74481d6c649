//! Tokens for public keys: from a file, from an address, changed, gone, and attacked.

use crate::support::{BINARY, seconds_now, sign_with};
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine, until};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Signer {
    kid: &'static str,
    algorithm: Algorithm,
    key: EncodingKey,
}

impl Signer {
    fn rsa() -> Self {
        let key = EncodingKey::from_rsa_der(include_bytes!("keys/rsa.der"));
        Self { kid: "rsa-1", algorithm: Algorithm::RS256, key }
    }

    fn ec() -> Self {
        let key = EncodingKey::from_ec_der(include_bytes!("keys/ec.der"));
        Self { kid: "ec-1", algorithm: Algorithm::ES256, key }
    }

    fn ed() -> Self {
        let key = EncodingKey::from_ed_der(include_bytes!("keys/ed.der"));
        Self { kid: "ed-1", algorithm: Algorithm::EdDSA, key }
    }

    fn other() -> Self {
        let key = EncodingKey::from_ed_der(include_bytes!("keys/other.der"));
        Self { kid: "ed-2", algorithm: Algorithm::EdDSA, key }
    }

    fn published(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).unwrap();
        jwk.common.key_id = Some(self.kid.into());
        serde_json::to_value(jwk).unwrap()
    }

    fn token(&self, role: &str) -> String {
        self.token_with(self.algorithm, Some(self.kid), role)
    }

    fn token_with(&self, algorithm: Algorithm, kid: Option<&str>, role: &str) -> String {
        let mut header = Header::new(algorithm);
        header.kid = kid.map(str::to_owned);
        let claims = json!({"sub": "u-1", "roles": [role], "exp": seconds_now() + 600});
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }
}

fn set(signers: &[&Signer]) -> String {
    json!({"keys": signers.iter().map(|signer| signer.published()).collect::<Vec<_>>()}).to_string()
}

/// A server that takes keys from a file, which the test can change.
struct Fixture {
    server: Server,
    file: PathBuf,
    _database: TestDatabase,
    _folder: tempfile::TempDir,
}

fn with_file(signers: &[&Signer]) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, set(signers)).unwrap();
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_AUTH__JWKS", file.to_str().unwrap())
        .with("GUERDON_AUTH__JWKS_REFRESH", "1s");
    Fixture { server: Server::start(BINARY, &options), file, _database: database, _folder: folder }
}

fn code(server: &Server, token: &str) -> (u16, String) {
    let answer = server.api().with_token(token).get("/v1/events");
    (answer.status, answer.code())
}

fn invalid() -> (u16, String) {
    (401, "TOKEN_INVALID".into())
}

#[test]
fn each_algorithm_and_no_other_way_in() {
    let (rsa, ec, ed, stranger) = (Signer::rsa(), Signer::ec(), Signer::ed(), Signer::other());
    let fixture = with_file(&[&rsa, &ec, &ed]);
    for signer in [&rsa, &ec, &ed] {
        for _ in 0..2 {
            assert_eq!(code(&fixture.server, &signer.token("USER")).0, 200, "{}", signer.kid);
        }
    }
    let public = rsa.published();
    let modulus = public["n"].as_str().unwrap();
    let confused = |secret: &str| {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some("rsa-1".into());
        let claims = json!({"sub": "u-1", "roles": ["ADMIN"], "exp": seconds_now() + 600});
        jsonwebtoken::encode(&header, &claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
    };
    let good = rsa.token("USER");
    let parts: Vec<_> = good.split('.').collect();
    let admin = rsa.token("ADMIN");
    for (case, token) in [
        ("a public key as a secret", confused(modulus)),
        ("a published key as a secret", confused(&public.to_string())),
        (
            "the development secret",
            sign_with(
                &json!({"sub": "u", "exp": 4e9}),
                Algorithm::HS256,
                "guerdon-development-secret-for-loopback-only",
            ),
        ),
        ("another's key under a known name", stranger.token_with(Algorithm::EdDSA, Some("ed-1"), "ADMIN")),
        ("the name of a key of another algorithm", ed.token_with(Algorithm::EdDSA, Some("rsa-1"), "ADMIN")),
        ("a key that is not known", stranger.token("ADMIN")),
        ("no key named", ed.token_with(Algorithm::EdDSA, None, "ADMIN")),
        ("none", format!("eyJhbGciOiJub25lIiwia2lkIjoicnNhLTEifQ.{}.", parts[1])),
        ("other claims", format!("{}.{}.{}", parts[0], admin.split('.').nth(1).unwrap(), parts[2])),
        (
            "another signature of the same key",
            format!("{}.{}.{}", parts[0], parts[1], admin.split('.').nth(2).unwrap()),
        ),
    ] {
        assert_eq!(code(&fixture.server, &token), invalid(), "{case}");
    }
    assert_eq!(code(&fixture.server, &good).0, 200);
    assert!(fixture.server.api().metric("guerdon_auth_keys") > 2.5);
}

/// With a secret of one's own, both are taken; the secret's tokens are what `guerdon token` makes.
#[test]
fn a_secret_that_was_chosen_counts_beside_public_keys() {
    let ed = Signer::ed();
    let fixture = with_file(&[&ed]);
    // The harness sets a secret, which is not the default.
    let shared = sign_with(
        &json!({"sub": "u-1", "exp": seconds_now() + 600}),
        Algorithm::HS256,
        guerdon_harness::server::SECRET,
    );
    assert_eq!(code(&fixture.server, &shared).0, 200);
    assert_eq!(code(&fixture.server, &ed.token("USER")).0, 200);
}

#[test]
fn a_key_that_is_new_is_found_and_one_that_left_is_refused() {
    let (ed, other) = (Signer::ed(), Signer::other());
    let fixture = with_file(&[&ed]);
    let (old, new) = (ed.token("USER"), other.token("USER"));
    assert_eq!(code(&fixture.server, &old).0, 200, "and remembered from now on");
    assert_eq!(code(&fixture.server, &new), invalid());
    std::fs::write(&fixture.file, set(&[&other])).unwrap();
    until("the new key to be known", Duration::from_secs(30), || {
        (code(&fixture.server, &new).0 == 200).then_some(())
    });
    assert_eq!(code(&fixture.server, &old), invalid(), "also where the token had been found good");
    // What cannot be read changes nothing.
    std::fs::write(&fixture.file, "{\"keys\": [").unwrap();
    until("the broken file to be read", Duration::from_secs(30), || {
        fixture.server.log_text().contains("could not be fetched").then_some(())
    });
    assert_eq!(code(&fixture.server, &new).0, 200);
}

#[test]
fn a_file_that_is_not_there_is_told_at_the_start() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url).with("GUERDON_AUTH__JWKS", "nowhere.json");
    let Err(said) = Server::try_start(BINARY, &options) else { panic!("it started") };
    assert!(said.contains("auth.jwks cannot be used: nowhere.json"), "{said}");
}

/// How a source of keys behaves.
#[derive(Clone)]
enum Behaves {
    Answers(String),
    Down,
    /// Says nothing.
    Hangs,
    /// Never stops talking.
    Floods,
}

struct Source {
    address: SocketAddr,
    behaves: Arc<Mutex<Behaves>>,
    asked: Arc<Mutex<usize>>,
}

impl Source {
    fn start(behaves: Behaves) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let source = Self {
            address: listener.local_addr().unwrap(),
            behaves: Arc::new(Mutex::new(behaves)),
            asked: Arc::default(),
        };
        let (behaves, asked) = (Arc::clone(&source.behaves), Arc::clone(&source.asked));
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let behaves = behaves.lock().unwrap().clone();
                *asked.lock().unwrap() += 1;
                std::thread::spawn(move || {
                    let mut request = [0; 2048];
                    let _ = client.read(&mut request);
                    let _ = match behaves {
                        Behaves::Answers(text) => write!(
                            client,
                            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
                            text.len()
                        ),
                        Behaves::Down => Ok(()),
                        // Until the other side has had enough.
                        Behaves::Hangs => client.read(&mut request).map(drop),
                        Behaves::Floods => {
                            let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"keys\": [");
                            while client.write_all(&vec![b' '; 65_536]).is_ok() {}
                            Ok(())
                        }
                    };
                });
            }
        });
        source
    }

    fn set(&self, behaves: Behaves) {
        *self.behaves.lock().unwrap() = behaves;
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

fn with_source(source: &Source, stale: &str) -> (TestDatabase, Server) {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_AUTH__JWKS", &format!("http://{}/keys", source.address))
        .with("GUERDON_AUTH__JWKS_REFRESH", "1s")
        .with("GUERDON_AUTH__JWKS_STALE", stale);
    let server = Server::start(BINARY, &options);
    (database, server)
}

#[test]
fn a_source_that_is_down_slow_or_endless_lets_nobody_in_and_locks_nobody_out() {
    let ed = Signer::ed();
    let source = Source::start(Behaves::Down);
    let (_database, server) = with_source(&source, "1h");
    let token = ed.token("USER");
    assert_eq!(code(&server, &token), (503, "KEYS_UNAVAILABLE".into()), "nothing is known yet");
    source.set(Behaves::Answers(set(&[&ed])));
    until("the keys to be fetched", Duration::from_secs(40), || {
        (code(&server, &token).0 == 200).then_some(())
    });
    for behaves in [Behaves::Floods, Behaves::Hangs, Behaves::Down] {
        source.set(behaves);
        let before = source.asked();
        until("the source to be asked", Duration::from_secs(40), || (source.asked() > before).then_some(()));
        assert_eq!(code(&server, &token).0, 200, "what is known still counts");
    }
}

#[test]
fn keys_that_nobody_confirms_any_more_stop_counting() {
    let ed = Signer::ed();
    let source = Source::start(Behaves::Answers(set(&[&ed])));
    let (_database, server) = with_source(&source, "2s");
    let token = ed.token("USER");
    source.set(Behaves::Down);
    until("the keys to be too old", Duration::from_secs(30), || {
        (code(&server, &token) == (503, "KEYS_UNAVAILABLE".into())).then_some(())
    });
    let answer = server.api().with_token(&token).get("/v1/events");
    assert!(answer.header("retry-after").is_some());
}
