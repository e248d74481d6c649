//! Whether an index that is written later is left in peace: then nobody carries its run along.

use std::sync::{Mutex, PoisonError};

/// How many looks without a change until it counts as quiet.
const QUIET_LOOKS: u32 = 10;

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(crate) struct Looked(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    pending: usize,
    left: Option<usize>,
    unchanged: u32,
}

impl Looked {
    /// Looks once more: how many are not in the index, and how much of a run is left.
    pub(crate) fn is_quiet(&self, pending: usize, left: Option<usize>) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unchanged = (seen.pending, seen.left) == (pending, left);
        seen.unchanged = if unchanged { seen.unchanged.saturating_add(1) } else { 0 };
        (seen.pending, seen.left) = (pending, left);
        seen.unchanged >= QUIET_LOOKS
    }
}
