//! An event's line: its counts, kept as they change and never counted again.

use super::ResultCode;
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bits of a line key that hold the position: a million million people in one line.
pub const LINE_BITS: u32 = 40;
/// Four million events: a key has to fit into a request's id.
pub const EVENT_KEY_MAX: i64 = (1 << 22) - 1;

/// A request's key: its event's number and its position in one integer, so that a line is stored in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineKey(i64);

impl LineKey {
    pub const fn new(event_key: i64, position: i64) -> Self {
        Self((event_key << LINE_BITS) | position)
    }

    pub const fn from_raw(raw: i64) -> Self {
        Self(raw)
    }

    pub const fn raw(self) -> i64 {
        self.0
    }

    pub const fn event_key(self) -> i64 {
        self.0 >> LINE_BITS
    }

    pub const fn position(self) -> i64 {
        self.0 & ((1 << LINE_BITS) - 1)
    }
}

/// The counts of an event's line; written once for each group of people who join it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub event_key: i64,
    /// The last position that was given out.
    pub last_position: i64,
    /// Everybody up to here is decided.
    pub decided_position: i64,
    pub capacity_total: i64,
    pub capacity_remaining: i64,
    pub tally: Tally,
}

/// How requests ended, and how long they took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tally {
    pub results: BTreeMap<ResultCode, i64>,
    /// How many took up to 2^n milliseconds from the request to its result, for n from 0.
    pub latency: Vec<i64>,
}

const LATENCY_BUCKETS: usize = 32;

impl Tally {
    pub fn add(&mut self, result: ResultCode, requested_at: Timestamp, finished_at: Timestamp) {
        *self.results.entry(result).or_default() += 1;
        let millis = u64::try_from(finished_at.millis_since(requested_at)).unwrap_or(0);
        let bucket =
            (0..LATENCY_BUCKETS - 1).find(|bucket| millis <= 1 << bucket).unwrap_or(LATENCY_BUCKETS - 1);
        if self.latency.len() <= bucket {
            self.latency.resize(bucket + 1, 0);
        }
        self.latency[bucket] += 1;
    }

    pub fn decided(&self) -> i64 {
        self.results.values().sum()
    }

    pub fn of(&self, result: ResultCode) -> i64 {
        self.results.get(&result).copied().unwrap_or(0)
    }

    /// The bound in milliseconds that this share of the requests (per thousand) kept; none before there is one.
    pub fn percentile(&self, per_thousand: i64) -> Option<i64> {
        let total: i64 = self.latency.iter().sum();
        if total == 0 {
            return None;
        }
        let needed = (total * per_thousand).div_euclid(1_000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.latency.iter().enumerate() {
            seen += count;
            if seen >= needed {
                return Some(1 << bucket);
            }
        }
        None
    }
}
