//! Exact decimals. A JSON number becomes an integer and a scale without passing through floating point.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The most decimals that a currency can have.
pub const SCALE_MAX: u8 = 4;

/// A non-negative exact decimal with at most [`SCALE_MAX`] decimals, normalised: `10`, `10.0` and `1e1` are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decimal {
    unscaled: i64,
    scale: u8,
}

impl Decimal {
    pub fn is_positive(self) -> bool {
        self.unscaled > 0
    }

    /// The fewest decimals that write it exactly.
    pub fn scale(self) -> u8 {
        self.scale
    }
}

impl FromStr for Decimal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let exponent: i32 = exponent.parse().map_err(|_| "has an exponent that is out of range")?;
                (mantissa, exponent)
            }
            None => (text, 0),
        };
        if mantissa.starts_with('-') {
            return Err("must not be negative".into());
        }
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err("must be a number".into());
        }
        let significant = digits.trim_start_matches('0').trim_end_matches('0');
        if significant.is_empty() {
            return Ok(Self { unscaled: 0, scale: 0 });
        }
        let zeros_after = digits.len() - digits.trim_end_matches('0').len();
        // The decimals that remain once zeros at the end are dropped; negative means zeros to put back.
        let too_long = || String::from("is out of range");
        let decimals = i64::try_from(fraction.len()).map_err(|_| too_long())?
            - i64::try_from(zeros_after).map_err(|_| too_long())?
            - i64::from(exponent);
        if decimals > i64::from(SCALE_MAX) {
            return Err(format!("must have at most {SCALE_MAX} decimals"));
        }
        let unscaled: i64 = significant.parse().map_err(|_| too_long())?;
        if decimals >= 0 {
            let scale = u8::try_from(decimals).map_err(|_| too_long())?;
            return Ok(Self { unscaled, scale });
        }
        let zeros = u32::try_from(-decimals).map_err(|_| too_long())?;
        let factor = 10_i64.checked_pow(zeros).ok_or_else(too_long)?;
        let unscaled = unscaled.checked_mul(factor).ok_or_else(too_long)?;
        Ok(Self { unscaled, scale: 0 })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scale == 0 {
            return write!(f, "{}", self.unscaled);
        }
        let divisor = 10_i64.pow(u32::from(self.scale));
        let width = usize::from(self.scale);
        write!(f, "{}.{:0width$}", self.unscaled / divisor, self.unscaled % divisor)
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let number: serde_json::Number = self.to_string().parse().map_err(serde::ser::Error::custom)?;
        number.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        number.as_str().parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn numbers_are_exact_and_normalised() {
        for (text, outcome) in [
            ("0", Ok("0")),
            ("0.000", Ok("0")),
            ("10000", Ok("10000")),
            ("10000.0", Ok("10000")),
            ("1e4", Ok("10000")),
            ("1.5E1", Ok("15")),
            ("0.1", Ok("0.1")),
            ("0.3000", Ok("0.3")),
            ("12.3456", Ok("12.3456")),
            ("123456e-4", Ok("12.3456")),
            ("9223372036854775807", Ok("9223372036854775807")),
            ("9223372036854775808", Err("is out of range")),
            ("1e19", Err("is out of range")),
            ("1e999999999999", Err("has an exponent that is out of range")),
            ("1e-2147483648", Err("must have at most 4 decimals")),
            ("0.12345", Err("must have at most 4 decimals")),
            ("-1", Err("must not be negative")),
            ("x", Err("must be a number")),
        ] {
            let found = text.parse::<Decimal>().map(|d| d.to_string());
            assert_eq!(found, outcome.map(String::from).map_err(String::from), "{text}");
        }
    }

    #[test]
    fn json_keeps_the_digits() {
        let amount: Decimal = serde_json::from_str("922337203685477.5807").unwrap();
        assert_eq!(serde_json::to_string(&amount).unwrap(), "922337203685477.5807");
        assert!(serde_json::from_str::<Decimal>("\"5\"").is_err());
    }
}
