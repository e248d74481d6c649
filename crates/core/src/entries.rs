//! Entries: what people do in events that are not lines, a check-in a day or a play of a game, and what it gives them.

pub mod attendance;
pub mod day;
pub mod random;
pub mod view;

pub use day::Day;

use crate::id::RewardId;
use crate::requests::RequestId;
use crate::time::Timestamp;

/// Where somebody stands in an event, as of their last entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub last_day: Day,
    /// Entries in all.
    pub total: i64,
    /// Days in a row; of a game, plays on the last day.
    pub run: i64,
}

/// A check-in or a play, as it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: RequestId,
    pub day: Day,
    /// Which of all of theirs it is, and which of that day.
    pub number: i64,
    pub slot: i64,
    /// Days in a row, with this one.
    pub streak: i64,
    pub at: Timestamp,
    /// What was played.
    pub play: Option<Play>,
}

/// How a play was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Play {
    pub odds_version: i64,
    /// Which prize of that version's table was drawn.
    pub drawn: i64,
    /// What it gave: another one where the prize had run out, or nothing.
    pub reward_id: Option<RewardId>,
    pub key: String,
}

/// The zone of an event's days where none is named.
pub const ZONE_DEFAULT: &str = "Asia/Seoul";
