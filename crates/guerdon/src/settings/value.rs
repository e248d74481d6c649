//! What a setting's value can be, and how it is read.

use std::time::Duration as Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Count {
        least: u64,
        most: u64,
    },
    /// `250ms`, `5s`, `1m`, `2h`, `1d`.
    Duration,
    /// The same, with a sign allowed.
    SignedDuration,
    /// One of these; with none to choose from the setting cannot be used yet.
    Choice(&'static [&'static str]),
}

impl Kind {
    /// Why a value cannot be one of this kind.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Text => {
                if text.is_empty() {
                    return Err("must not be empty".into());
                }
                Ok(())
            }
            Self::Count { least, most } => match text.parse::<u64>() {
                Ok(count) if (least..=most).contains(&count) => Ok(()),
                _ => Err(format!("must be a whole number between {least} and {most}")),
            },
            Self::Duration => duration(text).map(drop),
            Self::SignedDuration => signed_millis(text).map(drop),
            Self::Choice([]) => Err("is not available in this version".into()),
            Self::Choice(choices) if choices.contains(&text) => Ok(()),
            Self::Choice(choices) => Err(format!("must be one of: {}", choices.join(", "))),
        }
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::Text => "text".into(),
            Self::Count { least, most } => format!("{least} to {most}"),
            Self::Duration => "duration".into(),
            Self::SignedDuration => "duration, or one with a minus before it".into(),
            Self::Choice([]) => "not available in this version".into(),
            Self::Choice(choices) => {
                choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

const LONGEST: Time = Time::from_hours(24 * 366 * 10);

pub(crate) fn duration(text: &str) -> Result<Time, String> {
    let bad = || String::from("must be a duration, as in 250ms, 5s, 1m, 2h or 1d");
    let unit = text.find(|character: char| !character.is_ascii_digit()).ok_or_else(bad)?;
    let number: u64 = text[..unit].parse().map_err(|_| bad())?;
    let millis_per_unit = match &text[unit..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(bad()),
    };
    let duration = number.checked_mul(millis_per_unit).map(Time::from_millis).filter(|time| *time <= LONGEST);
    duration.ok_or_else(|| "must be at most ten years".into())
}

pub(crate) fn signed_millis(text: &str) -> Result<i64, String> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let millis = i64::try_from(duration(rest)?.as_millis()).map_err(|_| String::from("is too long"))?;
    Ok(sign * millis)
}

#[cfg(test)]
mod tests {
    use super::{duration, signed_millis};
    use std::time::Duration;

    #[test]
    fn durations() {
        for (text, millis) in [("250ms", 250), ("5s", 5_000), ("1m", 60_000), ("2h", 7_200_000), ("0s", 0)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-5s", "5 s", "5sec", "1.5s", "99999999999999999999s", "9999999d"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(signed_millis("-2s"), Ok(-2_000));
    }
}
