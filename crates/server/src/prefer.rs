//! `Prefer: wait=N` (RFC 7240): how long a caller would wait for the final answer.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use std::convert::Infallible;
use std::time::Duration;

const WAIT_MAX: Duration = Duration::from_mins(1);

/// How long the caller would wait, if they said so; `respond-async` alone is not at all.
pub(crate) struct Patience(pub(crate) Option<Duration>);

impl<S: Sync> FromRequestParts<S> for Patience {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(wait(&parts.headers)))
    }
}

pub(crate) fn wait(headers: &HeaderMap) -> Option<Duration> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';']));
    let mut at_once = None;
    let seconds = preferences.find_map(|preference| {
        if preference.trim().eq_ignore_ascii_case("respond-async") {
            at_once = Some(Duration::ZERO);
        }
        let (name, value) = preference.split_once('=')?;
        if !name.trim().eq_ignore_ascii_case("wait") {
            return None;
        }
        value.trim().trim_matches('"').parse::<u64>().ok()
    });
    seconds.map(|seconds| Duration::from_secs(seconds).min(WAIT_MAX)).or(at_once)
}

#[cfg(test)]
mod tests {
    use super::wait;
    use axum::http::{HeaderMap, HeaderValue};

    #[test]
    fn preferences() {
        for (text, seconds) in [
            ("wait=5", Some(5)),
            ("respond-async, wait=10", Some(10)),
            ("Wait = \"3\"", Some(3)),
            ("wait=100000", Some(60)),
            ("respond-async", Some(0)),
            ("wait=2, respond-async", Some(2)),
            ("wait=-1", None),
            ("wait", None),
            ("handling=lenient", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_static(text));
            assert_eq!(wait(&headers).map(|time| time.as_secs()), seconds, "{text}");
        }
    }
}
