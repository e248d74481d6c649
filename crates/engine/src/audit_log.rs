//! Reading the audit log.

use crate::engine::Engine;
use crate::failure::Failure;
use crate::page::{Page, PageRequest};
use guerdon_core::audit::AuditRecord;
use guerdon_store::audit_log::{self, Target};

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
        let (rows, before) = (request.rows(), request.after);
        let found = self.read(move |tx| audit_log::list(tx, target.as_ref(), before, rows)).await?;
        Ok(request.page(found, |record| record.sequence))
    }
}
