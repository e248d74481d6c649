//! Where a call comes from: nobody can invent it who is not a proxy that we know.

use crate::says_why;
use guerdon_server::untrusted::client;
use guerdon_server::{ForwardedHeader, TrustedProxies};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::net::{IpAddr, Ipv4Addr};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const INVENTED: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 66));
const KNOWN_TO_THE_PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

pub(crate) fn hold(data: &[u8]) {
    let mut parts = data.split(|byte| *byte == b'\n').take(10);
    let mut text = || std::str::from_utf8(parts.next().unwrap_or_default()).unwrap_or_default();
    let (networks, peer) = (text(), text().parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let values: Vec<_> = parts.filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
    for (kind, name, other) in [
        (ForwardedHeader::XForwardedFor, X_FORWARDED_FOR, header::FORWARDED),
        (ForwardedHeader::Forwarded, header::FORWARDED, X_FORWARDED_FOR),
    ] {
        let headers: HeaderMap = values.iter().map(|value| (name.clone(), value.clone())).collect();
        let nobody = TrustedProxies::parse("", kind).unwrap();
        assert_eq!(client(&nobody, peer, &headers), peer, "nobody is believed");
        match TrustedProxies::parse(networks, kind) {
            Ok(proxies) => believed(&proxies, peer, &headers, (&name, &other)),
            Err(reason) => says_why(&reason),
        }
    }
}

fn believed(proxies: &TrustedProxies, peer: IpAddr, headers: &HeaderMap, names: (&HeaderName, &HeaderName)) {
    let (name, other) = names;
    let wrote = |address: IpAddr| -> HeaderValue {
        let text = if *name == header::FORWARDED { format!("for={address}") } else { address.to_string() };
        text.parse().unwrap()
    };
    let said = |address: IpAddr| -> HeaderMap { [(name.clone(), wrote(address))].into_iter().collect() };
    // Whoever is believed can name anybody; whoever is not, nobody.
    let is_proxy =
        |address: IpAddr| client(proxies, address, &said(INVENTED)) == INVENTED && address != INVENTED;
    let found = client(proxies, peer, headers);
    if !is_proxy(peer) && peer != INVENTED {
        assert_eq!(found, peer, "a stranger was believed");
    }
    let mut ignored = headers.clone();
    ignored.insert(other.clone(), wrote(INVENTED));
    assert_eq!(client(proxies, peer, &ignored), found, "the other header counts");
    // What a client sends stands before what proxies add.
    let invented = said(INVENTED)
        .into_iter()
        .chain(headers.iter().map(|(name, value)| (Some(name.clone()), value.clone())));
    let invented: HeaderMap = invented.filter_map(|(name, value)| Some((name?, value))).collect();
    let now = client(proxies, peer, &invented);
    assert!(now == found || now == INVENTED && is_proxy(found), "{found} became {now}");
    if is_proxy(peer) && !is_proxy(KNOWN_TO_THE_PROXY) {
        let mut added = headers.clone();
        added.append(name.clone(), wrote(KNOWN_TO_THE_PROXY));
        assert_eq!(client(proxies, peer, &added), KNOWN_TO_THE_PROXY, "the last to speak is the proxy");
    }
}
