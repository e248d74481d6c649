//! The crates depend on each other only along the arrows of ARCHITECTURE.md.

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const ALLOWED: &[(&str, &[&str])] = &[
    ("guerdon-core", &[]),
    ("guerdon-store", &["guerdon-core"]),
    ("guerdon-engine", &["guerdon-core", "guerdon-store"]),
    ("guerdon-connect", &["guerdon-core", "guerdon-engine"]),
    ("guerdon-server", &["guerdon-core", "guerdon-engine"]),
    ("guerdon-partners", &["guerdon-connect"]),
    (
        "guerdon",
        &[
            "guerdon-connect",
            "guerdon-core",
            "guerdon-engine",
            "guerdon-partners",
            "guerdon-server",
            "guerdon-store",
        ],
    ),
    ("guerdon-bench", &["guerdon-core", "guerdon-store", "guerdon-engine"]),
    ("guerdon-fuzz", &["guerdon", "guerdon-connect", "guerdon-core", "guerdon-server"]),
    ("guerdon-harness", &[]),
];

/// What a room must not know, by crate.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("guerdon-core", &["tokio", "rusqlite", "tokio-postgres", "axum", "getrandom", "tracing"]),
    ("guerdon-store", &["axum", "hyper", "getrandom"]),
    ("guerdon-engine", &["axum", "hyper", "rusqlite", "tokio-postgres"]),
    ("guerdon-server", &["rusqlite", "tokio-postgres"]),
];

#[test]
fn crates_depend_only_along_the_arrows() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut crates = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
        let names: Vec<_> =
            normal.map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect();
        crates.insert(package["name"].as_str().unwrap().to_owned(), names);
    }
    let known: Vec<_> = ALLOWED.iter().map(|(name, _)| *name).collect();
    let strangers: Vec<_> = crates.keys().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(strangers.is_empty(), "crates without a place in the house: {strangers:?}");
    for (name, allowed) in ALLOWED {
        let against = crates[*name].iter().filter(|dependency| dependency.starts_with("guerdon"));
        let against: Vec<_> = against.filter(|dependency| !allowed.contains(&dependency.as_str())).collect();
        assert!(against.is_empty(), "{name} goes against the arrows: {against:?}");
    }
    for (name, forbidden) in FORBIDDEN {
        let known: Vec<_> =
            crates[*name].iter().filter(|dependency| forbidden.contains(&dependency.as_str())).collect();
        assert!(known.is_empty(), "{name} must not know {known:?}");
    }
}
