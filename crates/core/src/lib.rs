//! Guerdon's rules, and nothing else: no I/O, no clock, no randomness that is not passed in.
//!
//! Every part has a module of the same name in the other crates; here it holds the part's types, its transition
//! table and its decisions as plain functions.

pub mod allocations;
pub mod audit;
pub mod claims;
pub mod code;
pub mod coupons;
pub mod draw;
pub mod entries;
pub mod events;
pub mod explain;
pub mod fields;
pub mod hash;
pub mod id;
pub mod idempotency;
pub mod identity;
pub mod money;
mod named;
pub mod outbox;
pub mod pace;
pub mod rejection;
pub mod requests;
pub mod search;
pub mod time;
pub mod trace;
pub mod users;
pub mod wallet;

pub use code::Code;
pub use id::{ClaimKey, CouponId, Currency, EventId, IdempotencyKey, RewardId, UserId};
pub use rejection::Rejection;
pub use time::Timestamp;
pub use trace::Trace;
