//! Who may call what, and see whose: a table over every call of the OpenAPI document, so that a new one cannot be forgotten.

use crate::support::{BINARY, Cluster, operator, token};
use guerdon_harness::{Server, ServerOptions, TestDatabase, TestEngine};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ROLES: [&str; 5] = ["USER", "SERVICE", "AUDITOR", "OPERATOR", "ADMIN"];
/// What anybody may ask.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Each call: its method, its address with names, and whether it changes anything.
fn calls(server: &Server) -> Vec<(String, String)> {
    let document = server.api().get("/openapi.json").expect(200).json();
    let mut calls = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            calls.push((method.to_uppercase(), path.clone()));
        }
    }
    assert!(calls.len() > 60, "{}", calls.len());
    calls
}

fn at(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

/// Who may make a call, by where it is.
fn may(role: &str, method: &str, path: &str) -> bool {
    if path.starts_with("/v1/admin/") {
        return matches!(role, "OPERATOR" | "ADMIN") || (role == "AUDITOR" && method == "GET");
    }
    path != "/v1/users/{userId}/status" || role != "USER"
}

#[test]
fn every_call_is_for_the_roles_that_it_is_for() {
    let database = TestDatabase::new(TestEngine::Sqlite);
    let server = Server::start(BINARY, &ServerOptions::on(&database.url));
    for (method, path) in calls(&server) {
        let call = |token: Option<&str>| {
            let api = token.map_or_else(|| server.api(), |token| server.api().with_token(token));
            let body = (method != "GET").then_some("{}");
            api.send(&method, &at(&path), &[("idempotency-key", "a-key-of-the-table")], body)
        };
        if OPEN.contains(&path.as_str()) {
            call(None).expect(200);
            continue;
        }
        if (method.as_str(), path.as_str()) == ("POST", "/v1/session") {
            // The token is what is sent.
            assert_eq!(call(None).expect(422).code(), "INVALID_FIELDS");
            continue;
        }
        assert_eq!(call(None).code(), "TOKEN_MISSING", "{method} {path}");
        assert_eq!(call(Some("x.y.z")).code(), "TOKEN_INVALID", "{method} {path}");
        let nobody = crate::support::sign(&json!({"sub": "u", "roles": [], "exp": 4_000_000_000_i64}));
        assert_eq!(call(Some(&nobody)).status, 403, "{method} {path} without a role");
        for role in ROLES {
            // Streams and waits end: nothing that they could be about is there.
            let answer = call(Some(&token("somebody", role)));
            let refused = answer.status == 403 && answer.code() == "FORBIDDEN";
            assert_eq!(!refused, may(role, &method, &path), "{role} {method} {path}: {}", answer.text);
            assert!(answer.status < 500, "{role} {method} {path}: {}", answer.text);
        }
    }
}

/// Everything that is one user's, with its address; another user is told that it is not there.
#[test]
fn nobody_sees_or_touches_what_is_anothers() {
    let cluster = Cluster::start(TestEngine::Sqlite, 1);
    let server = &cluster.servers[0];
    let api = operator(server);
    let owner = server.api().with_token(&token("owner", "USER"));
    let stranger = server.api().with_token(&token("stranger", "USER"));
    let key = |name: &str| [("idempotency-key", format!("{name}-00000001"))];
    let send = |path: &str, name: &str, body: Value| {
        let key = key(name);
        let headers: Vec<_> = key.iter().map(|(name, value)| (*name, value.as_str())).collect();
        owner.send("POST", path, &headers, Some(&body.to_string()))
    };
    let event = |id: &str, kind: &str, more: Value| {
        let mut body =
            json!({"eventId": id, "name": id, "type": kind, "startsAt": 0, "endsAt": 4_000_000_000_000_i64});
        for (field, value) in more.as_object().unwrap() {
            body[field] = value.clone();
        }
        api.post("/v1/admin/events", &body).expect(201);
        api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
    };
    let points = json!([{"rewardId": "p", "kind": "POINT", "amount": 5, "currency": "POINT"}]);
    event("drop", "FIRST_COME", json!({"capacityTotal": 5, "rewards": points}));
    event("claim", "CLAIM", json!({"rewards": points}));
    api.post(
        "/v1/admin/coupons",
        &json!({"couponId": "c", "name": "C", "totalQuantity": 5, "validFrom": 0,
        "validUntil": 4_000_000_000_000_i64, "benefit": {}}),
    )
    .expect(201);
    let request = owner.post("/v1/events/drop/requests", &json!({})).expect(202).json();
    let claim = send("/v1/event-claims/claim/claim", "claim", json!({})).expect(200).json();
    let coupon = send("/v1/coupons/c/issue", "coupon", json!({})).expect(201).json();
    let account = |who: &str| -> i64 {
        let body = json!({"ownerId": who, "currency": "KRW", "scale": 0});
        api.post("/v1/admin/accounts", &body).expect(201).json()["accountId"].as_i64().unwrap()
    };
    let (mine, theirs) = (account("owner"), account("third"));
    api.send(
        "POST",
        &format!("/v1/admin/accounts/{mine}/deposit"),
        &[("idempotency-key", "deposit-1")],
        Some("{\"amount\": 100}"),
    )
    .expect(200);
    let issued = owner.post("/v1/idempotency-keys", &json!({"scope": "TRANSFER"})).expect(201).json();
    let transfer = owner
        .send(
            "POST",
            "/v1/transfers",
            &[("idempotency-key", issued["idempotencyKey"].as_str().unwrap())],
            Some(&json!({"fromAccountId": mine, "toAccountId": theirs, "amount": 10}).to_string()),
        )
        .expect(200)
        .json();

    let id = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
    let (request, coupon) = (id(&request, "requestId"), id(&coupon, "userCouponId"));
    let (claim, transfer) = (id(&claim, "requestId"), id(&transfer, "transferId"));
    let order = json!({"orderId": "o-1"}).to_string();
    // The call, its address, what is sent, and what the owner is answered.
    let table: Vec<(&str, &str, String, Option<&str>, u16)> = vec![
        ("GET", "/v1/requests/{requestId}", request.clone(), None, 200),
        ("GET", "/v1/requests/{requestId}/stream", request, None, 200),
        ("GET", "/v1/claims/{requestId}", claim, None, 200),
        ("GET", "/v1/user-coupons/{userCouponId}", coupon.clone(), None, 200),
        ("GET", "/v1/user-coupons/{userCouponId}/stream", coupon.clone(), None, 200),
        ("POST", "/v1/user-coupons/{userCouponId}/use", coupon.clone(), Some(&order), 200),
        ("POST", "/v1/user-coupons/{userCouponId}/cancel-use", coupon, Some(&order), 200),
        ("GET", "/v1/transfers/{transferId}", transfer.clone(), None, 200),
        // Whoever paid cannot take it back either: the receiver can.
        ("POST", "/v1/transfers/{transferId}/refund", transfer, Some("{}"), 404),
        ("GET", "/v1/accounts/{accountId}", mine.to_string(), None, 200),
        ("GET", "/v1/accounts/{accountId}/entries", mine.to_string(), None, 200),
    ];
    let mut seen = BTreeSet::new();
    for (method, path, id, body, expected) in table {
        seen.insert((method.to_owned(), path.to_owned()));
        let (start, rest) = path.split_once('{').unwrap();
        let address = format!("{start}{id}{}", rest.split_once('}').unwrap().1);
        let key = [("idempotency-key", "strangers-key-1")];
        let answer = stranger.send(method, &address, &key, body);
        assert!(matches!(answer.status, 403 | 404), "{method} {path}: {}", answer.text);
        assert!(!answer.text.contains("owner"), "{}", answer.text);
        let answer = owner.send(method, &address, &[("idempotency-key", "owners-key-1")], body);
        assert_eq!(answer.status, expected, "{method} {path}: {}", answer.text);
    }
    // Whatever is addressed by an id that is somebody's has to be in the table.
    let public = ["{eventId}", "{couponId}", "{userId}", "{code}"];
    for (method, path) in calls(server) {
        let named: Vec<_> = path.split('/').filter(|part| part.starts_with('{')).collect();
        let somebodys = named.iter().any(|name| !public.contains(name));
        if somebodys && !path.starts_with("/v1/admin/") {
            assert!(seen.contains(&(method.clone(), path.clone())), "{method} {path} is not in the table");
        }
    }
    // What is listed as one's own is nobody else's.
    for path in ["requests", "claims", "allocations", "coupons", "accounts"] {
        let list = |api: &guerdon_harness::Api| api.get(&format!("/v1/me/{path}")).expect(200).json();
        assert_eq!(list(&stranger)["items"], json!([]), "{path}");
        assert!(!list(&owner)["items"].as_array().unwrap().is_empty(), "{path}");
    }
    let me: Vec<_> = calls(server).into_iter().filter(|(_, path)| path.starts_with("/v1/me/")).collect();
    assert_eq!(me.len(), 5, "{me:?}");
}
