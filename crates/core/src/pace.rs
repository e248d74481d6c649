//! How fast an event without a line goes: what came of the check-ins, plays or claims of each second of the last minute.

use crate::requests::RequestId;
use crate::time::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use utoipa::ToSchema;

/// How many seconds are told of.
pub const SECONDS: i64 = 60;
/// A second counts once it has been over for so long: what was begun in it is written by then.
const SETTLING_MS: i64 = 500;
/// Seconds that are counted again at the next look: a claim's status may have changed, and a commit may have been slow.
const AGAIN: i64 = 2;
/// How much earlier than its commit somebody may have asked.
const WAITED_MS: i64 = 1_000;

/// What came of a check-in, a play or a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Came {
    FirstDay,
    InARow,
    Won(String),
    Nothing,
    /// The status of a claim.
    Claim(String),
}

/// What was found of one second: which, what came of it, and how often.
pub type Found = (i64, Came, i64);

/// The seconds of a look: from the first, up to the one after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: i64,
    pub to: i64,
}

impl Span {
    /// One that holds both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to) }
    }

    /// The id before which nothing was asked for that was written in this span. All of them begin with their time.
    pub fn first_id(self) -> RequestId {
        let millis = u64::try_from(self.from.saturating_mul(1_000) - WAITED_MS).unwrap_or(0);
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        RequestId::from_bytes(bytes)
    }
}

/// The last minute of an event, second by second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// The second after the last one that is known.
    to: i64,
    seconds: VecDeque<BTreeMap<Came, i64>>,
}

impl Pace {
    /// Whether anything was looked at yet.
    pub fn is_known(&self) -> bool {
        !self.seconds.is_empty()
    }

    /// Whether all of a span was looked at.
    pub fn reaches(&self, span: Span) -> bool {
        self.is_known() && self.to >= span.to
    }

    /// What has to be looked at now.
    pub fn next(&self, now: Timestamp) -> Span {
        let to = now.as_millis().saturating_sub(SETTLING_MS).div_euclid(1_000);
        let from = if self.is_known() { self.to - AGAIN } else { to - SECONDS };
        Span { from: from.clamp(to - SECONDS, to), to }
    }

    /// Takes in what was found in a span. Where not all of it could be read, `whole_from` is the first second that was.
    pub fn take(&mut self, span: Span, whole_from: i64, found: &[Found]) {
        if span.to < self.to {
            return;
        }
        if !self.is_known() || self.to < span.from {
            self.seconds.clear();
            self.to = span.from.max(whole_from).min(span.to - 1);
        }
        for second in self.to..span.to {
            self.seconds.push_back(BTreeMap::new());
            self.to = second + 1;
        }
        let first = self.first();
        // What is known of a second is better than a part of it; of a new one a part is all there is.
        for second in span.from.max(first).max(whole_from.min(span.to - 1))..span.to {
            let of_second = found.iter().filter(|(at, ..)| *at == second);
            let place = usize::try_from(second - first).unwrap_or(0);
            if let Some(known) = self.seconds.get_mut(place) {
                *known = of_second.map(|(_, came, count)| (came.clone(), *count)).collect();
            }
        }
        while self.seconds.len() > usize::try_from(SECONDS).unwrap_or(0) {
            self.seconds.pop_front();
        }
    }

    fn first(&self) -> i64 {
        self.to - i64::try_from(self.seconds.len()).unwrap_or(0)
    }

    pub fn view(&self) -> PaceView {
        let per_second: Vec<i64> = self.seconds.iter().map(|second| second.values().sum()).collect();
        let mut whole: BTreeMap<&Came, i64> = BTreeMap::new();
        for (came, count) in self.seconds.iter().flatten() {
            *whole.entry(came).or_default() += count;
        }
        let results = whole.into_iter().map(|(came, count)| {
            let (result, reward_id) = match came {
                Came::FirstDay => ("FIRST_DAY", None),
                Came::InARow => ("IN_A_ROW", None),
                Came::Won(reward_id) => ("WON", Some(reward_id.clone())),
                Came::Nothing => ("NOTHING", None),
                Came::Claim(status) => (status.as_str(), None),
            };
            PaceResult { result: result.to_owned(), reward_id, count }
        });
        PaceView {
            at: self.to.saturating_mul(1_000),
            last_second: per_second.last().copied().unwrap_or(0),
            last_minute: per_second.iter().sum(),
            results: results.collect(),
            per_second,
        }
    }
}

/// How fast an event without a line goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaceView {
    /// The end of the last second that is counted.
    pub at: i64,
    /// Check-ins, plays or claims in that second.
    pub last_second: i64,
    /// The same in the last minute, or as much of it as could be read.
    pub last_minute: i64,
    /// Second by second, at most a minute of them, up to `at`.
    pub per_second: Vec<i64>,
    /// What came of them.
    pub results: Vec<PaceResult>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PaceResult {
    /// Of a check-in `FIRST_DAY` or `IN_A_ROW`, of a play `WON` or `NOTHING`, of a claim its status.
    pub result: String,
    /// What was won.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward_id: Option<String>,
    pub count: i64,
}

#[cfg(test)]
mod tests {
    use super::{Came, Pace, SECONDS, Span};
    use crate::time::Timestamp;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn looks_overlap_and_a_minute_is_kept() {
        let mut pace = Pace::default();
        let first = pace.next(at(1_000_499));
        assert_eq!(first, Span { from: 999 - SECONDS, to: 999 }, "half a second for whoever is slow");
        pace.take(first, first.from, &[(998, Came::Nothing, 3), (997, Came::Won("a".into()), 2)]);
        assert!(pace.is_known());
        let view = pace.view();
        assert_eq!((view.at, view.last_second, view.last_minute), (999_000, 3, 5));
        assert_eq!(view.per_second.len(), 60);
        let next = pace.next(at(1_001_600));
        assert_eq!(next, Span { from: 997, to: 1_001 });
        // One of them is known better by now.
        pace.take(next, next.from, &[(998, Came::Nothing, 4), (1_000, Came::Nothing, 1)]);
        let view = pace.view();
        assert_eq!((view.last_second, view.last_minute, view.per_second.len()), (1, 5, 60));
        let results: Vec<_> = view.results.iter().map(|one| (one.result.as_str(), one.count)).collect();
        assert_eq!(results, [("NOTHING", 5)], "the second in which one was won was looked at again");
    }

    #[test]
    fn a_part_of_a_second_is_not_taken_for_the_whole() {
        let mut pace = Pace::default();
        let span = Span { from: 940, to: 1_000 };
        pace.take(span, 998, &[(997, Came::Nothing, 7), (998, Came::Nothing, 9), (999, Came::Nothing, 8)]);
        assert_eq!(pace.view().per_second, [9, 8]);
        let span = Span { from: 998, to: 1_001 };
        pace.take(span, 1_000, &[(999, Came::Nothing, 2), (1_000, Came::Nothing, 9)]);
        assert_eq!(pace.view().per_second, [9, 8, 9]);
        let span = Span { from: 999, to: 1_002 };
        pace.take(span, 1_002, &[(1_001, Came::Nothing, 5)]);
        assert_eq!(pace.view().per_second, [9, 8, 9, 5], "at least so many");
        pace.take(Span { from: 900, to: 960 }, 900, &[]);
        assert_eq!(pace.view().at, 1_002_000, "a clock that went back changes nothing");
        assert!(pace.reaches(pace.next(at(1_001_000))));
        // Nobody watched for an hour.
        let span = pace.next(at(4_600_500));
        pace.take(span, span.from, &[(4_599, Came::Nothing, 6)]);
        assert_eq!((pace.view().per_second.len(), pace.view().last_minute), (60, 6));
    }

    #[test]
    fn nothing_of_a_span_has_an_earlier_id() {
        let id = Span { from: 1_700_000_000, to: 1_700_000_001 }.first_id();
        assert!(id.to_string().starts_with("018bcfe5-6418-"), "{id}");
    }
}
