//! Where a call comes from. What a header says of that is believed only from proxies that are known.

use axum::http::HeaderMap;
use axum::http::header::FORWARDED;
use std::net::IpAddr;

/// The other end of the connection that a request came over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Which header proxies write. The other one they may pass on from whoever sent it, so it counts for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    #[default]
    XForwardedFor,
    /// RFC 7239.
    Forwarded,
}

/// Networks whose word is taken, and where they put it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    networks: Vec<(IpAddr, u8)>,
    header: ForwardedHeader,
}

impl TrustedProxies {
    /// Addresses and networks (`10.0.0.0/8`), with commas between.
    pub fn parse(text: &str, header: ForwardedHeader) -> Result<Self, String> {
        let mut networks = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (address, bits) =
                part.split_once('/').map_or((part, None), |(address, bits)| (address, Some(bits)));
            let no_network = || format!("{part:?} is neither an address nor a network such as 10.0.0.0/8");
            let address: IpAddr = address.parse().map_err(|_| no_network())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Ok(most), str::parse).map_err(|_| no_network())?;
            if bits > most {
                return Err(no_network());
            }
            networks.push((address, bits));
        }
        Ok(Self { networks, header })
    }

    fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.iter().any(|(network, bits)| match (network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(*bits);
                let cut = |address: std::net::Ipv4Addr| u32::from(address).checked_shr(shift).unwrap_or(0);
                cut(*network) == cut(address)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(*bits);
                let cut = |address: std::net::Ipv6Addr| u128::from(address).checked_shr(shift).unwrap_or(0);
                cut(*network) == cut(address)
            }
            _ => false,
        })
    }

    /// Whether a known proxy says that whoever called came over TLS: the first of them to be asked says it.
    pub(crate) fn came_encrypted(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        if !self.has(peer) {
            return false;
        }
        let last = |name: &str| {
            let value = headers.get_all(name).iter().next_back()?.to_str().ok()?;
            value.rsplit(',').next().map(|part| part.trim().to_ascii_lowercase())
        };
        match self.header {
            ForwardedHeader::XForwardedFor => last("x-forwarded-proto").is_some_and(|proto| proto == "https"),
            ForwardedHeader::Forwarded => last(FORWARDED.as_str())
                .is_some_and(|hop| hop.split(';').any(|pair| pair.trim().replace('"', "") == "proto=https")),
        }
    }

    /// Who called: the last one on the way who is not a proxy of ours. Whatever stands before that may be invented.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.has(peer) {
            return peer;
        }
        let mut last = peer;
        for hop in hops(headers, self.header).into_iter().rev() {
            match hop {
                Some(address) if self.has(address) => last = address,
                Some(address) => return address,
                // Somebody whom our own proxy would not name, or nonsense: as far as it is known.
                None => return last,
            }
        }
        last
    }
}

/// The addresses that a request came by, the first one first.
fn hops(headers: &HeaderMap, header: ForwardedHeader) -> Vec<Option<IpAddr>> {
    let texts = |name: &str| -> Vec<String> {
        headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    match header {
        ForwardedHeader::Forwarded => {
            let values = texts(FORWARDED.as_str());
            let elements = values.iter().flat_map(|value| value.split(','));
            elements.map(|element| element.split(';').find_map(forwarded_for).and_then(address)).collect()
        }
        ForwardedHeader::XForwardedFor => {
            let values = texts("x-forwarded-for");
            values.iter().flat_map(|value| value.split(',')).map(|part| address(part.trim())).collect()
        }
    }
}

fn forwarded_for(pair: &str) -> Option<&str> {
    let (name, value) = pair.split_once('=')?;
    name.trim().eq_ignore_ascii_case("for").then(|| value.trim().trim_matches('"'))
}

/// An address as proxies write it: alone, with a port, or in brackets.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    if let Some(inner) = text.strip_prefix('[') {
        return inner.split_once(']')?.0.parse().ok();
    }
    text.rsplit_once(':')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{ForwardedHeader, TrustedProxies};
    use axum::http::{HeaderMap, HeaderName};
    use std::net::IpAddr;

    type Sent = &'static [(&'static str, &'static str)];

    #[test]
    fn only_known_proxies_are_believed() {
        let networks = "10.0.0.0/8, 192.0.2.7,2001:db8::/32";
        let by_list = TrustedProxies::parse(networks, ForwardedHeader::XForwardedFor).unwrap();
        let by_rfc = TrustedProxies::parse(networks, ForwardedHeader::Forwarded).unwrap();
        let cases: &[(&str, Sent, &str)] = &[
            ("203.0.113.9", &[("x-forwarded-for", "1.1.1.1")], "203.0.113.9"),
            ("10.1.1.1", &[], "10.1.1.1"),
            ("10.1.1.1", &[("x-forwarded-for", "198.51.100.4")], "198.51.100.4"),
            ("10.1.1.1", &[("x-forwarded-for", "6.6.6.6, 198.51.100.4, 10.2.2.2")], "198.51.100.4"),
            (
                "10.1.1.1",
                &[("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "198.51.100.4")],
                "198.51.100.4",
            ),
            ("10.1.1.1", &[("x-forwarded-for", "198.51.100.4, nonsense")], "10.1.1.1"),
            ("10.1.1.1", &[("x-forwarded-for", "198.51.100.4:4711")], "198.51.100.4"),
            ("10.1.1.1", &[("x-forwarded-for", "10.3.3.3")], "10.3.3.3"),
            (
                "192.0.2.7",
                &[("forwarded", "for=6.6.6.6, for=\"[2001:db9::1]:99\";proto=https")],
                "2001:db9::1",
            ),
            (
                "192.0.2.7",
                &[("forwarded", "For=198.51.100.4"), ("x-forwarded-for", "6.6.6.6")],
                "198.51.100.4",
            ),
            ("192.0.2.7", &[("forwarded", "for=unknown")], "192.0.2.7"),
            ("192.0.2.8", &[("forwarded", "for=6.6.6.6")], "192.0.2.8"),
            ("2001:db8::5", &[("x-forwarded-for", "2001:db9::2")], "2001:db9::2"),
            ("::ffff:10.1.1.1", &[("x-forwarded-for", "198.51.100.4")], "198.51.100.4"),
        ];
        for (peer, sent, client) in cases {
            let mut headers = HeaderMap::new();
            for (name, value) in *sent {
                headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            let (trusted, other) =
                if headers.contains_key("forwarded") { (&by_rfc, &by_list) } else { (&by_list, &by_rfc) };
            let peer: IpAddr = peer.parse().unwrap();
            let found = trusted.client(peer, &headers);
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{peer} {sent:?}");
            let both = headers.contains_key("forwarded") && headers.contains_key("x-forwarded-for");
            let unmoved = both || other.client(peer, &headers) == peer;
            assert!(unmoved, "the header that they do not write counts for nothing: {peer} {sent:?}");
        }
        assert_eq!(TrustedProxies::parse("", ForwardedHeader::default()).unwrap(), TrustedProxies::default());
        for wrong in ["10.0.0.0/33", "ten", "10.0.0.0/x", "::1/129"] {
            assert!(TrustedProxies::parse(wrong, ForwardedHeader::default()).is_err(), "{wrong}");
        }
        let everybody = TrustedProxies::parse("0.0.0.0/0", ForwardedHeader::default()).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", "1.1.1.1, 2.2.2.2".parse().unwrap());
        assert_eq!(everybody.client("9.9.9.9".parse().unwrap(), &headers).to_string(), "1.1.1.1");
    }
}
