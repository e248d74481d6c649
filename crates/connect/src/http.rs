//! What all calls over HTTP have in common.

use crate::address::Reach;
use crate::choose_encryption;
use guerdon_core::{Timestamp, Trace};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Url, redirect};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// An address that may be called.
pub(crate) fn parse(url: &str, reach: Reach) -> Result<Url, String> {
    let parsed = Url::parse(url).map_err(|error| format!("is no address: {error}"))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://".into());
    }
    // A name is looked up, and looked at, with every connection; an address is known now.
    let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']);
    if let Ok(literal) = host.parse::<IpAddr>()
        && !reach.allows(literal)
    {
        return Err(format!(
            "leads to {literal}, which is no public address; webhooks.privateAddresses = \"allow\" allows it"
        ));
    }
    Ok(parsed)
}

pub(crate) fn client(reach: Reach, timeout: Duration) -> Result<Client, String> {
    choose_encryption();
    Client::builder()
        .timeout(timeout)
        .connect_timeout(timeout)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .user_agent(concat!("guerdon/", env!("CARGO_PKG_VERSION")))
        .dns_resolver(Arc::new(Lookup(reach)))
        .build()
        .map_err(|error| error.to_string())
}

/// Tells whoever is called in which trace it is.
pub(crate) fn followed(request: RequestBuilder, trace: Option<Trace>) -> RequestBuilder {
    match trace {
        Some(trace) => request.header("traceparent", trace.to_string()),
        None => request,
    }
}

/// What went wrong at the bottom: the outer errors only say that something did.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    let left = Timestamp::from_millis(date).millis_since(now);
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// Looks names up, and leaves out the addresses that may not be called.
struct Lookup(Reach);

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<_> = found.into_iter().filter(|address| reach.allows(address.ip())).collect();
            if allowed.is_empty() {
                return Err(format!("{} has no public address", name.as_str()).into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::retry_after;
    use guerdon_core::Timestamp;
    use reqwest::header::{HeaderMap, RETRY_AFTER};
    use std::time::Duration;

    #[test]
    fn when_to_come_again() {
        let now = Timestamp::from_millis(784_111_777_000);
        let table = [
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", None),
            ("soon", None),
            ("-5", None),
        ];
        for (text, seconds) in table {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
