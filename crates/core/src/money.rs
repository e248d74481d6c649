//! Exact decimals. A JSON number becomes an integer and a scale without passing through floating point.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The most decimals that a currency can have.
pub const SCALE_MAX: u8 = 4;

/// An exact decimal with at most [`SCALE_MAX`] decimals, normalised: `10`, `10.0` and `1e1` are equal. What is read is
/// never negative; what is shown may be, where an account can be.
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

    /// So many of the smallest unit of a currency with this many decimals.
    pub fn from_minor(minor: i64, scale: u8) -> Self {
        let (mut unscaled, mut scale) = (minor, scale.min(SCALE_MAX));
        while scale > 0 && unscaled % 10 == 0 {
            unscaled /= 10;
            scale -= 1;
        }
        Self { unscaled, scale }
    }

    /// How many of the smallest unit of a currency with this many decimals.
    pub fn to_minor(self, scale: u8) -> Result<i64, String> {
        let Some(more) = scale.checked_sub(self.scale) else {
            return Err(match scale {
                0 => "must be a whole number in this currency".into(),
                _ => format!("must have at most {scale} decimals in this currency"),
            });
        };
        let minor = 10_i64.checked_pow(more.into()).and_then(|factor| self.unscaled.checked_mul(factor));
        minor.ok_or_else(|| "is out of range".into())
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
        let divisor = 10_u64.pow(u32::from(self.scale));
        let width = usize::from(self.scale);
        let (sign, digits) = (if self.unscaled < 0 { "-" } else { "" }, self.unscaled.unsigned_abs());
        write!(f, "{sign}{}.{:0width$}", digits / divisor, digits % divisor)
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
    use super::{Decimal, SCALE_MAX};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    /// How a person would write it: digits, a point where it belongs, zeros at either end, an exponent.
    fn written(unscaled: i64, scale: u8, zeros: usize, exponent: i32) -> String {
        // Shifted by the exponent first, so that the text means the same number.
        let decimals = i32::from(scale) + exponent;
        let mut digits = unscaled.to_string();
        let mut point = i32::try_from(digits.len()).unwrap() - decimals;
        while point < 1 {
            digits.insert(0, '0');
            point += 1;
        }
        let point = usize::try_from(point).unwrap();
        while digits.len() < point {
            digits.push('0');
        }
        let (whole, fraction) = digits.split_at(point);
        let zeros = "0".repeat(zeros);
        format!("{whole}.{fraction}{zeros}0e{exponent}")
    }

    proptest! {
        /// Whatever way a number is written, it is the same number, in the one way that we write it.
        #[test]
        fn one_number_one_form(
            minor in 0..=i64::MAX, scale in 0..=SCALE_MAX, zeros in 0_usize..30, exponent in -10_i32..10,
        ) {
            let number = Decimal::from_minor(minor, scale);
            let text = written(minor, scale, zeros, exponent);
            prop_assert_eq!(text.parse::<Decimal>(), Ok(number), "{}", text);
            prop_assert_eq!(number.to_string().parse::<Decimal>(), Ok(number));
            prop_assert_eq!(serde_json::to_string(&number).unwrap(), number.to_string());
            prop_assert_eq!(serde_json::from_str::<Decimal>(&text).unwrap(), number);
            prop_assert_eq!(number.to_minor(scale), Ok(minor), "and nothing is lost on the way to the store");
        }

        /// Nothing is rounded and nothing wraps around: it fits into the currency exactly, or it is refused.
        #[test]
        fn a_scale_is_exact_or_refused(minor in 0..=i64::MAX, from in 0..=SCALE_MAX, to in 0..=SCALE_MAX) {
            let wide = i128::from(minor) * 10_i128.pow(u32::from(to));
            let unit = 10_i128.pow(u32::from(from));
            let exact = (wide % unit == 0).then_some(wide / unit).and_then(|minor| i64::try_from(minor).ok());
            prop_assert_eq!(Decimal::from_minor(minor, from).to_minor(to).ok(), exact);
        }

        #[test]
        fn balances_below_zero_read_well(minor in any::<i64>(), scale in 0..=SCALE_MAX) {
            let text = Decimal::from_minor(minor, scale).to_string();
            let (sign, digits) = text.strip_prefix('-').map_or((1, text.as_str()), |digits| (-1, digits));
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            let zeros = usize::from(scale) - fraction.len();
            let back: i128 = format!("{whole}{fraction}{}", "0".repeat(zeros)).parse().unwrap();
            prop_assert_eq!(back * sign, i128::from(minor), "{}", text);
        }

        /// No text makes it panic, and nothing that is not a number is one.
        #[test]
        fn any_text(text in "[-+0-9.eE ]{0,24}") {
            if let Ok(number) = text.parse::<Decimal>() {
                prop_assert_eq!(number.to_string().parse::<Decimal>(), Ok(number));
            }
        }
    }

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
