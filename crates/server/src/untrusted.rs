//! What reads the words of strangers, in plain types: for the fuzz targets, which call nothing else of this crate.

use crate::problem::Problem;
use crate::token::key_names;
use crate::trusted::{GatewayKey, Trusted};
use crate::{TrustedProxies, Verifier, cursor, json, once, prefer, session};
use axum::http::{HeaderMap, Method, Request};
use futures_util::FutureExt;
use guerdon_core::identity::Identity;
use guerdon_core::{IdempotencyKey, Timestamp};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A refusal as its reader sees it.
fn refused(problem: &Problem) -> String {
    let fields = problem.fields.iter().map(|field| format!("; {} {}", field.path, field.reason));
    format!("{}: {}{}", problem.code, problem.detail, fields.collect::<String>())
}

pub fn cursor_of<P: Serialize>(list: &str, place: &P) -> String {
    cursor::encode(list, place)
}

pub fn place_of<P: Serialize + DeserializeOwned>(list: &str, cursor: &str) -> Result<P, String> {
    cursor::decode(list, cursor).map_err(|problem| refused(&problem))
}

/// A JSON body.
pub fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    json::parse(bytes).map_err(|problem| refused(&problem))
}

/// How long a caller would wait.
pub fn patience(headers: &HeaderMap) -> Option<Duration> {
    prefer::wait(headers)
}

/// The idempotency key that a call brings.
pub fn idempotency_key(headers: HeaderMap) -> Result<IdempotencyKey, String> {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.headers = headers;
    once::key(&parts).map_err(|problem| refused(&problem))
}

/// Where a call comes from.
pub fn client(proxies: &TrustedProxies, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    proxies.client(peer, headers)
}

/// The token that a call brings.
pub fn bearer(headers: &HeaderMap) -> Result<&str, String> {
    session::bearer(headers).map_err(|problem| refused(&problem))
}

/// Who a token is for. Only with a secret: public keys may have to be waited for, and nothing here waits.
pub fn token(verifier: &Verifier, token: &str, now: Timestamp) -> Result<Arc<Identity>, String> {
    let answer = verifier.verify(token, now).now_or_never();
    answer
        .unwrap_or_else(|| Err(Problem::field("token", "would have to be waited for")))
        .map_err(|problem| refused(&problem))
}

/// The keys of a set that tokens can name (none: the only one, without a name), each with its algorithm.
pub fn keys(text: &[u8]) -> Result<Vec<(Option<String>, String)>, String> {
    key_names(text)
}

/// What a gateway puts among the headers.
pub fn sign(
    key: &GatewayKey,
    headers: &mut HeaderMap,
    call: (&Method, &str),
    identity: &Identity,
    (now, nonce): (Timestamp, [u8; 16]),
) -> Option<()> {
    key.sign(headers, call, identity, now, nonce)
}

/// Whom a server behind a gateway takes the caller for.
pub fn verify(
    trusted: &Trusted,
    headers: &HeaderMap,
    (method, address): (&Method, &str),
    now: Timestamp,
) -> Result<Arc<Identity>, String> {
    trusted.verify(headers, method, address, now).map_err(|problem| refused(&problem))
}
