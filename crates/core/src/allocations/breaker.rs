//! The circuit breaker of a provider: who does not answer is left alone for a while, and then asked by one call.

use super::Outcome;
use crate::time::Timestamp;

/// Failures one after the other that open it.
const FAILURES: u32 = 5;
const FIRST_MS: i64 = 1_000;
const MOST_MS: i64 = 60_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    failures: u32,
    /// How often it opened since it last worked.
    openings: u32,
    open_until: Option<Timestamp>,
    /// The provider asked to be left alone so long.
    paused_until: Option<Timestamp>,
}

/// What changed, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    Opened {
        until: Timestamp,
    },
    Closed,
    /// It asked to be left alone.
    Paused {
        until: Timestamp,
    },
    Nothing,
}

impl Breaker {
    pub fn is_open(&self) -> bool {
        self.open_until.is_some()
    }

    /// How many calls may be begun with so many under way.
    pub fn room(&self, now: Timestamp, under_way: usize, most: usize) -> usize {
        if self.paused_until.is_some_and(|until| now < until) {
            return 0;
        }
        match self.open_until {
            None => most.saturating_sub(under_way),
            Some(until) if now < until => 0,
            // One to see whether it is back.
            Some(_) => usize::from(under_way == 0),
        }
    }

    /// When there may be room again that there is not now.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.open_until.max(self.paused_until)
    }

    pub fn note(&mut self, outcome: &Outcome, now: Timestamp) -> Turned {
        if let Some(until) = super::answer::pause_until(outcome, now) {
            self.works();
            let longer = self.paused_until.is_none_or(|before| until > before);
            self.paused_until = self.paused_until.max(Some(until));
            return if longer { Turned::Paused { until } } else { Turned::Nothing };
        }
        let at_once = match outcome {
            // Somebody is there, whatever they say.
            Outcome::Applied { .. } | Outcome::Revoked | Outcome::Refused { .. } => return self.works(),
            Outcome::Misconfigured { .. } => true,
            Outcome::Unknown { .. } | Outcome::NotApplied { .. } => false,
        };
        self.failures = self.failures.saturating_add(1);
        let probing = self.open_until.is_some_and(|until| now >= until);
        if self.open_until.is_some() && !probing {
            return Turned::Nothing;
        }
        if !(at_once || probing || self.failures >= FAILURES) {
            return Turned::Nothing;
        }
        let until = now.plus_millis((FIRST_MS << self.openings.min(6)).min(MOST_MS));
        self.openings = self.openings.saturating_add(1);
        self.open_until = Some(until);
        Turned::Opened { until }
    }

    fn works(&mut self) -> Turned {
        let was_open = self.open_until.is_some();
        *self = Self { paused_until: self.paused_until, ..Self::default() };
        if was_open { Turned::Closed } else { Turned::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, Turned};
    use crate::allocations::Outcome;
    use crate::time::Timestamp;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn unknown() -> Outcome {
        Outcome::Unknown { reason: String::new() }
    }

    #[test]
    fn it_opens_lets_one_through_and_closes() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            assert_eq!(breaker.note(&unknown(), at(0)), Turned::Nothing);
        }
        assert_eq!(breaker.room(at(0), 3, 16), 13);
        assert_eq!(breaker.note(&unknown(), at(0)), Turned::Opened { until: at(1_000) });
        assert_eq!(breaker.note(&unknown(), at(1)), Turned::Nothing, "calls that were under way");
        assert_eq!((breaker.room(at(999), 0, 16), breaker.room(at(1_000), 0, 16)), (0, 1));
        assert_eq!(breaker.room(at(1_000), 1, 16), 0, "one probe at a time");
        assert_eq!(breaker.note(&unknown(), at(1_500)), Turned::Opened { until: at(3_500) });
        assert_eq!(breaker.note(&Outcome::Applied { transaction_id: None }, at(3_600)), Turned::Closed);
        assert_eq!(breaker.room(at(3_600), 0, 16), 16);
    }

    #[test]
    fn a_wrong_secret_opens_it_at_once_and_a_busy_provider_is_left_alone() {
        let mut breaker = Breaker::default();
        let wrong = Outcome::Misconfigured { reason: String::new() };
        assert_eq!(breaker.note(&wrong, at(0)), Turned::Opened { until: at(1_000) });
        let mut breaker = Breaker::default();
        let busy = Outcome::NotApplied { reason: String::new(), retry_after_ms: Some(7_000) };
        assert_eq!(breaker.note(&busy, at(0)), Turned::Paused { until: at(7_000) });
        assert_eq!((breaker.room(at(6_999), 0, 2), breaker.room(at(7_000), 0, 2)), (0, 2));
        assert!(!breaker.is_open());
        let mistaken = Outcome::NotApplied { reason: String::new(), retry_after_ms: Some(3_600_000_000) };
        assert_eq!(
            breaker.note(&mistaken, at(0)),
            Turned::Paused { until: at(3_600_000) },
            "an hour at the most"
        );
    }
}
