//! Days of the calendar, in a time zone.

use crate::time::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::TimeZone;
use std::fmt;

const EPOCH: Date = date(1970, 1, 1);

/// A day of the calendar, counted from the first of January 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

impl Day {
    pub const fn from_number(number: i64) -> Self {
        Self(number)
    }

    pub const fn number(self) -> i64 {
        self.0
    }

    /// The day that it is somewhere; none where the zone is unknown or the time beyond every calendar.
    pub fn of(at: Timestamp, zone: &str) -> Option<Self> {
        let zone = TimeZone::get(zone).ok()?;
        let at = jiff::Timestamp::from_millisecond(at.as_millis()).ok()?;
        Some(Self::of_date(at.to_zoned(zone).date()))
    }

    fn of_date(date: Date) -> Self {
        Self(date.since(EPOCH).map_or(0, |span| i64::from(span.get_days())))
    }

    fn date(self) -> Option<Date> {
        let days = jiff::SignedDuration::from_hours(self.0.checked_mul(24)?);
        EPOCH.checked_add(days).ok()
    }

    /// As `2026-03-05`.
    pub fn parse(text: &str) -> Option<Self> {
        let date: Date = text.parse().ok()?;
        let day = Self::of_date(date);
        (day.to_string() == text).then_some(day)
    }

    #[must_use]
    pub const fn plus(self, days: i64) -> Self {
        Self(self.0.saturating_add(days))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.date() {
            Some(date) => write!(f, "{date}"),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Day;
    use crate::time::Timestamp;

    #[test]
    fn days_of_the_calendar() {
        // A moment in UTC, a zone, the day there.
        let table = [
            ("2026-03-05T14:59:59.999Z", "Asia/Seoul", "2026-03-05"),
            ("2026-03-05T15:00:00Z", "Asia/Seoul", "2026-03-06"),
            ("2026-03-05T15:00:00Z", "UTC", "2026-03-05"),
            // The night in which New York loses an hour, and the one in which it has one twice.
            ("2026-03-08T04:59:59.999Z", "America/New_York", "2026-03-07"),
            ("2026-03-08T05:00:00Z", "America/New_York", "2026-03-08"),
            ("2026-03-09T03:59:59.999Z", "America/New_York", "2026-03-08"),
            ("2026-03-09T04:00:00Z", "America/New_York", "2026-03-09"),
            ("2026-11-01T04:00:00Z", "America/New_York", "2026-11-01"),
            ("2026-11-02T04:59:59.999Z", "America/New_York", "2026-11-01"),
            ("2026-11-02T05:00:00Z", "America/New_York", "2026-11-02"),
            ("1969-12-31T23:00:00Z", "UTC", "1969-12-31"),
        ];
        for (moment, zone, day) in table {
            let moment: jiff::Timestamp = moment.parse().unwrap();
            let found = Day::of(Timestamp::from_millis(moment.as_millisecond()), zone).unwrap();
            assert_eq!(found.to_string(), day, "{moment} in {zone}");
            assert_eq!(Day::parse(day), Some(found));
        }
        assert_eq!(Day::of(Timestamp::from_millis(0), "Asia/Soul"), None);
        assert_eq!(Day::parse("2026-03-08").unwrap().plus(1), Day::parse("2026-03-09").unwrap());
        for text in ["2026-3-8", "2026-02-30", "20260308", "", "-0001-01-01"] {
            assert_eq!(Day::parse(text), None, "{text}");
        }
    }
}
