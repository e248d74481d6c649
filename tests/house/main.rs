//! The built binary, over HTTP, against real databases, killed and cut off at the worst moments.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test fails by panicking")]
#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    reason = "tables read best as literals in one place"
)]
#![allow(clippy::disallowed_methods, reason = "a test may look at the clock to give up in time")]

mod arrows;
mod audit;
mod bad_input;
mod brokers;
mod claims;
mod conformance;
mod connections;
mod console;
mod coupons;
mod crash;
mod cut_off;
mod delivery;
mod demo;
mod deploy;
mod disk_errors;
mod documents;
mod draw_documents;
mod encrypted;
mod entries;
mod gateway;
mod held_open;
mod hostile;
mod identity;
mod invariants;
mod keeping;
mod keys;
mod limits;
mod long_lists;
mod lottery;
mod paces;
mod participants;
mod publishing;
mod requests;
mod schema;
mod sessions;
mod starting;
mod strangers;
mod support;
mod surges;
mod traces;
mod translation;
mod wallet;
mod wallet_crashes;
mod wallet_load;
mod webhooks;
