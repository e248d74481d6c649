//! Reading the audit log.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::audit::AuditRecord;
use guerdon_store::audit_log::{self, Target};

const PIECE_ROWS: i64 = 10;
const PAGE_BYTES: usize = 1 << 20;

/// Which lines are listed: all, or those about one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// `EVENT` or `USER`, and its id.
    pub target: Option<(String, String)>,
}

impl Engine {
    /// The audit log, newest first.
    pub async fn audit_log(
        &self,
        filter: AuditFilter,
        request: PageRequest<i64>,
    ) -> Result<Page<AuditRecord, i64>, Failure> {
        let target = filter.target.map(|(target_type, target_id)| Target { target_type, target_id });
        let mut found = Vec::new();
        let mut before = request.after;
        // A line can be as long as an event; a page is read piece by piece and comes back short when it grows too large.
        loop {
            let piece = (request.rows() - i64::try_from(found.len()).unwrap_or(i64::MAX)).min(PIECE_ROWS);
            let target = target.clone();
            let rows = self.read(move |tx| audit_log::list(tx, target.as_ref(), before, piece)).await?;
            let ended = i64::try_from(rows.len()).is_ok_and(|count| count < piece);
            before = rows.last().map(|record| record.sequence);
            found.extend(rows);
            if ended || found.len() > request.limit {
                return Ok(request.page(found, |record| record.sequence));
            }
            let bytes: usize = found.iter().map(AuditRecord::bytes).sum();
            if bytes > PAGE_BYTES {
                return Ok(Page { items: found, next: before });
            }
        }
    }
}
