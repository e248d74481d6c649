//! Browsers' sessions: a cookie that counts where there is no Authorization header, and a proof for what changes something.

use crate::support::{BINARY, Cluster, on_sqlite, seconds_now, sign, token};
use guerdon_harness::api::drop_body;
use guerdon_harness::{Answer, Api, Server, ServerOptions, TestDatabase, TestEngine, until};
use serde_json::{Value, json};
use std::time::Duration;

struct Session {
    cookie: String,
    view: Value,
}

impl Session {
    fn begin(api: &Api, token: &str) -> Self {
        let begun = api.post("/v1/session", &json!({"token": token})).expect(201);
        let cookie = begun.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        assert_eq!(begun.header("cache-control"), Some("no-store"));
        Self { cookie, view: begun.json() }
    }

    fn csrf(&self) -> &str {
        self.view["csrfToken"].as_str().unwrap()
    }

    fn send(
        &self,
        api: &Api,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: Option<Value>,
    ) -> Answer {
        let mut headers = vec![("cookie", self.cookie.as_str())];
        headers.extend(more);
        let body = body.map(|body| body.to_string());
        api.send(method, path, &headers, body.as_deref())
    }
}

#[test]
fn a_session_is_its_token_and_nothing_more() {
    let (_database, server) = on_sqlite(&[]);
    let api = server.api();
    let claims =
        json!({"sub": "ops-1", "name": "김 서연", "roles": ["OPERATOR"], "exp": seconds_now() + 600});
    let begun = api.post("/v1/session", &json!({"token": sign(&claims)})).expect(201);
    let cookie = begun.header("set-cookie").unwrap();
    for part in ["; Path=/;", "; HttpOnly;", "; SameSite=Strict;"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure"), "the server speaks plain HTTP: {cookie}");
    let age: i64 = cookie.split_once("Max-Age=").unwrap().1.parse().unwrap();
    assert!((590..=600).contains(&age), "as long as the token: {age}");
    let session = Session::begin(&api, &sign(&claims));
    assert_eq!(session.view["userId"], "ops-1");
    assert_eq!(session.view["name"], "김 서연");
    assert_eq!(session.view["roles"], json!(["OPERATOR"]));
    assert_eq!(session.view["expiresAt"].as_i64().unwrap(), claims["exp"].as_i64().unwrap() * 1_000);
    assert_eq!(session.send(&api, "GET", "/v1/session", &[], None).expect(200).json(), session.view);
    session.send(&api, "GET", "/v1/admin/events", &[], None).expect(200);
    // Somebody else's Authorization header wins, and a bad one is not made good by the cookie.
    let user = format!("Bearer {}", token("u-1", "USER"));
    session.send(&api, "GET", "/v1/admin/events", &[("authorization", &user)], None).expect(403);
    session.send(&api, "GET", "/v1/admin/events", &[("authorization", "Bearer x.y.z")], None).expect(401);
    // It ends by itself with the token, and by a call.
    let expired = sign(&json!({"sub": "a", "exp": seconds_now() - 1}));
    assert_eq!(api.post("/v1/session", &json!({"token": expired})).expect(401).code(), "TOKEN_EXPIRED");
    let late = format!("guerdon_session={expired}");
    assert_eq!(
        api.send("GET", "/v1/session", &[("cookie", &late)], None).expect(401).code(),
        "TOKEN_EXPIRED"
    );
    let nobody = sign(&json!({"sub": "a", "roles": [], "exp": seconds_now() + 600}));
    assert_eq!(api.post("/v1/session", &json!({"token": nobody})).expect(403).code(), "FORBIDDEN");
    let long = json!({"sub": "a", "exp": seconds_now() + 600, "more": "x".repeat(4_000)});
    let refused = api.post("/v1/session", &json!({"token": sign(&long)})).expect(422);
    assert_eq!(refused.json()["fields"][0]["path"], "token");
    session.send(&api, "DELETE", "/v1/session", &[], None).expect(403);
    let ended =
        session.send(&api, "DELETE", "/v1/session", &[("x-csrf-token", session.csrf())], None).expect(204);
    assert!(ended.header("set-cookie").unwrap().contains("guerdon_session=; ") && ended.text.is_empty());
    assert!(
        !server.log_text().contains(&session.cookie["guerdon_session=".len()..]),
        "a token is in the log"
    );
}

/// A page of another site can make a browser send the cookie, but neither read the proof nor hide where it is.
#[test]
fn what_another_sites_page_could_send_changes_nothing() {
    let (_database, server) = on_sqlite(&[]);
    let api = server.api();
    let session = Session::begin(&api, &token("op", "OPERATOR"));
    let other = Session::begin(&api, &token("other", "OPERATOR"));
    let create = |more: &[(&str, &str)]| {
        session.send(&api, "POST", "/v1/admin/events", more, Some(drop_body("forged")))
    };
    let good = ("x-csrf-token", session.csrf());
    for forged in [
        &[][..],
        &[("x-csrf-token", "")],
        &[("x-csrf-token", "AAAA")],
        &[("x-csrf-token", other.csrf())],
        &[good, ("sec-fetch-site", "cross-site")],
        &[good, ("sec-fetch-site", "same-site")],
        &[good, ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
    ] {
        assert_eq!(create(forged).expect(403).code(), "CSRF_REFUSED", "{forged:?}");
    }
    for (method, path) in
        [("PATCH", "/v1/admin/events/x"), ("PUT", "/v1/admin/users/u"), ("DELETE", "/v1/session")]
    {
        let refused = session.send(&api, method, path, &[], Some(json!({})));
        assert_eq!(refused.expect(403).code(), "CSRF_REFUSED", "{method} {path}");
    }
    let theirs = [("sec-fetch-site", "cross-site")];
    session.send(&api, "GET", "/v1/admin/events", &theirs, None).expect(403);
    let signed_in = json!({"token": token("mallory", "USER")}).to_string();
    let refused = api.send("POST", "/v1/session", &theirs, Some(&signed_in)).expect(403);
    assert_eq!((refused.code().as_str(), refused.header("set-cookie")), ("CSRF_REFUSED", None));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    api.send("POST", "/v1/session", &form, Some("token=x")).expect(415);
    let doubled = format!("{}; {}", session.cookie, other.cookie);
    assert_eq!(
        api.send("GET", "/v1/session", &[("cookie", &doubled)], None).expect(401).code(),
        "TOKEN_INVALID"
    );
    assert_eq!(
        session.send(&api, "GET", "/v1/admin/events", &[], None).expect(200).json()["items"],
        json!([])
    );
    create(&[good, ("sec-fetch-site", "same-origin")]).expect(201);
}

/// One server's proof is good at another, and behind the gateway the cookie stays there.
#[test]
fn sessions_are_the_same_at_the_gateway() {
    const SECRET: &str = "a-secret-between-gateway-and-servers";
    let database = TestDatabase::new(TestEngine::Sqlite);
    let options = ServerOptions::on(&database.url)
        .with("GUERDON_IDENTITY", "trusted-headers")
        .with("GUERDON_GATEWAY__SECRET", SECRET);
    let server = Server::start(BINARY, &options);
    let options = ServerOptions::gateway(&[&server.address])
        .with("GUERDON_GATEWAY__SECRET", SECRET)
        .with("GUERDON_GATEWAY__HEALTH_INTERVAL", "100ms")
        .with("GUERDON_HTTP__TRUSTED_PROXIES", "127.0.0.1");
    let gateway = Server::start(BINARY, &options);
    until("the gateway to know its server", Duration::from_secs(10), || {
        (gateway.api().get("/metrics").text.contains("} 1")).then_some(())
    });
    let api = gateway.api();
    for page in ["/console", "/assets/base/base.css"] {
        assert!(api.get(page).expect(200).header("content-security-policy").is_some(), "{page}");
    }
    let session = Session::begin(&api, &token("op", "OPERATOR"));
    let elsewhere = Cluster::start(TestEngine::Sqlite, 1);
    let same = session.send(&elsewhere.servers[0].api(), "GET", "/v1/session", &[], None).expect(200);
    assert_eq!(same.json(), session.view);
    session.send(&api, "GET", "/v1/admin/events", &[], None).expect(200);
    let body = || Some(drop_body("d"));
    assert_eq!(
        session.send(&api, "POST", "/v1/admin/events", &[], body()).expect(403).code(),
        "CSRF_REFUSED"
    );
    session.send(&api, "POST", "/v1/admin/events", &[("x-csrf-token", session.csrf())], body()).expect(201);
    let more = [("x-csrf-token", session.csrf())];
    assert!(session.send(&api, "PUT", "/v1/session", &more, body()).expect(405).header("allow").is_some());
    // The server itself has no sessions, and takes no cookie for an identity.
    for (method, path) in [("GET", "/v1/session"), ("DELETE", "/v1/session"), ("GET", "/v1/admin/events")] {
        let more = [("x-csrf-token", session.csrf())];
        let refused = session.send(&server.api(), method, path, &more, None).expect(401);
        assert_eq!(refused.code(), "TOKEN_MISSING", "{method} {path}");
    }
    let token = json!({"token": token("op", "OPERATOR")});
    server.api().post("/v1/session", &token).expect(401);
    // Behind a proxy that encrypts, the cookie is for encrypted connections only.
    let body = token.to_string();
    let begun = api.send("POST", "/v1/session", &[("x-forwarded-proto", "https")], Some(&body)).expect(201);
    assert!(begun.header("set-cookie").unwrap().ends_with("; Secure"));
    session.send(&api, "DELETE", "/v1/session", &[("x-csrf-token", session.csrf())], None).expect(204);
}

#[test]
fn a_link_signs_in_and_pages_are_kept_by_their_content() {
    let (_database, server) = on_sqlite(&[]);
    let printed = std::process::Command::new(BINARY)
        .args(["token", "--user", "me", "--role", "OPERATOR", "--link", "console"])
        .env("GUERDON_AUTH__SECRET", guerdon_harness::server::SECRET)
        .env("GUERDON_LISTEN", "127.0.0.1:8099")
        .output()
        .unwrap();
    let link = String::from_utf8(printed.stdout).unwrap();
    let token = link.trim().strip_prefix("http://127.0.0.1:8099/console#token=").unwrap();
    assert_eq!(Session::begin(&server.api(), token).view["userId"], "me");
    let page = server.api().get("/console").expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    let tag = page.header("etag").unwrap();
    let known = server.api().send("GET", "/console", &[("if-none-match", tag)], None).expect(304);
    assert!(known.text.is_empty());
    server.api().send("GET", "/console", &[("if-none-match", "\"other\"")], None).expect(200);
    for odd in ["/assets/", "/assets/none.js", "/assets/../Cargo.toml", "/assets/base/%2e%2e/x", "/console/x"]
    {
        assert_eq!(server.api().get(odd).expect(404).code(), "NOT_FOUND", "{odd}");
    }
    assert_eq!(server.api().post("/console", &json!({})).expect(405).code(), "METHOD_NOT_ALLOWED");
}
