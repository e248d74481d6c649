//! What is in `deploy/` fits what a server says of itself.

use crate::support::{BINARY, as_user, open_drop, operator};
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The names of metrics in a text, without what a histogram adds to its own.
fn names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (start, _) in text.match_indices("guerdon_") {
        let name: String = text[start..]
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '_' || c.is_ascii_digit())
            .collect();
        let plain = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
        names.insert(plain.unwrap_or(&name).to_owned());
    }
    names
}

#[test]
fn dashboards_and_alerts_ask_for_what_there_is() {
    let known = names(&text("docs/metrics.md"));
    let dashboard: Value = serde_json::from_str(&text("deploy/grafana/guerdon.json")).unwrap();
    let shown = names(&dashboard.to_string());
    let alerts = names(&text("deploy/prometheus/alerts.yml"));
    assert!(shown.len() > 15 && alerts.len() > 15, "{shown:?} {alerts:?}");
    for name in shown.iter().chain(&alerts) {
        assert!(known.contains(name), "{name} is in deploy/ and not in docs/metrics.md");
    }
}

fn promtool(arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let mut child = Command::new("promtool")
        .args(arguments)
        .current_dir(root().join("deploy/prometheus"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn promtool_finds_the_rules_sound_and_the_metrics_readable() {
    for arguments in [["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]] {
        let (code, said) = promtool(&arguments, "");
        assert_eq!(code, Some(0), "{said}");
    }
    let database = TestDatabase::new(TestEngine::Sqlite);
    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    open_drop(&operator(&server), "drop_1", 2);
    as_user(&server, 1).post("/v1/events/drop_1/requests", &json!({})).expect(202);
    let metrics = server.api().get("/metrics").expect(200).text;
    // 1 is what cannot be read; 3 is a matter of taste, such as the unit that OpenMetrics names in a line of its own.
    let (code, said) = promtool(&["check", "metrics"], &metrics);
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {said}");
    assert!(!said.contains("error while linting"), "{said}");
}
