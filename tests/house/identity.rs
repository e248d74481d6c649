//! Tokens that must not open the door, and headers that must not matter.

use crate::support::{BINARY, Cluster, seconds_now, sign, sign_with, token};
use guerdon_harness::api::drop_body;
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine};
use jsonwebtoken::Algorithm;
use serde_json::json;

struct Fixture {
    _database: TestDatabase,
    server: Server,
}

fn strict() -> Fixture {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_AUTH__AUDIENCE", "shop")
        .with("GUERDON_AUTH__ISSUER", "https://login.example");
    Fixture { server: Server::start(BINARY, &options), _database: database }
}

/// Good for the strict server, but for what is laid over it.
fn claims(changes: serde_json::Value) -> serde_json::Value {
    let mut claims = json!({"sub": "u-1", "roles": ["USER"], "exp": seconds_now() + 600, "aud": "shop",
        "iss": "https://login.example"});
    for (claim, value) in changes.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(claim);
        } else {
            claims[claim] = value.clone();
        }
    }
    claims
}

fn code_of(fixture: &Fixture, token: &str) -> (u16, String) {
    let answer = fixture.server.api().with_token(token).get("/v1/events");
    (answer.status, answer.code())
}

#[test]
fn every_way_a_token_can_be_wrong() {
    let fixture = strict();
    let good = sign(&claims(json!({})));
    assert_eq!(code_of(&fixture, &good).0, 200);
    let now = seconds_now();
    for (case, changes, code) in [
        ("expired", json!({"exp": now - 1}), "TOKEN_EXPIRED"),
        ("long expired", json!({"exp": 0}), "TOKEN_EXPIRED"),
        ("no end", json!({"exp": null}), "TOKEN_INVALID"),
        ("an end that is no number", json!({"exp": "tomorrow"}), "TOKEN_INVALID"),
        ("not yet valid", json!({"nbf": now + 600}), "TOKEN_INVALID"),
        ("wrong audience", json!({"aud": "bank"}), "TOKEN_INVALID"),
        ("no audience", json!({"aud": null}), "TOKEN_INVALID"),
        ("wrong issuer", json!({"iss": "https://evil.example"}), "TOKEN_INVALID"),
        ("no issuer", json!({"iss": null}), "TOKEN_INVALID"),
        ("nobody", json!({"sub": null}), "TOKEN_INVALID"),
        ("an id that cannot be", json!({"sub": "a/b"}), "TOKEN_INVALID"),
        ("an empty id", json!({"sub": ""}), "TOKEN_INVALID"),
    ] {
        assert_eq!(code_of(&fixture, &sign(&claims(changes))), (401, code.into()), "{case}");
    }
    for changes in [json!({"aud": ["other", "shop"]}), json!({"nbf": now - 5}), json!({"exp": 4e9})] {
        assert_eq!(code_of(&fixture, &sign(&claims(changes))).0, 200);
    }
}

#[test]
fn algorithms_and_signatures_are_not_the_callers_choice() {
    let fixture = strict();
    let good = sign(&claims(json!({})));
    let parts: Vec<_> = good.split('.').collect();
    // {"alg":"none","typ":"JWT"} and {"alg":"None"}
    let none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0";
    let odd_none = "eyJhbGciOiJOb25lIn0";
    let body = parts[1];
    let huge = format!("{}.{}.{}", parts[0], "A".repeat(20_000), parts[2]);
    let swapped = {
        let admin = sign(&claims(json!({"roles": ["ADMIN"]})));
        format!("{}.{}.{}", parts[0], admin.split('.').nth(1).unwrap(), parts[2])
    };
    for (case, token) in [
        ("none", format!("{none}.{body}.")),
        ("none with a signature", format!("{none}.{body}.{}", parts[2])),
        ("None", format!("{odd_none}.{body}.")),
        (
            "another algorithm",
            sign_with(&claims(json!({})), Algorithm::HS512, guerdon_harness::server::SECRET),
        ),
        (
            "another secret",
            sign_with(&claims(json!({})), Algorithm::HS256, "another-secret-of-a-good-length-too"),
        ),
        ("another body", swapped),
        ("no signature", format!("{}.{body}.", parts[0])),
        ("two parts", format!("{}.{body}", parts[0])),
        ("four parts", format!("{good}.x")),
        ("huge", huge),
        ("nonsense", "nonsense".into()),
        ("dots", "...".into()),
    ] {
        assert_eq!(code_of(&fixture, &token), (401, "TOKEN_INVALID".into()), "{case}");
    }
    assert_eq!(code_of(&fixture, &good).0, 200, "the good one still is");
}

#[test]
fn a_token_that_was_good_expires_all_the_same() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    let short = sign(&json!({"sub": "u-1", "exp": seconds_now() + 2}));
    let call = || server.api().with_token(&short).get("/v1/events");
    call().expect(200);
    call().expect(200);
    guerdon_harness::until("the token to expire", std::time::Duration::from_secs(10), || {
        (call().code() == "TOKEN_EXPIRED").then_some(())
    });
}

#[test]
fn the_header_must_be_one_and_a_bearer() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    let api = cluster.servers[0].api();
    let good = format!("Bearer {}", token("u-1", "USER"));
    let get = |headers: &[(&str, &str)]| api.send("GET", "/v1/events", headers, None);
    assert_eq!(get(&[]).expect(401).code(), "TOKEN_MISSING");
    assert_eq!(get(&[]).header("www-authenticate"), Some("Bearer"));
    for odd in ["", "Bearer", "Bearer ", "Basic dTpw", "Token x", good.trim_start_matches("Bearer ")] {
        assert_eq!(get(&[("authorization", odd)]).expect(401).code(), "TOKEN_MISSING", "{odd}");
    }
    assert_eq!(
        get(&[("authorization", &good), ("authorization", &good)]).expect(401).code(),
        "TOKEN_INVALID"
    );
    get(&[("authorization", &good.replace("Bearer", "bearer"))]).expect(200);
}

#[test]
fn forged_identity_headers_change_nothing() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    let api = cluster.servers[0].api();
    let forged: &[&[(&str, &str)]] = &[
        &[("X-User-ID", "admin"), ("X-User-Roles", "ADMIN"), ("X-User-Name", "root")],
        &[
            ("X-User-ID", "admin"),
            ("X-User-ID", "op"),
            ("X-User-Roles", "ADMIN"),
            ("X-User-Roles", "OPERATOR"),
        ],
        &[("x-uSeR-iD", "admin"), ("x-USER-roles", "ADMIN")],
        &[("X_User_ID", "admin"), ("X_User_Roles", "ADMIN")],
    ];
    for headers in forged {
        let stranger = api.send("GET", "/v1/admin/events", headers, None).expect(401);
        assert_eq!(stranger.code(), "TOKEN_MISSING");
        let user =
            api.with_token(&token("u-1", "USER")).send("GET", "/v1/admin/events", headers, None).expect(403);
        assert_eq!(user.code(), "FORBIDDEN");
    }
    let body = drop_body("e").to_string();
    cluster.operator(0).send("POST", "/v1/admin/events", forged[0], Some(&body)).expect(201);
    let log = cluster.operator(0).get("/v1/admin/audit-log").expect(200).json();
    assert_eq!(log["items"][0]["actor"], "op", "the token's subject, not the header's");
}

#[test]
fn roles_allow_what_they_say_and_no_more() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    cluster.operator(0).send("PUT", "/v1/admin/users/u-1", &[], Some(r#"{"status": "ACTIVE"}"#)).expect(200);
    for (role, reads, writes, looks_up) in [
        ("USER", 403, 403, 403),
        ("SERVICE", 403, 403, 200),
        ("AUDITOR", 200, 403, 200),
        ("OPERATOR", 200, 201, 200),
        ("ADMIN", 200, 201, 200),
        ("KING", 403, 403, 403),
    ] {
        let api = cluster.servers[0].api().with_token(&token("someone", role));
        assert_eq!(api.get("/v1/admin/events").status, reads, "{role}");
        assert_eq!(api.get("/v1/admin/audit-log").status, reads, "{role}");
        assert_eq!(api.post("/v1/admin/events", &drop_body(&format!("by_{role}"))).status, writes, "{role}");
        assert_eq!(api.get("/v1/users/u-1/status").status, looks_up, "{role}");
    }
    let nobody = sign(&json!({"sub": "u-1", "roles": [], "exp": seconds_now() + 60}));
    cluster.servers[0].api().with_token(&nobody).get("/v1/events").expect(403);
}

#[test]
fn unknown_users_can_be_rejected() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let server =
        Server::start(BINARY, &ServerOptions::on(&database.url).with("GUERDON_USERS__UNKNOWN", "reject"));
    // Staff are known by their role, or nobody could ever fill the registry.
    let operator = server.api().with_token(&token("op", "OPERATOR"));
    operator.send("PUT", "/v1/admin/users/u-1", &[], Some(r#"{"status": "ACTIVE"}"#)).expect(200);
    let get = |user: &str| server.api().with_token(&token(user, "USER")).get("/v1/events");
    get("u-1").expect(200);
    assert_eq!(get("u-2").expect(403).code(), "USER_NOT_ACTIVE");
}

#[test]
fn secrets_never_reach_the_log() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let server = Server::start(BINARY, &ServerOptions::on(&database.url).with("GUERDON_LOG__LEVEL", "trace"));
    let operator = token("op", "OPERATOR");
    server.api().with_token(&operator).post("/v1/admin/events", &drop_body("e")).expect(201);
    server.api().with_token("not.a.token").get("/v1/events").expect(401);
    let log = server.log_text();
    assert!(log.contains("serving"), "{log}");
    for secret in [guerdon_harness::server::SECRET, operator.as_str(), "not.a.token"] {
        assert!(!log.contains(secret), "a secret is in the log");
    }
}
