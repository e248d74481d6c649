//! Passing one call on, and its answer back, as they come.

use super::Gateway;
use crate::edge::{REQUEST_ID, TRACEPARENT, strip_identity};
use crate::problem::Problem;
use crate::trusted::SIGNATURE;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::Response;
use guerdon_core::identity::Identity;
use guerdon_core::{Code, Trace};
use guerdon_engine::Entropy;
use http_body_util::BodyExt;
use std::net::IpAddr;

/// What is between two ends of one connection (RFC 9110, 7.6.1), and is not passed on.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub(super) struct Forward<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) id: &'a str,
    /// Where the call belongs; what its caller says is passed on where nobody follows it here.
    pub(super) trace: Option<Trace>,
    pub(super) client: Option<IpAddr>,
    pub(super) identity: Option<&'a Identity>,
}

impl Forward<'_> {
    pub(super) async fn send(&self, mut parts: Parts, body: Body) -> Result<Response, Problem> {
        // Bodies are small here, and a call whose body never comes must not keep a server waiting.
        let body = self.gateway.read(&parts.headers, body).await?;
        self.clean(&mut parts.headers, body.len());
        self.try_each(&parts, &body).await
    }

    /// Leaves of the headers what the servers may see.
    fn clean(&self, headers: &mut HeaderMap, length: usize) {
        strip_hops(headers);
        strip_identity(headers);
        for name in [
            &SIGNATURE,
            &header::AUTHORIZATION,
            &header::COOKIE,
            &header::FORWARDED,
            &header::EXPECT,
            &FORWARDED_FOR,
        ] {
            headers.remove(name);
        }
        if let Some(value) = self.client.and_then(|client| HeaderValue::from_str(&client.to_string()).ok()) {
            headers.insert(&FORWARDED_FOR, value);
        }
        if let Ok(value) = HeaderValue::from_str(self.id) {
            headers.insert(&REQUEST_ID, value);
        }
        if let Some(value) = self.trace.and_then(|trace| HeaderValue::from_str(&trace.to_string()).ok()) {
            headers.insert(&TRACEPARENT, value);
        }
        headers.insert(header::CONTENT_LENGTH, length.into());
    }

    /// The first server that can be reached gets it. Once it was sent it is not sent again: it may have been done.
    async fn try_each(&self, parts: &Parts, body: &bytes::Bytes) -> Result<Response, Problem> {
        let gateway = self.gateway;
        let mut cause = None;
        for upstream in gateway.upstreams.in_turn() {
            let request = self.request(parts, &upstream.authority, body)?;
            let sent = gateway.upstreams.client.request(request);
            match tokio::time::timeout(gateway.options.answer_timeout, sent).await {
                Ok(Ok(answer)) => {
                    let mut answer = answer.map(|body| Body::new(body.map_err(axum::Error::new)));
                    strip_hops(answer.headers_mut());
                    return Ok(answer);
                }
                Ok(Err(error)) if error.is_connect() => {
                    upstream.is_gone();
                    cause = Some(format!("{}: {error}", upstream.authority));
                }
                Ok(Err(error)) => return Err(failed(format!("{}: {error}", upstream.authority))),
                Err(_) => return Err(failed(format!("{}: no answer in time", upstream.authority))),
            }
        }
        let detail = "the call was not passed on: no server is ready just now; try again";
        Err(Problem { cause, ..Problem::new(Code::UpstreamUnavailable, detail) })
    }

    fn request(&self, parts: &Parts, authority: &str, body: &bytes::Bytes) -> Result<Request, Problem> {
        let address = parts.uri.path_and_query().map_or("/", |address| address.as_str());
        let unreadable = || Problem::new(Code::BadRequest, "the address cannot be passed on");
        // `*` and what begins otherwise is an address too, and would lead elsewhere if it were put behind a server's name.
        if !address.starts_with('/') {
            return Err(unreadable());
        }
        let uri = Uri::builder().scheme("http").authority(authority).path_and_query(address).build();
        let uri = uri.map_err(|_| unreadable())?;
        let mut request = Request::new(Body::from(body.clone()));
        *request.method_mut() = parts.method.clone();
        *request.headers_mut() = parts.headers.clone();
        if let Some(identity) = self.identity {
            let address = uri.path_and_query().map_or("/", |address| address.as_str());
            let (now, nonce) = (self.gateway.clock.now(), Entropy.bytes());
            let call = (&parts.method, address);
            self.gateway
                .key
                .sign(request.headers_mut(), call, identity, now, nonce)
                .ok_or_else(unreadable)?;
        }
        *request.uri_mut() = uri;
        Ok(request)
    }
}

fn failed(cause: String) -> Problem {
    let detail = "the server broke off or took too long; look up whether it was done before you repeat it";
    Problem { cause: Some(cause), ..Problem::new(Code::UpstreamFailed, detail) }
}

fn strip_hops(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::strip_hops;
    use axum::http::HeaderMap;

    #[test]
    fn what_concerns_a_connection_stays_with_it() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("connection", "x-other"),
            ("x-hop", "1"),
            ("x-other", "1"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("prefer", "wait=3"),
        ] {
            headers.append(name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap());
        }
        strip_hops(&mut headers);
        assert_eq!(headers.keys().map(axum::http::HeaderName::as_str).collect::<Vec<_>>(), ["prefer"]);
    }
}
