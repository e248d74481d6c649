//! Sets of public keys: only keys that a token may be signed for, each name once.

use crate::says_why;
use guerdon_server::untrusted::keys;
use serde_json::{Value, json};

pub(crate) fn hold(data: &[u8]) {
    let found = match keys(data) {
        Ok(found) => found,
        Err(reason) => return says_why(&reason),
    };
    assert_eq!(keys(data).as_ref(), Ok(&found), "read twice, it says the same");
    let set: Value = serde_json::from_slice(data).expect("what was read is JSON");
    let published = set["keys"].as_array().expect("and has a list of keys");
    assert!(published.len() <= 100 && found.len() <= published.len());
    for (name, algorithm) in &found {
        assert!(["RS256", "ES256", "EdDSA"].contains(&algorithm.as_str()), "{algorithm}");
        let of_this_name = |key: &&Value| key.get("kid").and_then(Value::as_str) == name.as_deref();
        let mut named = published.iter().filter(of_this_name);
        assert!(named.any(|key| key["kty"] != "oct"), "{name:?} is a secret");
        assert!(found.iter().filter(|(other, _)| other == name).count() == 1, "{name:?} is there twice");
        assert!(name.is_some() || published.len() == 1, "a key without a name among others");
    }
    // Of two keys of one name neither counts.
    if published.len() <= 50 {
        let twice: Vec<_> = published.iter().chain(published).collect();
        let doubled = json!({ "keys": twice });
        assert_eq!(keys(doubled.to_string().as_bytes()), Ok(Vec::new()));
    }
}
