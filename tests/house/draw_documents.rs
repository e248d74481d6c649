//! A draw's document, checked by the product and by a verifier that shares nothing with it but the page they were written
//! from.

use crate::support::BINARY;
use guerdon_core::Timestamp;
use guerdon_core::draw::{self, Document, Entry, Hash, Proof, Secret, Terms, Tree};
use guerdon_core::{EventId, UserId};
use serde_json::{Value, json};
use std::process::Command;

const SEED: [u8; 32] = [42; 32];
const VERIFIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/verify_draw.py");

fn drawn(entries: u64, capacity_total: u64, nonce: Option<&str>) -> (Document, Proof) {
    let event_id = EventId::parse("draw_1").unwrap();
    let salt_key = Secret::new([5; 32]);
    let leaf = |position: u64| {
        let user_id = UserId::parse(format!("person@{position}")).unwrap();
        let request_id = format!("request-{position}");
        let entry = Entry { event_id: &event_id, position, request_id: &request_id, user_id: &user_id };
        draw::leaf(entry, &draw::salt(&salt_key, position))
    };
    let leaves: Vec<_> = (1..=entries).map(leaf).collect();
    let mut tree = Tree::default();
    tree.extend(leaves.iter().copied());
    let root = tree.root();
    let source = nonce.map(|_| "비콘 round 12".to_owned());
    let terms = Terms {
        event_id: "draw_1",
        capacity_total,
        cutoff: Timestamp::from_millis(1_900_000_000_000),
        nonce_source: source.as_deref().unwrap_or_default(),
    };
    let proof = Proof {
        event_id: "draw_1".into(),
        position: entries,
        request_id: format!("request-{entries}"),
        user_id: format!("person@{entries}"),
        salt: draw::salt(&salt_key, entries),
        leaf: leaf(entries),
        entries,
        root,
        path: draw::path(&leaves, leaves.len() - 1),
    };
    let document = Document {
        version: 1,
        event_id: "draw_1".into(),
        capacity_total,
        lottery_cutoff_at: 1_900_000_000_000,
        commitment: draw::commitment(&SEED, terms),
        public_nonce_source: source,
        entries,
        root,
        public_nonce: nonce.map(str::to_owned),
        seed: Hash::from_bytes(SEED),
        winners: draw::winners(&SEED, &root, nonce.unwrap_or_default(), entries, capacity_total),
        leaves,
    };
    (document, proof)
}

/// What both say: the checks that fail, and whether they ended well.
fn judged(document: &Value, proof: &Value) -> [(Vec<String>, Option<i32>); 2] {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, value: &Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    };
    let (document, proof) = (file("document.json", document), file("proof.json", proof));
    let ours =
        Command::new(BINARY).arg("verify-draw").arg(&document).arg("--proof").arg(&proof).output().unwrap();
    let said = String::from_utf8(ours.stdout).unwrap();
    let failed = said.lines().filter_map(|line| {
        let (name, _) = line.strip_prefix("FAIL  ")?.rsplit_once(": ").unwrap_or((line, ""));
        let known = ["proof: document", "proof: leaf", "proof: path", "proof: place"];
        let name = known.iter().find(|known| name.starts_with(**known)).copied();
        Some(name.unwrap_or_else(|| line["FAIL  ".len()..].split(':').next().unwrap()).to_owned())
    });
    let theirs = Command::new("python3").arg(VERIFIER).arg(&document).arg(&proof).output().unwrap();
    let text = String::from_utf8(theirs.stdout).unwrap();
    assert!(theirs.stderr.is_empty(), "{}", String::from_utf8_lossy(&theirs.stderr));
    let names = text.lines().filter(|line| !line.starts_with("the draw")).map(str::to_owned);
    [(failed.collect(), ours.status.code()), (names.collect(), theirs.status.code())]
}

#[test]
fn two_verifiers_agree_on_sound_draws() {
    for (entries, capacity, nonce) in
        [(1, 1, None), (2, 5, Some("")), (3, 2, None), (100, 7, Some("f00d")), (1_000, 999, None)]
    {
        let (document, proof) = drawn(entries, capacity, nonce);
        let [ours, theirs] = judged(&json!(document), &json!(proof));
        assert_eq!(ours, (Vec::new(), Some(0)), "{entries} {capacity}");
        assert_eq!(theirs, (Vec::new(), Some(0)), "{entries} {capacity}");
    }
}

#[test]
fn two_verifiers_find_every_tampering() {
    let (document, proof) = drawn(60, 6, Some("f00d"));
    let (document, proof) = (json!(document), json!(proof));
    let other = Hash::from_bytes([1; 32]).to_string();
    let leaf = |index: usize| document["leaves"][index].clone();
    let mut swapped = document["winners"].as_array().unwrap().clone();
    swapped.swap(0, 5);
    let cases = [
        ("/winners/2", json!(61), vec!["winners"]),
        ("/winners", json!(swapped), vec!["winners"]),
        ("/leaves/0", json!(other), vec!["root"]),
        ("/leaves/3", leaf(4), vec!["root"]),
        ("/root", json!(other), vec!["root", "winners", "proof: document"]),
        ("/seed", json!(other), vec!["commitment", "winners"]),
        ("/publicNonce", json!("f00e"), vec!["winners"]),
        ("/publicNonce", Value::Null, vec!["nonce", "winners"]),
        ("/publicNonceSource", json!("another"), vec!["commitment"]),
        ("/entries", json!(59), vec!["entries", "winners", "proof: document"]),
        ("/capacityTotal", json!(5), vec!["commitment", "winners"]),
        ("/lotteryCutoffAt", json!(1), vec!["commitment"]),
        ("/commitment", json!(other), vec!["commitment"]),
        ("/eventId", json!("draw_2"), vec!["commitment", "proof: document"]),
        ("/version", json!(2), vec!["version"]),
    ];
    for (place, value, expected) in cases {
        let mut tampered = document.clone();
        *tampered.pointer_mut(place).unwrap() = value;
        let [ours, theirs] = judged(&tampered, &proof);
        assert_eq!(ours, theirs, "{place}");
        assert_eq!(ours.0, expected, "{place}");
        assert_eq!(ours.1, Some(1), "{place}");
    }
    for (place, value, expected) in [
        ("/userId", json!("somebody"), vec!["proof: leaf"]),
        ("/salt", json!(other), vec!["proof: leaf"]),
        ("/path/0", json!(other), vec!["proof: path"]),
        ("/position", json!(1), vec!["proof: leaf", "proof: path", "proof: place"]),
    ] {
        let mut forged = proof.clone();
        *forged.pointer_mut(place).unwrap() = value;
        let [ours, theirs] = judged(&document, &forged);
        assert_eq!(ours, theirs, "{place}");
        assert_eq!(ours.0, expected, "{place}");
    }
}

#[test]
fn what_cannot_be_read_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("broken.json");
    for text in ["", "{}", "{\"version\": 1}", "[1, 2"] {
        std::fs::write(&path, text).unwrap();
        let output = Command::new(BINARY).arg("verify-draw").arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("broken.json"), "{output:?}");
    }
    let missing = Command::new(BINARY).args(["verify-draw", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(2));
}
