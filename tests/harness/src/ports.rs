//! Ports for what a test starts, stops and starts again.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the system gives to whoever connects or listens anywhere (from 32,768 on), and apart from the ones of
/// the scripts (from 20,000 on): nobody is given such a port by chance while its server is not there.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

pub fn free_port() -> u16 {
    free_ports(1)
}

/// The first of so many in a row.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Another run of the tests on the same machine begins elsewhere.
    let begin = u16::try_from(std::process::id() % 97).expect("a small number") * 103;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(count, Ordering::Relaxed);
        let first = FIRST + (begin + step % COUNT) % (COUNT - count);
        // All held at once, so that they are free at the same moment.
        let held: Result<Vec<_>, _> =
            (first..first + count).map(|port| TcpListener::bind(("127.0.0.1", port))).collect();
        if held.is_ok() {
            return first;
        }
    }
    panic!("no {count} ports are free")
}
