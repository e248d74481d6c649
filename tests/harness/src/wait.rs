//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// Asks again until there is an answer; panics with what was waited for once the deadline has passed.
pub fn until<T>(what: &str, deadline: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = ask() {
            return found;
        }
        assert!(started.elapsed() < deadline, "waited {deadline:?} in vain for: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}
