//! What a call does and what moves by itself.
//!
//! A call becomes a command: its time and ids are fixed here, the store applies it in a group, and inside that
//! transaction a pure function of `core` decides. Nothing leaves the house before the commit.

mod allocations;
mod audit;
mod audit_log;
mod claims;
mod clock;
mod consume;
mod coupons;
mod database_clock;
mod draws;
mod engine;
mod entries;
mod entropy;
mod events;
mod explain;
mod failpoint;
mod failure;
mod figures;
mod gate;
mod groups;
mod idempotency;
mod loops;
mod metrics;
mod outbox;
mod pace;
mod page;
mod quiet;
mod readiness;
mod requests;
mod search;
pub mod trace;
mod users;
mod wallet;

pub use allocations::{AllocationOptions, Asks, Calls, Grant, Provider, Revocation};
pub use audit::{Audit, Manners, run_audit};
pub use audit_log::AuditFilter;
pub use claims::{Activities, ActivityService, ClaimOptions, ClaimServices, Claimed, Statuses, UserService};
pub use clock::Clock;
pub use consume::{
    Consumed, Consumer, ConsumerOptions, Delivery, Handled, Handler, Handles, LogHandler, Releases, Settled,
    Settles, Source, Takes,
};
pub use coupons::{
    Away as CounterAway, Begins, Compared, Comparison, Counted, Counter, CouponCounter, CouponOptions, Entry,
    IssuedCoupon, Issuer, Reads, Take, Taken, Tells, Waiting,
};
pub use draws::DrawHead;
pub use engine::{Engine, EngineOptions, Outside};
pub use entries::{Calendar, CheckedIn, Played, Plays};
pub use entropy::Entropy;
pub use events::EventFilter;
pub use failure::Failure;
pub use guerdon_store::Stopwatch;
pub use idempotency::{Carried, KeyOptions, RenderProblem};
pub use metrics::EngineMetrics;
pub use outbox::{
    Away, OutboxFilter, OutboxOptions, Published, Publishes, Replay, Sink, SinkState, Time, Verdict,
};
pub use page::{Page, PageRequest};
pub use readiness::Readiness;
pub use requests::{Applied, LineFollower, Lottery, RequestFilter, ShownRequest, Summary};
pub use trace::{OpenSpan, Span, SpanKind, SpanSink, Traces};
pub use users::UnknownUsers;
pub use wallet::EntryPlace;
