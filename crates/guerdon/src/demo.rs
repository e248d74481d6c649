//! The demonstration: events of every type, and a crowd that takes part in them, through the same calls as everybody.

mod chance;
mod client;
mod crowd;
mod programme;
mod stage;

pub(crate) use client::{Client, Person};
pub(crate) use crowd::Crowd;
pub(crate) use stage::{Stage, VISITOR};
