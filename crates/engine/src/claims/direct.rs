//! Carries out what claims need by calling whoever does it.

use super::ClaimServices;
use super::port::{Executes, Executor, Found, Task};
use crate::allocations::{Provider, ask};
use crate::engine::Engine;
use guerdon_core::UserId;
use guerdon_core::allocations::{Answer, Outcome, Sent, judge};
use guerdon_core::claims::{Judged, UserFound};
use guerdon_core::events::Condition;
use guerdon_core::events::condition::{Compiled, Verdict};
use guerdon_store::activity;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

/// Conditions that are kept ready to be judged; beyond that they are made ready again.
const COMPILED_MAX: usize = 1_000;

pub(super) struct Direct {
    services: ClaimServices,
    providers: BTreeMap<String, Arc<dyn Provider>>,
    compiled: Mutex<HashMap<String, Arc<Compiled>>>,
}

impl Direct {
    pub(super) fn new(services: ClaimServices, providers: BTreeMap<String, Arc<dyn Provider>>) -> Self {
        Self { services, providers, compiled: Mutex::default() }
    }

    async fn user(&self, user_id: &UserId) -> UserFound {
        match &self.services.users {
            Some(users) => users.status(user_id).await,
            // The house knows by itself.
            None => UserFound::Failed("nobody is asked about users".into()),
        }
    }

    fn compile(&self, conditions: &Condition) -> Result<Arc<Compiled>, String> {
        let known = |compiled: &HashMap<String, Arc<Compiled>>| compiled.get(conditions.as_str()).cloned();
        if let Some(found) = known(&self.compiled.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(found);
        }
        let made = Arc::new(conditions.compile()?);
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if compiled.len() >= COMPILED_MAX {
            compiled.clear();
        }
        compiled.insert(conditions.as_str().to_owned(), Arc::clone(&made));
        Ok(made)
    }

    async fn judge(&self, engine: &Engine, user_id: &UserId, conditions: &Condition) -> Found {
        let data = match &self.services.activities {
            Some(activities) => activities.activity(user_id).await,
            None => {
                let wanted = user_id.clone();
                match engine.read_first(move |tx| activity::find(tx, &wanted)).await {
                    Ok(found) => Ok(found.unwrap_or_default()),
                    Err(failure) => {
                        tracing::debug!(%failure, "a claim's conditions are judged later");
                        return Found::Away;
                    }
                }
            }
        };
        let data = match data {
            Ok(data) => data,
            Err(reason) => return Found::Judged(Judged::Failed { reason, data: None }),
        };
        Found::Judged(match self.compile(conditions).map(|compiled| compiled.judge(&data)) {
            Ok(Verdict::Met) => Judged::Met(data),
            Ok(Verdict::NotMet) => Judged::NotMet(data),
            Ok(Verdict::Failed(reason)) | Err(reason) => Judged::Failed { reason, data: Some(data) },
        })
    }
}

impl Executor for Direct {
    fn execute<'a>(&'a self, engine: &'a Engine, task: &'a Task) -> Executes<'a> {
        Box::pin(async move {
            let missing = |sent| judge(sent, Answer::Missing);
            match task {
                Task::User(user_id) => Found::User(self.user(user_id).await),
                Task::Conditions { user_id, conditions } => self.judge(engine, user_id, conditions).await,
                Task::Grant { provider, grant, in_doubt } => {
                    Found::Granted(match self.providers.get(provider) {
                        None => missing(Sent::Grant),
                        Some(provider) => {
                            // What is in doubt is asked about first.
                            let known: Result<bool, Outcome> =
                                if *in_doubt { ask(provider.as_ref(), grant).await } else { Ok(false) };
                            match known {
                                Err(outcome) => outcome,
                                Ok(_) => judge(Sent::Grant, provider.grant(grant).await),
                            }
                        }
                    })
                }
                Task::Revoke { provider, revocation } => Found::Revoked(match self.providers.get(provider) {
                    None => missing(Sent::Revoke),
                    Some(provider) => judge(Sent::Revoke, provider.revoke(revocation).await),
                }),
            }
        })
    }
}
