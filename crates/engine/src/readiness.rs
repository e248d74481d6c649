//! Whether this process should be sent work.

use crate::engine::Engine;
use crate::gate::Gate;
use guerdon_store::{Health, clock};
use std::sync::Arc;

/// A clock that is further off than this decides wrongly about times.
const SKEW_MAX_MS: i64 = 1_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Each thing that was looked at, and what is wrong with it if anything is.
    pub checks: Vec<(&'static str, Option<String>)>,
    /// Services outside, and what is wrong with them. Work that does not need them goes on.
    pub services: Vec<(String, Option<String>)>,
}

impl Readiness {
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|(_, problem)| problem.is_none())
    }
}

impl Engine {
    pub async fn readiness(&self) -> Readiness {
        let store = self.read_first(|tx| clock::now(tx).map(drop)).await.err().map(|failure| {
            tracing::warn!(%failure, "the database does not answer");
            "the database does not answer".to_owned()
        });
        let committer = match self.store().committer_health() {
            Health::Well => None,
            Health::Ill(reason) => {
                tracing::warn!(reason, "the committer is not well");
                Some(reason)
            }
        };
        let skew_ms = self.clock().database_offset_ms();
        let clock = (skew_ms.abs() > SKEW_MAX_MS)
            .then(|| format!("this machine's clock is {skew_ms} ms off the database's"));
        let now = self.now();
        let state = |gate: &Arc<Gate>| {
            let left_alone = gate.shut_until(now).map(|until| {
                format!("left alone for {} ms, because it does not work", until.millis_since(now))
            });
            let trouble = left_alone.or_else(|| gate.is_open().then(|| "is being tried again".to_owned()));
            (gate.name().to_owned(), trouble)
        };
        let services = self.claims.gates().map(state).collect();
        // Migrations ran before the store was opened: a process that serves has them.
        Readiness {
            services,
            checks: vec![("store", store), ("migrations", None), ("committer", committer), ("clock", clock)],
        }
    }
}
