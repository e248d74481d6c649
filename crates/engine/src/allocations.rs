//! Delivery: what was won reaches its winner, through the wallet or a provider outside, exactly once.
//!
//! Every provider has a lane of its own, so that a slow one holds up nobody else's rewards. A lane hears of new
//! allocations right after their commit, and looks for what is due from time to time; it takes rows up under a lease,
//! calls, and writes what became of them, each step durable before the next. Whatever a crash leaves behind is due
//! again when its lease ends.

mod cancelled;
mod lane;
mod news;
mod operators;
mod outside;
mod port;
mod retries;
mod wallet;

pub(crate) use lane::{Deliveries, WALLET, pause};
pub(crate) use outside::{ask, grant_of};
pub use port::{Asks, Calls, Grant, Provider, Revocation};
pub(crate) use wallet::{Payable, plan, told};

use std::time::Duration;

/// How deliveries go.
#[derive(Clone, Copy, Debug)]
pub struct AllocationOptions {
    /// From a failed try to the next, the first time.
    pub retry_delay: Duration,
    /// How often what is due is looked for.
    pub retry_interval: Duration,
    /// Tries before a delivery has failed for good.
    pub max_attempts: i64,
    /// How long a row is left to whoever made it or took it up.
    pub lease: Duration,
}
