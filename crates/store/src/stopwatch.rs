//! Measuring how long something took. The one place of this crate that looks at a clock.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a stopwatch measures; it decides nothing that is stored")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
