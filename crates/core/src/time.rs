//! Time as a value: epoch milliseconds, UTC. Nothing in this crate asks what time it is.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The last instant that we store: the end of the year 9999, so that arithmetic on times never overflows.
    pub const MAX: Timestamp = Timestamp(253_402_300_799_999);

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    #[must_use]
    pub const fn plus_millis(self, millis: i64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// How many milliseconds passed since `earlier`; negative when it lies ahead.
    pub const fn millis_since(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whether a time that came from outside can be stored.
    pub fn check(self) -> Result<Self, String> {
        if self.0 >= 0 && self <= Self::MAX {
            Ok(self)
        } else {
            Err(format!("must be epoch milliseconds between 0 and {}", Self::MAX.0))
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
