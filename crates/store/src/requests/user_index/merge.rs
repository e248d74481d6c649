//! Writing users to the index.

use super::{MERGE, POSITION};
use crate::deferred::Run;
use crate::fault::Fault;
use crate::param::Param;
use crate::tx::Tx;
use guerdon_core::requests::LineKey;
use std::ops::Range;

/// Writes a part of a run to the index. A row that is there already, from a run that was cut off, must say the same.
pub(super) fn write(tx: &mut Tx<'_>, run: &Run<LineKey>, range: Range<usize>) -> Result<(), Fault> {
    let rows = run.part(range.clone()).map(|(user, key)| -> [Param<'_>; 3] {
        [Param::Text(user), key.event_key().into(), key.position().into()]
    });
    let written = tx.execute_rows(&MERGE, rows)?;
    if written == u64::try_from(range.len()).unwrap_or(u64::MAX) {
        return Ok(());
    }
    for (user, key) in run.part(range) {
        let params = [Param::Text(user), key.event_key().into()];
        let there = tx.query_one(&POSITION, &params, |row| row.int(0))?;
        if there != Some(key.position()) {
            let line = key.event_key();
            return Err(Fault::inconsistent(format!("{user} stands twice in the line {line}")));
        }
    }
    Ok(())
}
