//! Calls that somebody else makes up from the OpenAPI document: whatever they are, nothing breaks, and every answer is one that
//! the document promises.

use crate::support::{BINARY, as_user, open_drop, operator, token};
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine};
use serde_json::json;
use std::process::Command;

const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

#[test]
fn schemathesis_finds_nothing() {
    let program = std::env::var("SCHEMATHESIS").unwrap_or_else(|_| "schemathesis".into());
    let database = TestDatabase::new(TestEngine::Sqlite);
    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    open_drop(&operator(&server), "drop_1", 5);
    for number in 0..10 {
        as_user(&server, number).post("/v1/events/drop_1/requests", &json!({})).expect(202);
    }
    for role in ["OPERATOR", "USER"] {
        let folder = tempfile::tempdir().unwrap();
        let output = Command::new(&program)
            .current_dir(folder.path())
            .args(["run", &format!("{}/openapi.json", server.address)])
            .args(["--header", &format!("Authorization: Bearer {}", token("u-1", role))])
            .args([
                "--checks",
                CHECKS,
                "--max-examples",
                "15",
                "--seed",
                "1",
                "--phases",
                "examples,coverage,fuzzing",
            ])
            // Streams do not end; and whoever bans themselves sees nothing more.
            .args([
                "--exclude-path-regex",
                r"(/stream|^/v1/admin/users/\{userId\})$",
                "--request-timeout",
                "20",
                "--no-color",
            ])
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "as {role}:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(!server.log_text().contains("panicked"), "{}", server.log_text());
    }
}
