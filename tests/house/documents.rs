//! Documents that are made from the code, or that the code must keep true.

use crate::support::{BINARY, Cluster};
use guerdon_harness::api::drop_body;
use guerdon_harness::{TestEngine, until};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_api_description_is_up_to_date() {
    let made = Command::new(BINARY).arg("openapi").output().unwrap().stdout;
    let made = String::from_utf8(made).unwrap();
    assert!(made.contains("\"openapi\": \"3.1.0\""));
    assert!(made == document("docs/openapi.json"), "run: guerdon openapi > docs/openapi.json");
}

#[test]
fn the_catalogue_of_events_is_up_to_date() {
    let made = Command::new(BINARY).arg("events").output().unwrap().stdout;
    let made = String::from_utf8(made).unwrap();
    assert!(made == document("docs/events.md"), "run: guerdon events > docs/events.md");
}

#[test]
fn the_docs_page_needs_nothing_from_outside() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    let api = cluster.servers[0].api();
    let page = api.get("/docs").expect(200).text;
    for asset in ["/docs/page.js", "/docs/page.css"] {
        assert!(page.contains(asset));
        assert!(!api.get(asset).expect(200).text.contains("://"), "{asset} leads outside");
    }
    assert!(!page.contains("://"), "the page leads outside");
    assert_eq!(api.get("/openapi.json").expect(200).text, document("docs/openapi.json"));
    assert!(api.get("/docs/errors/EVENT_NOT_FOUND").expect(200).text.starts_with("# EVENT_NOT_FOUND"));
}

#[test]
fn every_metric_is_listed() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    // A family of figures shows itself once it has one.
    cluster.database.sql().poison_event("poison");
    cluster.operator(0).post("/v1/admin/events", &drop_body("e")).expect(201);
    cluster.operator(0).post("/v1/admin/events", &drop_body("poison")).expect(500);
    let account = crate::wallet::open_account(&cluster.operator(0), "ann", "KRW", 0);
    crate::wallet::deposit(&cluster.operator(0), account, "1", "k").expect(200);
    // A reward whose provider is not there, and its points.
    crate::support::open_drop(&cluster.operator(0), "won", 1);
    crate::support::as_user(&cluster.servers[0], 1).post("/v1/events/won/requests", &json!({})).expect(202);
    cluster.operator(0).post("/v1/admin/allocations/retry", &json!({"status": "PENDING"})).expect(202);
    // A claim that is granted.
    let mut gift = drop_body("gift");
    gift["type"] = json!("CLAIM");
    gift["capacityTotal"] = json!(null);
    gift["rewards"] = json!([crate::claims::points()]);
    cluster.operator(0).post("/v1/admin/events", &gift).expect(201);
    cluster.operator(0).post("/v1/admin/events/gift/open", &json!({})).expect(200);
    crate::claims::claim(&crate::support::as_user(&cluster.servers[0], 1), "gift", "a-claim-key", &[])
        .expect(200);
    // A coupon.
    let coupon = json!({"couponId": "ten", "name": "x", "totalQuantity": 1});
    cluster.operator(0).post("/v1/admin/coupons", &coupon).expect(201);
    crate::coupons::issue(&crate::support::as_user(&cluster.servers[0], 1), "ten", "k", &[]).expect(201);
    let api = cluster.servers[0].api();
    let families = [
        "guerdon_deliveries_total",
        "guerdon_breaker_open",
        "guerdon_allocations_waiting",
        "guerdon_claims_ended_total",
        "guerdon_claim_seconds_count",
        "guerdon_claim_step_seconds_count",
    ];
    until("figures of deliveries and claims", std::time::Duration::from_secs(30), || {
        families.iter().all(|name| api.metric(name) > 0.5).then_some(())
    });
    let text = api.get("/metrics").expect(200).text;
    assert!(text.ends_with("# EOF\n"));
    let mut rows = Vec::new();
    for line in text.lines() {
        let Some((name, about)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).unwrap();
        let suffix = if kind == "counter" { "_total" } else { "" };
        rows.push(format!("| `{name}{suffix}` | {kind} | {about} |"));
    }
    assert!(rows.iter().all(|row| row.starts_with("| `guerdon_")), "{rows:?}");
    rows.sort();
    let table = rows.join("\n");
    assert!(document("docs/metrics.md").contains(&table), "put this table into docs/metrics.md:\n{table}");
}

/// The statuses and codes that the five seeds name.
const NAMED_BY_SEEDS: &[(&str, &[&str])] = &[
    ("000", &["PENDING", "PROCESSING", "SUCCESS", "FAILED", "CANCELLED"]),
    (
        "001",
        &[
            "ACTIVE",
            "PENDING_VALIDATION",
            "VALIDATION_FAILED_EXTERNAL_AUTH",
            "VALIDATION_FAILED_USER_INACTIVE",
            "VALIDATION_FAILED_EVENT_NOT_ACTIVE",
            "VALIDATION_FAILED_ALREADY_CLAIMED",
            "PENDING_CONDITION_CHECK",
            "CONDITION_CHECK_FAILED_EXTERNAL",
            "CONDITION_NOT_MET",
            "PENDING_INVENTORY_ALLOCATION",
            "INVENTORY_ALLOCATION_FAILED_OUT_OF_STOCK",
            "INVENTORY_ALLOCATION_FAILED_CONCURRENCY",
            "INVENTORY_ALLOCATION_ERROR",
            "INVENTORY_ALLOCATION_ERROR_DB",
            "INVENTORY_ALLOCATED",
            "PENDING_REWARD_GRANT",
            "REWARD_GRANT_FAILED_EXTERNAL",
            "REWARD_GRANT_FAILED_USER_INACTIVE",
            "REWARD_PARTIALLY_GRANTED",
            "SUCCESS_ALL_GRANTED",
            "PENDING_COMPENSATION_REWARD",
            "COMPENSATED_REWARD",
            "PENDING_COMPENSATION_INVENTORY",
            "COMPENSATED_INVENTORY",
            "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED",
            "FAILED_ROLLED_BACK",
            "FAILED_USER_INACTIVE",
            "FAILED_EXTERNAL",
            "VALIDATE_USER_AND_EVENT",
            "CHECK_CONDITIONS",
            "ALLOCATE_INVENTORY",
            "GRANT_REWARDS",
            "COMPLETED",
        ],
    ),
    ("002", &["PENDING", "CONFIRMED", "REJECTED", "NEW", "SENDING", "SENT", "DUP_EVENT"]),
    (
        "003",
        &[
            "IN_PROGRESS",
            "SUCCEEDED",
            "FAILED",
            "INSUFFICIENT_BALANCE",
            "TIMEOUT",
            "TRANSFER_COMPLETED",
            "NEW",
            "SENT",
        ],
    ),
    (
        "004",
        &[
            "FIRST_COME",
            "LOTTERY",
            "RECEIVED",
            "QUEUED",
            "PROCESSING",
            "SUCCEEDED",
            "REJECTED",
            "FAILED_FINAL",
            "COLLECTING",
            "DRAWING",
            "ANNOUNCED",
            "PENDING",
            "SUCCESS",
            "FAILED",
            "REJECTED_CAPACITY",
            "REJECTED_DUPLICATE",
            "REJECTED_LOTTERY_LOSE",
            "FAILED_INGEST_ENQUEUE",
            "FAILED_WORKER",
            "FAILED_VALIDATION",
            "FAILED_SERDE",
            "RETRYABLE",
            "NON_RETRYABLE",
        ],
    ),
];

#[test]
fn every_status_of_a_seed_is_in_the_code_or_explained() {
    let explained = document("docs/seeds.md");
    let mut code = String::new();
    read_sources(&root().join("crates"), &mut code);
    for (seed, names) in NAMED_BY_SEEDS {
        for name in *names {
            let in_code = code.contains(&format!("\"{name}\"")) || code.contains(&camel_variant(name));
            assert!(in_code || explained.contains(&format!("`{name}`")), "seed {seed} names {name}");
        }
    }
}

/// How an enum that serde renames to upper snake case spells it: `Collecting,`.
fn camel_variant(name: &str) -> String {
    let words = name.split('_').map(|word| format!("{}{}", &word[..1], word[1..].to_lowercase()));
    format!("    {},\n", words.collect::<String>())
}

fn read_sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, text);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Links between the documents lead somewhere.
#[test]
fn links_in_the_documents_lead_somewhere() {
    let mut pages = vec![
        "README.md".into(),
        "README.ko.md".into(),
        "ARCHITECTURE.md".into(),
        "CONTRIBUTING.md".into(),
        "CHANGELOG.md".into(),
    ];
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
            pages.push(format!("docs/{name}"));
        }
    }
    for page in pages {
        let folder = root().join(&page).parent().unwrap().to_path_buf();
        let text = document(&page);
        for part in text.split("](").skip(1) {
            let target = part.split([')', '#']).next().unwrap();
            if !target.is_empty() && !target.contains("://") {
                assert!(folder.join(target).exists(), "{page} leads to {target}, which is not there");
            }
        }
    }
}
