//! Which addresses may be called: a web server that others name must not lead into our own network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far calls may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Only what everybody on the internet can reach.
    Public,
    /// That, and this machine itself.
    PublicAndLoopback,
    Anywhere,
}

impl Reach {
    pub(crate) fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Anywhere => true,
            Self::PublicAndLoopback if is_loopback(address) => true,
            Self::Public | Self::PublicAndLoopback => is_public(address),
        }
    }
}

fn is_loopback(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = a == 0
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        // Shared between a provider and its customers.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        // For measurements.
        || (a == 198 && (b == 18 || b == 19))
        // Several at once, and what is kept for later.
        || a >= 224;
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // An address of the other kind in disguise.
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => embedded(high, low),
        // Unspecified, loopback, and the long obsolete.
        [0, 0, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] | [0x2001, 0 | 0xdb8, ..] => false,
        // Unique to a site, of one link, and several at once.
        [first, ..] => !(0xfc00..=0xfdff).contains(&first) && first < 0xfe80,
    }
}

#[cfg(test)]
mod tests {
    use super::Reach;

    #[test]
    fn what_is_private_is_not_called() {
        let private = [
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "fd00::1",
            "fe80::1",
            "ff02::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001::1",
            "::ffff:169.254.169.254",
            "::a00:1",
        ];
        let loopback = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"];
        let public =
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"];
        // The address; whether each reach allows it.
        let table = private
            .map(|address| (address, [false, false]))
            .into_iter()
            .chain(loopback.map(|address| (address, [false, true])))
            .chain(public.map(|address| (address, [true, true])));
        for (text, [alone, with_loopback]) in table {
            let address = text.parse().unwrap();
            assert_eq!(Reach::Public.allows(address), alone, "{text}");
            assert_eq!(Reach::PublicAndLoopback.allows(address), with_loopback, "{text}");
            assert!(Reach::Anywhere.allows(address));
        }
    }
}
