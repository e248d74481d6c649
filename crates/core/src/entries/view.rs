//! How entries read, and what others hear of them.

use super::{Day, Entry, Standing, attendance};
use crate::allocations::view::AllocationView;
use crate::events::settings::Odds;
use crate::id::{EventId, RewardId};
use crate::time::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

/// A check-in.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckInView {
    pub entry_id: String,
    pub event_id: String,
    pub user_id: String,
    /// The day in the event's time zone, as `2026-03-05`.
    pub date: String,
    #[schema(value_type = i64)]
    pub checked_in_at: Timestamp,
    pub total_days: i64,
    /// Days in a row, with this one.
    pub streak: i64,
    /// Whether it had been made before this call.
    pub duplicate: bool,
    /// What it gave.
    pub allocations: Vec<AllocationView>,
}

/// A user's days.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalendarView {
    pub event_id: String,
    pub user_id: String,
    pub time_zone: String,
    pub today: String,
    pub checked_in_today: bool,
    pub total_days: i64,
    /// Days in a row as of today.
    pub streak: i64,
    /// The newest first; the last 400 at most.
    pub days: Vec<String>,
}

impl CalendarView {
    pub fn of(
        ids: (&str, &str),
        time_zone: &str,
        today: Day,
        standing: Option<Standing>,
        days: &[Day],
    ) -> Self {
        Self {
            event_id: ids.0.into(),
            user_id: ids.1.into(),
            time_zone: time_zone.into(),
            today: today.to_string(),
            checked_in_today: standing.is_some_and(|standing| standing.last_day >= today),
            total_days: standing.map_or(0, |standing| standing.total),
            streak: attendance::streak(standing, today),
            days: days.iter().map(Day::to_string).collect(),
        }
    }
}

/// A play.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlayView {
    pub log_id: String,
    pub event_id: String,
    pub user_id: String,
    pub prize: PrizeView,
    /// The version of the odds that it was played by.
    pub odds_version: i64,
    #[schema(value_type = i64)]
    pub played_at: Timestamp,
    /// What was won, on its way; none for a blank.
    pub allocation: Option<AllocationView>,
}

/// A user's plays of a game, a page of them, and how many they have left.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaysView {
    /// How many the user can play now; none where nothing limits it.
    pub left: Option<i64>,
    /// Plays in all.
    pub total: i64,
    /// The newest first.
    pub items: Vec<PlayView>,
    /// For the next page; `null` on the last one.
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrizeView {
    /// None is a blank.
    pub reward_id: Option<String>,
}

/// The odds that are in force, and those that are to come, the next first.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct OddsInForce {
    #[serde(flatten)]
    pub present: PublishedOdds,
    pub upcoming: Vec<PublishedOdds>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishedOdds {
    pub version: i64,
    #[schema(value_type = i64)]
    pub effective_at: Timestamp,
    pub prizes: Vec<OddsPrize>,
    /// What takes the place of a prize that has run out; a blank where there is none.
    pub fallback: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OddsPrize {
    /// None is a blank.
    pub reward_id: Option<String>,
    pub weight: i64,
    pub probability: f64,
}

fn prizes(odds: &Odds) -> Vec<OddsPrize> {
    let total: i64 = odds.prizes.iter().map(|prize| prize.weight).sum();
    #[expect(clippy::cast_precision_loss, reason = "a probability to read; the weights are exact")]
    let share = |weight: i64| weight as f64 / total as f64;
    odds.prizes
        .iter()
        .map(|prize| OddsPrize {
            reward_id: prize.reward_id.clone().map(String::from),
            weight: prize.weight,
            probability: share(prize.weight),
        })
        .collect()
}

impl PublishedOdds {
    fn of(odds: &Odds) -> Self {
        Self {
            version: odds.version,
            effective_at: odds.effective_at,
            prizes: prizes(odds),
            fallback: odds.fallback.clone().map(String::from),
        }
    }
}

impl OddsInForce {
    pub fn of(all: &[Odds], now: Timestamp) -> Option<Self> {
        let odds = super::random::odds_at(all, now)?;
        let upcoming = all.iter().filter(|later| later.version > odds.version);
        Some(Self { present: PublishedOdds::of(odds), upcoming: upcoming.map(PublishedOdds::of).collect() })
    }
}

/// What others hear of a check-in.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckInNews<'a> {
    pub entry_id: String,
    pub event_id: &'a str,
    pub user_id: &'a str,
    pub date: String,
    pub total_days: i64,
    pub streak: i64,
    #[schema(value_type = i64)]
    pub at: Timestamp,
}

impl<'a> CheckInNews<'a> {
    pub fn of(event_id: &'a EventId, user_id: &'a str, entry: &Entry) -> Self {
        Self {
            entry_id: entry.id.to_string(),
            event_id: event_id.as_str(),
            user_id,
            date: entry.day.to_string(),
            total_days: entry.number,
            streak: entry.streak,
            at: entry.at,
        }
    }
}

/// What others hear of a play.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlayNews<'a> {
    pub log_id: String,
    pub event_id: &'a str,
    pub user_id: &'a str,
    pub odds_version: i64,
    /// What was won; none is a blank.
    pub reward_id: Option<&'a str>,
    #[schema(value_type = i64)]
    pub at: Timestamp,
}

impl<'a> PlayNews<'a> {
    /// None of what is no play.
    pub fn of(event_id: &'a EventId, user_id: &'a str, entry: &'a Entry) -> Option<Self> {
        let play = entry.play.as_ref()?;
        Some(Self {
            log_id: entry.id.to_string(),
            event_id: event_id.as_str(),
            user_id,
            odds_version: play.odds_version,
            reward_id: play.reward_id.as_ref().map(RewardId::as_str),
            at: entry.at,
        })
    }
}
