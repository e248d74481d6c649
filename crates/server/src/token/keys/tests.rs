use super::{Key, KeyRing, KeySet, KeyTimes, NoKey};
use crate::token::FetchKeys;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ED25519: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";
const P256: [&str; 2] =
    ["f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"];

fn ed(kid: &str) -> Value {
    json!({"kty": "OKP", "crv": "Ed25519", "x": ED25519, "kid": kid, "use": "sig", "alg": "EdDSA"})
}

fn set(keys: &[Value]) -> Vec<u8> {
    json!({"keys": keys}).to_string().into_bytes()
}

#[test]
fn only_keys_for_signatures_of_public_algorithms_count() {
    let modulus = |bytes: usize| "u".repeat(bytes.div_ceil(3) * 4);
    let ec = json!({"kty": "EC", "crv": "P-256", "x": P256[0], "y": P256[1], "kid": "e"});
    let with = |key: &Value, name: &str, value: Value| {
        let mut key = key.clone();
        key[name] = value;
        key
    };
    for (case, key, counts) in [
        ("EdDSA", ed("a"), true),
        ("ES256", ec.clone(), true),
        ("RS256", json!({"kty": "RSA", "n": modulus(256), "e": "AQAB", "kid": "r"}), true),
        ("a short RSA key", json!({"kty": "RSA", "n": modulus(128), "e": "AQAB", "kid": "r"}), false),
        (
            "a secret among public keys",
            json!({"kty": "oct", "k": "c2VjcmV0", "kid": "s", "alg": "HS256"}),
            false,
        ),
        ("for encryption", with(&ed("a"), "use", json!("enc")), false),
        ("another algorithm than its kind has", with(&ed("a"), "alg", json!("HS256")), false),
        (
            "of RSA, but for HS256",
            json!({"kty": "RSA", "n": modulus(256), "e": "AQAB", "kid": "r", "alg": "HS256"}),
            false,
        ),
        ("another curve", with(&ec, "crv", json!("P-384")), false),
        ("no kind", json!({"kid": "x"}), false),
    ] {
        let found = serde_json::from_value(key).ok().and_then(Key::of).is_some();
        assert_eq!(found, counts, "{case}");
    }
}

#[test]
fn what_can_be_read_of_a_set() {
    let parse = |text: &[u8]| KeySet::parse(text, &KeySet::default());
    assert_eq!(parse(&set(&[ed("a"), json!({"kty": "XYZ", "kid": "x"}), ed("b")])).unwrap().by_kid.len(), 2);
    assert_eq!(
        parse(&set(&[ed("a"), ed("a"), ed("b")])).unwrap().by_kid.len(),
        1,
        "neither of two of one name"
    );
    assert_eq!(parse(&set(&[])).unwrap().by_kid.len(), 0, "all of them were withdrawn");
    assert!(parse(b"<html>").is_err());
    assert!(parse(b"[[]]").is_err(), "no object");
    assert!(parse(&set(&vec![ed("a"); 101])).is_err(), "too many");
    let mut nameless = ed("a");
    nameless.as_object_mut().unwrap().remove("kid");
    assert!(parse(&set(std::slice::from_ref(&nameless))).unwrap().find(None).is_some());
    assert!(parse(&set(&[nameless, ed("b")])).unwrap().find(None).is_none(), "which one would it be?");
}

type Said = Arc<Mutex<Result<Vec<u8>, String>>>;

/// A source whose answer can be changed, and that counts how often it is asked.
fn source(first: Result<Vec<u8>, String>) -> (FetchKeys, Said, Arc<AtomicUsize>) {
    let (answer, asked) = (Arc::new(Mutex::new(first)), Arc::new(AtomicUsize::new(0)));
    let (said, count) = (Arc::clone(&answer), Arc::clone(&asked));
    let fetch: FetchKeys = Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        let said = said.lock().unwrap().clone();
        Box::pin(async move { said })
    });
    (fetch, answer, asked)
}

#[tokio::test]
async fn strangers_cannot_have_the_source_asked_again_and_again() {
    let times = KeyTimes { refresh: Duration::from_hours(1), stale: Duration::from_hours(1) };
    let ring = Arc::new(KeyRing::new(times));
    let (fetch, _, asked) = source(Ok(set(&[ed("a")])));
    ring.fetch(&fetch).await.unwrap();
    tokio::spawn({
        let (ring, fetch) = (Arc::clone(&ring), Arc::clone(&fetch));
        async move { ring.follow(fetch).await }
    });
    for number in 0..1_000 {
        assert_eq!(ring.find(Some(&format!("unknown-{number}"))).await.err(), Some(NoKey::Unknown));
    }
    assert!(ring.find(Some("a")).await.is_ok());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn keys_go_when_the_source_drops_them_and_stay_the_same_while_it_has_them() {
    let times = KeyTimes { refresh: Duration::from_hours(1), stale: Duration::from_hours(1) };
    let ring = KeyRing::new(times);
    let (fetch, answer, _) = source(Ok(set(&[ed("a"), ed("b")])));
    ring.fetch(&fetch).await.unwrap();
    let (a, b) = (ring.find(Some("a")).await.ok().unwrap(), ring.find(Some("b")).await.ok().unwrap());
    *answer.lock().unwrap() = Ok(set(&[ed("b")]));
    ring.fetch(&fetch).await.unwrap();
    assert!(!ring.still_has(Some("a"), &a) && ring.still_has(Some("b"), &b));
    // An answer that cannot be read changes nothing.
    for broken in [Err("down".into()), Ok(b"{}".to_vec())] {
        *answer.lock().unwrap() = broken;
        assert!(ring.fetch(&fetch).await.is_err());
        assert!(ring.still_has(Some("b"), &b));
        assert_eq!(ring.find(Some("c")).await.err(), Some(NoKey::Stale), "nobody could be asked about it");
    }
    *answer.lock().unwrap() = Ok(set(&[]));
    ring.fetch(&fetch).await.unwrap();
    assert!(!ring.still_has(Some("b"), &b), "withdrawn");
    assert_eq!(ring.find(Some("b")).await.err(), Some(NoKey::Unknown));
}

#[tokio::test]
async fn keys_that_were_not_confirmed_for_too_long_do_not_count() {
    let ring = KeyRing::new(KeyTimes { refresh: Duration::from_hours(1), stale: Duration::ZERO });
    let (fetch, ..) = source(Ok(set(&[ed("a")])));
    ring.fetch(&fetch).await.unwrap();
    assert_eq!(ring.find(Some("a")).await.err(), Some(NoKey::Stale));
}
