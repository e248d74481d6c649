//! Sessions of browsers: the token in a cookie that no script can read, and a second proof with every call that changes something.
//!
//! Nothing is kept here. The proof is a MAC keyed with the token itself, which only this browser's cookie and whoever verifies it
//! know; so it is bound to the session, and is the same at every server and at the gateway, whatever tokens are signed with.

use crate::problem::Problem;
use crate::token::Verifier;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guerdon_core::identity::{Permission, Role};
use guerdon_core::{Code, Timestamp, UserId};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use utoipa::ToSchema;

const COOKIE_NAME: &str = "guerdon_session";
/// Browsers keep cookies of up to 4096 bytes, with their name and attributes.
const TOKEN_BYTES_MAX: usize = 3_900;
static CSRF_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");
static FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const PURPOSE: &[u8] = b"guerdon csrf v1";

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SessionBody {
    /// The token to sign in with.
    pub(crate) token: String,
}

/// Who is signed in.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionView {
    #[schema(value_type = String)]
    user_id: UserId,
    name: Option<String>,
    #[schema(value_type = Vec<String>)]
    roles: Vec<Role>,
    /// When the token, and the session with it, ends.
    #[schema(value_type = i64)]
    expires_at: Timestamp,
    /// For the header `X-CSRF-Token` of every call of this session that is not a read.
    csrf_token: String,
}

/// The token that a call brings: in its Authorization header, or where it has none, in its session's cookie.
pub(crate) fn token<'r>(headers: &'r HeaderMap, method: &Method) -> Result<&'r str, Problem> {
    if !headers.contains_key(COOKIE) || headers.contains_key(AUTHORIZATION) {
        return bearer(headers);
    }
    let Some(token) = cookie(headers)? else { return bearer(headers) };
    is_from_a_page_of_ours(headers)?;
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    if !reads && !has_proof(headers, token) {
        let detail = "a session's calls that are not reads need its csrfToken in the header X-CSRF-Token";
        return Err(Problem::new(Code::CsrfRefused, detail));
    }
    Ok(token)
}

pub(crate) fn bearer(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let missing = || Problem::new(Code::TokenMissing, "send Authorization: Bearer and a token");
    let value = values.next().ok_or_else(missing)?;
    if values.next().is_some() {
        return Err(Problem::new(Code::TokenInvalid, "there is more than one Authorization header"));
    }
    let text = value.to_str().map_err(|_| missing())?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() => {
            Ok(token.trim())
        }
        _ => Err(missing()),
    }
}

/// The session's cookie. Two of them are none: one may have been put there by a neighbour in the same domain.
fn cookie(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut found = texts
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter(|(name, value)| *name == COOKIE_NAME && !value.is_empty())
        .map(|(_, value)| value);
    let first = found.next();
    if found.next().is_some() {
        return Err(Problem::new(Code::TokenInvalid, format!("there is more than one cookie {COOKIE_NAME}")));
    }
    Ok(first)
}

/// Browsers say where a call comes from; another site's page has no business with this one's sessions.
pub(crate) fn is_from_a_page_of_ours(headers: &HeaderMap) -> Result<(), Problem> {
    let said = headers.get_all(&FETCH_SITE).iter().all(|site| site == "same-origin" || site == "none");
    if said {
        return Ok(());
    }
    Err(Problem::new(Code::CsrfRefused, "the browser says that the call comes from another site's page"))
}

fn has_proof(headers: &HeaderMap, token: &str) -> bool {
    let mut sent = headers.get_all(&CSRF_TOKEN).iter();
    let (Some(proof), None) = (sent.next(), sent.next()) else { return false };
    URL_SAFE_NO_PAD.decode(proof.as_bytes()).is_ok_and(|proof| mac(token).verify_slice(&proof).is_ok())
}

fn mac(token: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("a key of any length will do");
    mac.update(PURPOSE);
    mac
}

/// Signs in with a token. `secure`: whether the browser came over TLS, and is to send the cookie over nothing else.
pub(crate) async fn begin(
    verifier: &Verifier,
    token: &str,
    now: Timestamp,
    secure: bool,
) -> Result<Response, Problem> {
    let token = token.trim();
    let (view, expires_at) = view(verifier, token, now).await?;
    let fits = token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.=".contains(&byte));
    if token.len() > TOKEN_BYTES_MAX || !fits {
        let reason = format!("must fit a cookie: at most {TOKEN_BYTES_MAX} characters of base64url");
        return Err(Problem::field("token", reason));
    }
    let seconds = (expires_at.millis_since(now) / 1_000).max(0);
    Ok((StatusCode::CREATED, own(&set_cookie(token, seconds, secure)), axum::Json(view)).into_response())
}

/// Who is signed in just now.
pub(crate) async fn present(verifier: &Verifier, token: &str, now: Timestamp) -> Result<Response, Problem> {
    let (view, _) = view(verifier, token, now).await?;
    Ok(([(CACHE_CONTROL, "no-store")], axum::Json(view)).into_response())
}

/// Takes the cookie away.
pub(crate) fn end(secure: bool) -> Response {
    (StatusCode::NO_CONTENT, own(&set_cookie("", 0, secure))).into_response()
}

async fn view(verifier: &Verifier, token: &str, now: Timestamp) -> Result<(SessionView, Timestamp), Problem> {
    let (identity, expires_at) = verifier.read(token, now).await?;
    if !identity.may(Permission::Participate) {
        let detail = format!("a session is for the roles {}", Permission::Participate.roles());
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let view = SessionView {
        user_id: identity.user_id.clone(),
        name: identity.name.clone(),
        roles: identity.roles.clone(),
        expires_at,
        csrf_token: URL_SAFE_NO_PAD.encode(mac(token).finalize().into_bytes()),
    };
    Ok((view, expires_at))
}

fn set_cookie(token: &str, seconds: i64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}")
}

fn own(cookie: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        headers.insert(SET_COOKIE, cookie);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::{Hmac, Sha256, URL_SAFE_NO_PAD, mac, token};
    use axum::http::{HeaderMap, HeaderName, Method};
    use base64::Engine as _;
    use hmac::Mac;

    fn text(mac: Hmac<Sha256>) -> String {
        URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }

    #[test]
    fn which_token_counts_and_what_a_session_must_prove() {
        let (proof, other) = (text(mac("a.b.c")), text(mac("x.y.z")));
        let session = ("cookie", "theme=dark; guerdon_session=a.b.c; x=y");
        let csrf = |value: &'static str| ("x-csrf-token", value);
        let (proof, other) = (csrf(proof.leak()), csrf(other.leak()));
        let (ours, theirs) = (("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site"));
        for (method, sent, expected) in [
            ("GET", &[][..], Err("TOKEN_MISSING")),
            ("GET", &[("cookie", "other=1")], Err("TOKEN_MISSING")),
            ("GET", &[("cookie", "guerdon_session=")], Err("TOKEN_MISSING")),
            ("GET", &[session], Ok("a.b.c")),
            ("HEAD", &[session], Ok("a.b.c")),
            ("GET", &[session, ours], Ok("a.b.c")),
            ("GET", &[session, ("sec-fetch-site", "none")], Ok("a.b.c")),
            ("GET", &[session, theirs], Err("CSRF_REFUSED")),
            ("GET", &[session, ("sec-fetch-site", "same-site")], Err("CSRF_REFUSED")),
            ("GET", &[session, session], Err("TOKEN_INVALID")),
            ("POST", &[session], Err("CSRF_REFUSED")),
            ("POST", &[session, ours], Err("CSRF_REFUSED")),
            ("POST", &[session, csrf("")], Err("CSRF_REFUSED")),
            ("POST", &[session, csrf("%%%")], Err("CSRF_REFUSED")),
            ("POST", &[session, other], Err("CSRF_REFUSED")),
            ("POST", &[session, proof, proof], Err("CSRF_REFUSED")),
            ("POST", &[session, proof, theirs], Err("CSRF_REFUSED")),
            ("POST", &[session, proof], Ok("a.b.c")),
            ("DELETE", &[session, proof, ours], Ok("a.b.c")),
            ("POST", &[session, ("authorization", "Bearer d.e.f")], Ok("d.e.f")),
            ("GET", &[session, ("authorization", "Basic d")], Err("TOKEN_MISSING")),
        ] {
            let mut headers = HeaderMap::new();
            for (name, value) in sent {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            let found = token(&headers, &Method::from_bytes(method.as_bytes()).unwrap());
            let found = found.map_err(|problem| problem.code.as_str());
            assert_eq!(found, expected, "{method} {sent:?}");
        }
    }
}
