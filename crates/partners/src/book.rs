//! What was applied, each key once.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What was applied under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub idempotency_key: String,
    pub transaction_id: String,
    pub user_id: String,
    pub event_id: String,
    pub reward_id: String,
    pub quantity: i64,
    /// How often somebody wanted it under this key.
    pub calls: u64,
    pub revoked: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    applied: BTreeMap<String, Applied>,
    /// Keys that were revoked before they were known: they are never applied.
    barred: BTreeSet<String>,
    pub(crate) calls: u64,
}

/// What a grant came to.
pub(crate) enum Granted {
    Applied(String),
    Barred,
}

impl Book {
    pub(crate) fn grant(&mut self, wanted: Applied) -> Granted {
        if self.barred.contains(&wanted.idempotency_key) {
            return Granted::Barred;
        }
        let number = self.applied.len() + 1;
        let entry = self
            .applied
            .entry(wanted.idempotency_key.clone())
            .or_insert_with(|| Applied { transaction_id: format!("tx-{number}"), ..wanted });
        entry.calls += 1;
        if entry.revoked { Granted::Barred } else { Granted::Applied(entry.transaction_id.clone()) }
    }

    pub(crate) fn revoke(&mut self, grant_key: &str) {
        match self.applied.get_mut(grant_key) {
            Some(applied) => applied.revoked = true,
            None => {
                self.barred.insert(grant_key.to_owned());
            }
        }
    }

    /// The transaction of a key that stands.
    pub(crate) fn look(&self, key: &str) -> Option<String> {
        self.applied.get(key).filter(|applied| !applied.revoked).map(|applied| applied.transaction_id.clone())
    }

    pub(crate) fn all(&self) -> Vec<Applied> {
        self.applied.values().cloned().collect()
    }

    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }
}
