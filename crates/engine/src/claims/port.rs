//! What claims need from outside, and who sees to it.

use super::super::engine::Engine;
use crate::allocations::{Grant, Revocation};
use guerdon_core::UserId;
use guerdon_core::allocations::Outcome;
use guerdon_core::claims::{Judged, UserFound};
use guerdon_core::events::Condition;
use serde_json::{Map, Value};
use std::pin::Pin;
use std::time::Duration;

pub type Statuses<'a> = Pin<Box<dyn Future<Output = UserFound> + Send + 'a>>;
pub type Activities<'a> = Pin<Box<dyn Future<Output = Result<Map<String, Value>, String>> + Send + 'a>>;
pub(crate) type Executes<'a> = Pin<Box<dyn Future<Output = Found> + Send + 'a>>;

/// Who knows whether a user is active.
pub trait UserService: Send + Sync + 'static {
    /// Asks, and asks again as often as is sensible.
    fn status<'a>(&'a self, user_id: &'a UserId) -> Statuses<'a>;

    /// Calls at one time.
    fn concurrency(&self) -> usize;

    /// The longest that asking takes, with all tries.
    fn longest(&self) -> Duration;
}

/// Who knows what a user did.
pub trait ActivityService: Send + Sync + 'static {
    /// Asks, and asks again as often as is sensible; or why it cannot be had.
    fn activity<'a>(&'a self, user_id: &'a UserId) -> Activities<'a>;

    fn concurrency(&self) -> usize;

    fn longest(&self) -> Duration;
}

/// What a claim needs from outside the store.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    User(UserId),
    Conditions { user_id: UserId, conditions: Condition },
    Grant { provider: String, grant: Grant, in_doubt: bool },
    Revoke { provider: String, revocation: Revocation },
}

impl Task {
    /// For whoever follows what is done.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Conditions { .. } => "conditions",
            Self::Grant { .. } => "grant",
            Self::Revoke { .. } => "revoke",
        }
    }
}

/// What became of it.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    User(UserFound),
    Judged(Judged),
    Granted(Outcome),
    Revoked(Outcome),
    /// The store could not be read: nothing is known, and it is tried again.
    Away,
}

/// Carries out what claims need: by calling services, or one day through a broker. The machine does not know which.
pub(crate) trait Executor: Send + Sync + 'static {
    fn execute<'a>(&'a self, engine: &'a Engine, task: &'a Task) -> Executes<'a>;
}
