//! Bad input at every address: the right status, the right code, nothing written, no panic.

mod parts;

use crate::support::{Cluster, on_every_setup, token};
use guerdon_harness::api::drop_body;
use serde_json::{Value, json};
use std::collections::BTreeSet;

on_every_setup! { bad_input_is_refused_and_changes_nothing }

const JSON: &str = "application/json";

struct Case {
    method: &'static str,
    route: &'static str,
    path: String,
    content_type: Option<&'static str>,
    body: Option<String>,
    /// The idempotency key; one that is new unless set.
    key: Option<String>,
    status: u16,
    code: &'static str,
    field: Option<&'static str>,
}

/// Cases of one call: what follows the address, the body, what is expected, and the field at fault.
fn get(
    route: &'static str,
    path: &str,
    status: u16,
    code: &'static str,
    field: Option<&'static str>,
) -> Case {
    Case {
        method: "GET",
        route,
        path: path.into(),
        content_type: None,
        body: None,
        key: None,
        status,
        code,
        field,
    }
}

fn send(
    (method, route): (&'static str, &'static str),
    path: &str,
    body: impl ToString,
    (status, code): (u16, &'static str),
    field: Option<&'static str>,
) -> Case {
    let body = Some(body.to_string());
    Case { method, route, path: path.into(), content_type: Some(JSON), body, key: None, status, code, field }
}

const NOT_ACCEPTABLE: (u16, &str) = (422, "INVALID_FIELDS");
const MALFORMED: (u16, &str) = (400, "MALFORMED_JSON");

/// What is wrong with any body, whatever the call.
fn bodies(call: (&'static str, &'static str), path: &str) -> Vec<Case> {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut cases: Vec<_> = ["", "{", "{\"a\":1,}", "{} {}", "\u{feff}{}", "nul", "'x'"]
        .into_iter()
        .map(|body| send(call, path, body, MALFORMED, None))
        .collect();
    cases
        .extend(["[]", "5", "\"x\"", "null", &deep].map(|body| send(call, path, body, NOT_ACCEPTABLE, None)));
    cases.push(send(call, path, json!({"surprise": 1}), NOT_ACCEPTABLE, Some("surprise")));
    for content_type in [None, Some("text/plain"), Some("application/xml"), Some("application/jsonx")] {
        let case = send(call, path, "{}", (415, "UNSUPPORTED_MEDIA_TYPE"), None);
        cases.push(Case { content_type, ..case });
    }
    let huge = format!("\"{}\"", "x".repeat(300_000));
    cases.push(send(call, path, huge, (413, "BODY_TOO_LARGE"), None));
    cases
}

fn with(changes: Value) -> Value {
    let mut body = drop_body("new");
    for (field, value) in changes.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

fn lists(route: &'static str, path: &str) -> Vec<Case> {
    let mut cases: Vec<_> = ["0", "201", "-1", "x", "1e3", "99999999999999999999"]
        .into_iter()
        .map(|limit| get(route, &format!("{path}?limit={limit}"), 422, "INVALID_FIELDS", Some("limit")))
        .collect();
    // The last one is a sound cursor of another list: ["other",[1,"x"]]
    for cursor in ["", "!!!", "AAAA", "WyJvdGhlciIsWzEsIngiXV0"] {
        cases.push(get(route, &format!("{path}?cursor={cursor}"), 400, "BAD_CURSOR", None));
    }
    cases
}

/// The address with this id, whatever it is the id of.
fn at(route: &str, id: &str) -> String {
    [
        "{eventId}",
        "{userId}",
        "{requestId}",
        "{accountId}",
        "{transferId}",
        "{allocationId}",
        "{retryId}",
        "{couponId}",
        "{userCouponId}",
    ]
    .iter()
    .fold(route.to_owned(), |path, name| path.replace(name, id))
}

fn missing(method: &'static str, route: &'static str, code: &'static str) -> Vec<Case> {
    let bad = "a".repeat(200);
    let ids = ["nope", "with-hyphen%23", "%00", "a%2Fb", "%F0%9F%8E%81", bad.as_str()];
    let body = (method == "PATCH").then(|| "{}".to_owned());
    let case = |id: &str| Case {
        method,
        route,
        path: at(route, id),
        content_type: body.as_ref().map(|_| JSON),
        body: body.clone(),
        key: None,
        status: 404,
        code,
        field: None,
    };
    let mut cases: Vec<_> = ids.into_iter().map(case).collect();
    cases.push(Case { status: 400, code: "BAD_REQUEST", ..case("%FF%FE") });
    cases
}

fn cases() -> Vec<Case> {
    let create = ("POST", "/v1/admin/events");
    let patch = ("PATCH", "/v1/admin/events/{eventId}");
    let put = ("PUT", "/v1/admin/users/{userId}");
    let mut cases = Vec::new();
    cases.extend(bodies(create, create.1));
    cases.extend(bodies(patch, "/v1/admin/events/there"));
    cases.extend(bodies(put, "/v1/admin/users/u-1"));
    for (changes, field) in [
        (json!({"eventId": null}), "eventId"),
        (json!({"eventId": 5}), "eventId"),
        (json!({"eventId": "a-b"}), "eventId"),
        (json!({"eventId": "x".repeat(65)}), "eventId"),
        (json!({"type": "RAFFLE"}), "type"),
        (json!({"name": ""}), "name"),
        (json!({"name": "a\u{0}b"}), "name"),
        (json!({"startsAt": "soon"}), "startsAt"),
        (json!({"startsAt": 1.5}), "startsAt"),
        (json!({"startsAt": -1}), "startsAt"),
        (json!({"endsAt": 1_600_000_000_000_i64}), "endsAt"),
        (json!({"capacityTotal": 0}), "capacityTotal"),
        (json!({"capacityTotal": 1e300}), "capacityTotal"),
        (json!({"lotteryCutoffAt": 1_800_000_000_000_i64}), "lotteryCutoffAt"),
        (json!({"rewards": {}}), "rewards"),
        (json!({"rewards": [["r", "ITEM"]]}), "rewards[0]"),
        (json!({"rewards": [{"rewardId": "r"}]}), "rewards[0].kind"),
        (json!({"rewards": [{"rewardId": "r", "kind": "CASH"}]}), "rewards[0].kind"),
        (json!({"rewards": [{"rewardId": "r", "kind": "ITEM", "colour": 1}]}), "rewards[0].colour"),
        (json!({"rewards": [{"rewardId": "r", "kind": "ITEM", "quantity": "2"}]}), "rewards[0].quantity"),
        (
            json!({"rewards": [{"rewardId": "r", "kind": "POINT", "amount": -1, "currency": "KRW"}]}),
            "rewards[0].amount",
        ),
        (
            json!({"rewards": [{"rewardId": "r", "kind": "POINT", "amount": 0.00001, "currency": "KRW"}]}),
            "rewards[0].amount",
        ),
        (json!({"rewards": [{"rewardId": "r", "kind": "ITEM", "details": 5}]}), "rewards[0].details"),
        (json!({"type": "CLAIM", "capacityTotal": null, "grantPolicy": "SOME"}), "grantPolicy"),
        (json!({"conditions": "true"}), "conditions"),
        (json!({"type": "LOTTERY", "lotteryCutoffAt": 4_000_000_000_001_i64}), "lotteryCutoffAt"),
        (
            json!({"type": "ATTENDANCE", "capacityTotal": null, "attendance": {"daily": "nope"}}),
            "attendance.daily",
        ),
        (
            json!({"type": "RANDOM", "capacityTotal": null, "random": {"prizes": [{"rewardId": "gift", "weight": 0}]}}),
            "random.prizes",
        ),
    ] {
        cases.push(send(create, create.1, with(changes), NOT_ACCEPTABLE, Some(field)));
    }
    for conditions in [
        json!("activity. >"),
        json!("(".repeat(1_000)),
        json!("a".repeat(2_001)),
        json!(""),
        json!(5),
        json!("1"),
        json!("nobody.LEVEL > 1"),
        json!("size(1) > 2"),
        json!("activity.LEVEL + true"),
    ] {
        let body = with(json!({"type": "CLAIM", "capacityTotal": null, "conditions": conditions}));
        cases.push(send(create, create.1, body, NOT_ACCEPTABLE, Some("conditions")));
    }
    cases.push(send(create, create.1, drop_body("there"), (409, "EVENT_EXISTS"), None));
    for (changes, field) in [
        (json!({"eventId": "other"}), "eventId"),
        (json!({"type": "CLAIM"}), "type"),
        (json!({"name": null}), "name"),
        (json!({"capacityTotal": null}), "capacityTotal"),
        (json!({"endsAt": 0}), "endsAt"),
        (json!({"random": {"prizes": []}}), "random"),
        (json!({"conditions": "true"}), "conditions"),
    ] {
        cases.push(send(patch, "/v1/admin/events/there", changes, NOT_ACCEPTABLE, Some(field)));
    }
    for body in [json!({}), json!({"status": "GONE"}), json!({"status": null}), json!({"status": 1})] {
        cases.push(send(put, "/v1/admin/users/u-1", body, NOT_ACCEPTABLE, None));
    }
    for user in ["a%23b", "a%2Fb", "%20", &"u".repeat(129)] {
        let address = format!("/v1/admin/users/{user}");
        cases.push(send(put, &address, json!({"status": "BANNED"}), (404, "USER_NOT_FOUND"), None));
    }
    for route in ["/v1/events", "/v1/admin/events", "/v1/admin/audit-log", "/v1/me/requests"] {
        cases.extend(lists(route, route));
    }
    let line = "/v1/admin/events/{eventId}/requests";
    cases.extend(lists(line, "/v1/admin/events/open_1/requests"));
    for (filter, field) in [("status=WILD", "status"), ("resultCode=LUCK", "resultCode")] {
        let filtered = format!("/v1/admin/events/open_1/requests?{filter}");
        cases.push(get(line, &filtered, 422, "INVALID_FIELDS", Some(field)));
    }
    cases.push(get(
        "/v1/admin/events",
        "/v1/admin/events?status=WILD",
        422,
        "INVALID_FIELDS",
        Some("status"),
    ));
    cases.push(get("/v1/time", "/v1/time/", 404, "NOT_FOUND", None));
    let audit = "/v1/admin/audit";
    cases.push(get(audit, "/v1/admin/audit/", 404, "NOT_FOUND", None));
    let both = "/v1/admin/audit-log?eventId=a&userId=b";
    cases.push(get("/v1/admin/audit-log", both, 422, "INVALID_FIELDS", Some("userId")));
    for route in [
        "/v1/events/{eventId}",
        "/v1/admin/events/{eventId}",
        line,
        "/v1/admin/events/{eventId}/summary",
        "/v1/admin/events/{eventId}/stream",
        "/v1/admin/events/{eventId}/pace",
        "/v1/admin/events/{eventId}/pace/stream",
        "/v1/events/{eventId}/draw",
        "/v1/events/{eventId}/draw/document",
        "/v1/events/{eventId}/draw/proof",
    ] {
        cases.extend(missing("GET", route, "EVENT_NOT_FOUND"));
    }
    for (route, lottery) in [
        ("/v1/events/{eventId}/draw", None),
        ("/v1/events/{eventId}/draw/document", Some((409, "DRAW_NOT_READY"))),
        ("/v1/events/{eventId}/draw/proof", Some((409, "DRAW_NOT_READY"))),
    ] {
        cases.push(get(route, &route.replace("{eventId}", "there"), 404, "EVENT_NOT_FOUND", None));
        cases.push(get(route, &route.replace("{eventId}", "open_1"), 409, "EVENT_WRONG_TYPE", None));
        if let Some((status, code)) = lottery {
            cases.push(get(route, &route.replace("{eventId}", "lottery"), status, code, None));
        }
    }
    let draw = ("POST", "/v1/admin/events/{eventId}/draw");
    let nonce = || json!({"publicNonce": "abc"});
    cases.extend(bodies(draw, "/v1/admin/events/lottery/draw"));
    for odd in [json!(""), json!("a\nb"), json!("x".repeat(513)), json!(5), Value::Null] {
        let body = json!({"publicNonce": odd});
        cases.push(send(draw, "/v1/admin/events/lottery/draw", body, NOT_ACCEPTABLE, Some("publicNonce")));
    }
    cases.push(send(draw, "/v1/admin/events/nope/draw", nonce(), (404, "EVENT_NOT_FOUND"), None));
    cases.push(send(draw, "/v1/admin/events/open_1/draw", nonce(), (409, "EVENT_WRONG_TYPE"), None));
    cases.push(send(draw, "/v1/admin/events/lottery/draw", nonce(), (409, "DRAW_NOT_READY"), None));
    for route in
        ["/v1/requests/{requestId}", "/v1/requests/{requestId}/stream", "/v1/admin/requests/{requestId}"]
    {
        cases.extend(missing("GET", route, "REQUEST_NOT_FOUND"));
        let unknown = route.replace("{requestId}", "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001");
        cases.push(get(route, &unknown, 404, "REQUEST_NOT_FOUND", None));
    }
    let apply = ("POST", "/v1/events/{eventId}/requests");
    cases.extend(missing(apply.0, apply.1, "EVENT_NOT_FOUND"));
    cases.push(send(apply, "/v1/events/there/requests", "", (404, "EVENT_NOT_FOUND"), None));
    cases.push(send(apply, "/v1/events/future/requests", "", (409, "EVENT_NOT_OPEN"), None));
    cases.push(send(apply, "/v1/events/claims/requests", "", (409, "EVENT_WRONG_TYPE"), None));
    let summary = "/v1/admin/events/{eventId}/summary";
    cases.push(get(summary, "/v1/admin/events/there/summary", 409, "EVENT_NOT_OPEN", None));
    for route in ["/v1/admin/events/{eventId}/pace", "/v1/admin/events/{eventId}/pace/stream"] {
        cases.push(get(route, &route.replace("{eventId}", "there"), 409, "EVENT_WRONG_TYPE", None));
    }
    cases.extend(missing("GET", "/v1/users/{userId}/status", "USER_NOT_FOUND"));
    cases.extend(missing("PATCH", "/v1/admin/events/{eventId}", "EVENT_NOT_FOUND"));
    for route in ["open", "close", "cancel"] {
        let route = match route {
            "open" => "/v1/admin/events/{eventId}/open",
            "close" => "/v1/admin/events/{eventId}/close",
            _ => "/v1/admin/events/{eventId}/cancel",
        };
        cases.extend(missing("POST", route, "EVENT_NOT_FOUND"));
    }
    cases.extend(parts::wallet_cases());
    cases.extend(parts::outbox_cases());
    cases.extend(parts::entry_cases());
    cases.extend(parts::allocation_cases());
    cases.extend(parts::claim_cases());
    cases.extend(parts::activity_cases());
    cases.extend(parts::coupon_cases());
    cases.extend(parts::session_cases());
    cases.extend(parts::console_cases());
    let close = ("POST", "/v1/admin/events/{eventId}/close");
    cases.push(send(close, "/v1/admin/events/there/close", "", (409, "EVENT_TRANSITION_REFUSED"), None));
    let open = ("POST", "/v1/admin/events/{eventId}/open");
    cases.push(send(open, "/v1/admin/events/over/open", "", (409, "EVENT_NOT_READY"), Some("endsAt")));
    cases.push(send(
        patch,
        "/v1/admin/events/open_1",
        json!({"rewards": []}),
        (409, "EVENT_FIELD_FROZEN"),
        None,
    ));
    let conditions = json!({"conditions": "true"});
    cases.push(send(patch, "/v1/admin/events/claims", conditions, (409, "EVENT_FIELD_FROZEN"), None));
    cases
}

fn bad_input_is_refused_and_changes_nothing(cluster: &Cluster) {
    let operator = cluster.operator(0);
    let mut over = drop_body("over");
    over["endsAt"] = json!(1_700_000_000_001_i64);
    let mut future = drop_body("future");
    future["startsAt"] = json!(3_900_000_000_000_i64);
    let mut claims = drop_body("claims");
    claims["type"] = json!("CLAIM");
    claims["capacityTotal"] = Value::Null;
    let mut gated = claims.clone();
    gated["eventId"] = json!("gated");
    gated["conditions"] = json!("activity.LEVEL > 9");
    let mut lottery = drop_body("lottery");
    lottery["type"] = json!("LOTTERY");
    lottery["lotteryCutoffAt"] = json!(3_900_000_000_000_i64);
    lottery["publicNonceSource"] = json!("a beacon");
    let mut future_daily = future.clone();
    future_daily["eventId"] = json!("future_daily");
    future_daily["type"] = json!("ATTENDANCE");
    future_daily["capacityTotal"] = Value::Null;
    future_daily["attendance"] = json!({"daily": "points"});
    let mut future_game = future_daily.clone();
    future_game["eventId"] = json!("future_game");
    future_game["type"] = json!("RANDOM");
    future_game["attendance"] = Value::Null;
    future_game["random"] = json!({"prizes": [{"rewardId": "points", "weight": 1}]});
    let open_1 = drop_body("open_1");
    for body in [drop_body("there"), open_1, over, future, claims, gated, lottery, future_daily, future_game]
    {
        operator.post("/v1/admin/events", &body).expect(201);
    }
    for open in ["open_1", "future", "claims", "gated", "lottery", "future_daily", "future_game"] {
        operator.post(&format!("/v1/admin/events/{open}/open"), &json!({})).expect(200);
    }
    operator.send("PUT", "/v1/admin/users/u-1/activity", &[], Some(r#"{"LEVEL": 1}"#)).expect(200);
    let refused = crate::claims::claim(&operator, "gated", parts::ENDED_CLAIM, &[]).expect(422);
    assert_eq!(refused.code(), "CONDITION_NOT_MET");
    let coupon = json!({"couponId": "c_1", "name": "Ten off", "totalQuantity": 5});
    operator.post("/v1/admin/coupons", &coupon).expect(201);
    let later =
        json!({"couponId": "later", "name": "x", "totalQuantity": 5, "validFrom": 3_900_000_000_000_i64});
    operator.post("/v1/admin/coupons", &later).expect(201);
    let everything = || {
        let mut sql = cluster.database.sql();
        let texts = |sql: &mut guerdon_harness::database::Sql, query: &str| sql.texts(query).join("\n");
        let events =
            texts(&mut sql, "SELECT event_id || status || name || kind || version FROM events ORDER BY 1");
        let activity = texts(&mut sql, "SELECT user_id || activity FROM user_activity ORDER BY 1");
        let claims =
            texts(&mut sql, "SELECT request_id || status || epoch FROM user_reward_requests ORDER BY 1");
        let tables = ["core.account", "core.currency", "core.transfer", "integration.idempotency_key"];
        let tables = tables.map(|table| sql.table(table));
        let counts: Vec<_> = [
            "event_rewards",
            "audit_log",
            "users",
            "event_entry",
            "event_entrants",
            "allocation_retries",
            "claim_stock",
            "coupon",
            "coupon_count",
            "user_coupon",
        ]
        .into_iter()
        .chain(tables.iter().map(String::as_str))
        .map(|table| sql.number(&format!("SELECT COUNT(*) FROM {table}")))
        .collect();
        (events, activity, claims, counts)
    };
    let before = everything();
    let cases = cases();
    for (number, case) in cases.iter().enumerate() {
        let key = case.key.clone().unwrap_or_else(|| format!("key-{number:05}"));
        let mut headers: Vec<_> = case.content_type.map(|kind| ("content-type", kind)).into_iter().collect();
        if case.content_type.is_none() && case.body.is_some() {
            headers.push(("content-type", ""));
        }
        if case.code != "IDEMPOTENCY_KEY_MISSING" {
            headers.push(("idempotency-key", &key));
        }
        let answer = cluster.operator(number).send(case.method, &case.path, &headers, case.body.as_deref());
        let shown: String = case.body.as_deref().unwrap_or_default().chars().take(120).collect();
        let what = format!("{} {} {shown}\n{}", case.method, case.path, answer.text);
        assert_eq!((answer.status, answer.code().as_str()), (case.status, case.code), "{what}");
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}");
        let problem = answer.json();
        assert_eq!(problem["status"], case.status, "{what}");
        assert_eq!(problem["type"], format!("/docs/errors/{}", case.code), "{what}");
        assert_eq!(problem["instance"].as_str(), answer.header("x-request-id"), "{what}");
        if let Some(field) = case.field {
            assert_eq!(problem["fields"][0]["path"], field, "{what}");
        }
    }
    assert_eq!(everything(), before, "something was written");
    every_route_is_covered(cluster, &cases);
    strangers_get_nothing(cluster);
    let panics = cluster.servers.iter().filter(|server| server.log_text().contains("panicked")).count();
    assert_eq!(panics, 0);
    assert!(cluster.servers.iter().all(|server| server.api().get("/readyz").status == 200));
}

/// The table has a case for every call that the API's description names.
fn every_route_is_covered(cluster: &Cluster, cases: &[Case]) {
    let api = cluster.servers[0].api().get("/openapi.json").expect(200).json();
    let mut described = BTreeSet::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        described
            .extend(item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())));
    }
    described.retain(|(_, path)| path.starts_with("/v1/"));
    let covered: BTreeSet<_> =
        cases.iter().map(|case| (case.method.to_owned(), case.route.to_owned())).collect();
    assert_eq!(covered, described);
    let api = cluster.servers[0].api().with_token(&token("u-1", "USER"));
    for (method, path) in described {
        let path = at(&path, "there");
        for wrong in ["TRACE", "DELETE"] {
            if (wrong, path.as_str()) == ("DELETE", "/v1/session") {
                continue;
            }
            let answer = api.send(wrong, &path, &[], None).expect(405);
            assert_eq!(answer.code(), "METHOD_NOT_ALLOWED");
            assert!(answer.header("allow").unwrap().contains(&method), "{method} {path}");
        }
    }
    for path in
        ["/", "/v1", "/v1/", "/v1/admin", "/v2/events", "/v1/events/", "/docs/errors/NOPE", "/../etc/passwd"]
    {
        assert_eq!(api.get(path).expect(404).code(), "NOT_FOUND", "{path}");
    }
}

fn strangers_get_nothing(cluster: &Cluster) {
    let stranger = cluster.servers[0].api();
    let user = stranger.with_token(&token("u-1", "USER"));
    for (method, path) in [
        ("GET", "/v1/admin/events"),
        ("POST", "/v1/admin/events"),
        ("GET", "/v1/admin/events/there"),
        ("PATCH", "/v1/admin/events/there"),
        ("POST", "/v1/admin/events/there/open"),
        ("POST", "/v1/admin/events/there/close"),
        ("POST", "/v1/admin/events/there/cancel"),
        ("POST", "/v1/admin/events/lottery/draw"),
        ("PUT", "/v1/admin/users/u-1"),
        ("GET", "/v1/admin/audit-log"),
        ("GET", "/v1/admin/audit"),
        ("GET", "/v1/users/u-1/status"),
        ("GET", "/v1/admin/events/open_1/requests"),
        ("GET", "/v1/admin/events/open_1/summary"),
        ("GET", "/v1/admin/events/open_1/stream"),
        ("GET", "/v1/admin/events/open_1/pace"),
        ("GET", "/v1/admin/events/open_1/pace/stream"),
        ("GET", "/v1/admin/requests/x"),
        ("POST", "/v1/admin/accounts"),
        ("POST", "/v1/admin/accounts/1/deposit"),
        ("GET", "/v1/admin/outbox"),
        ("GET", "/v1/admin/outbox/sink"),
        ("POST", "/v1/admin/outbox/replay"),
        ("POST", "/v1/admin/outbox/018bcfe5-6800-7001-8000-000000000001/replay"),
        ("POST", "/v1/admin/outbox/sink/enable"),
        ("GET", "/v1/admin/claims"),
        ("GET", "/v1/admin/claims/nobody-s-claim"),
        ("POST", "/v1/admin/claims/nobody-s-claim/retry"),
        ("POST", "/v1/admin/claims/nobody-s-claim/resolve"),
        ("GET", "/v1/admin/coupons"),
        ("POST", "/v1/admin/coupons"),
        ("GET", "/v1/admin/coupons/c_1"),
        ("GET", "/v1/admin/coupons/c_1/user-coupons"),
        ("POST", "/v1/admin/user-coupons/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001/revoke"),
        ("GET", "/v1/admin/users/u-1/activity"),
        ("PUT", "/v1/admin/users/u-1/activity"),
        ("GET", "/v1/admin/search?q=u-1"),
        ("GET", "/v1/admin/users"),
        ("GET", "/v1/admin/users/u-1/requests"),
        ("GET", "/v1/admin/users/u-1/coupons"),
        ("GET", "/v1/admin/accounts"),
        ("GET", "/v1/admin/events/open_1/users/u-1"),
        ("GET", "/v1/admin/allocations/count"),
        ("GET", "/v1/admin/allocations/retries"),
        ("POST", "/v1/admin/allocations/cancel"),
    ] {
        // Refused before the body is read, so even a broken one says nothing about what lies behind.
        let body = (method != "GET").then_some("{");
        stranger.send(method, path, &[], body).expect(401);
        user.send(method, path, &[], body).expect(403);
    }
}
