//! What delivery needs from outside: somebody who gives a reward, once for each key.

use guerdon_core::allocations::Answer;
use guerdon_core::allocations::answer::Found;
use guerdon_core::events::settings::RewardKindName;
use serde_json::{Map, Value};
use std::pin::Pin;
use std::time::Duration;

pub type Calls<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
pub type Asks<'a> = Pin<Box<dyn Future<Output = Found> + Send + 'a>>;

/// A service that delivers rewards. It does what a key says once, however often it is told.
pub trait Provider: Send + Sync + 'static {
    fn name(&self) -> &str;

    /// Calls at one time.
    fn concurrency(&self) -> usize;

    /// The longest that one call takes.
    fn timeout(&self) -> Duration;

    fn grant<'a>(&'a self, grant: &'a Grant) -> Calls<'a>;

    /// Takes a grant back, or sees to it that it will never be made.
    fn revoke<'a>(&'a self, revocation: &'a Revocation) -> Calls<'a>;

    /// Whether this grant was made, under its key.
    fn look<'a>(&'a self, grant: &'a Grant) -> Asks<'a>;
}

/// What somebody is to get.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    pub key: String,
    pub user_id: String,
    pub event_id: String,
    pub reward_id: String,
    pub kind: RewardKindName,
    pub quantity: i64,
    pub details: Map<String, Value>,
}

/// What is taken back.
#[derive(Clone, Debug, PartialEq)]
pub struct Revocation {
    pub key: String,
    pub grant: Grant,
    pub transaction_id: Option<String>,
}
