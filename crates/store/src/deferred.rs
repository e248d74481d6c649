//! What indexes in the users' order have in common that are written later, in sorted runs.
//!
//! Users come in random order, and a B-tree that is written in random order dirties a page for each of them. What is not in
//! such an index yet is known in memory, and whoever is in neither is known by a filter.

mod filter;
mod run;

pub(crate) use filter::Filter;
pub use run::Run;

use std::hash::Hasher;

/// For keys that are hashes already.
#[derive(Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A run is worth its pages when several of its users fall on each of them, so it grows with the index, within bounds:
/// the least is a few megabytes in memory, the most some 40 with what is sorted and what comes meanwhile.
const RUN_LEAST: u64 = 100_000;
const RUN_MOST: u64 = 500_000;
const RUN_SHARE: u64 = 10;

/// Whether so many are enough for a run into an index of so many rows.
pub(crate) fn is_run_worth(fresh: usize, indexed_rows: u64) -> bool {
    let least = (indexed_rows / RUN_SHARE).clamp(RUN_LEAST, RUN_MOST);
    u64::try_from(fresh).unwrap_or(u64::MAX) >= least
}
