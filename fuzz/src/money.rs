//! Amounts: exact, in one form, and refused where they cannot be.

use crate::{lines, says_why};
use guerdon_core::money::{Decimal, SCALE_MAX};
use guerdon_server::untrusted;

pub(crate) fn hold(data: &[u8]) {
    let Some([text]) = lines(data) else { return };
    let read = text.parse::<Decimal>();
    match &read {
        Ok(number) => accepted(*number),
        Err(reason) => says_why(reason),
    }
    if let Some((digits, tens)) = meant(text) {
        agrees(read.as_ref().ok(), digits, tens);
    }
    // A body's number is the same number.
    match untrusted::body::<Decimal>(data) {
        Ok(number) => assert_eq!(text.trim().parse(), Ok(number)),
        Err(reason) => says_why(&reason),
    }
}

fn accepted(number: Decimal) {
    let shown = number.to_string();
    assert_eq!(shown.parse(), Ok(number), "it reads back as itself");
    assert_eq!(serde_json::to_string(&number).unwrap(), shown);
    assert!(number.scale() <= SCALE_MAX && !shown.starts_with('-') && shown.len() <= 21, "{shown}");
    assert!(number.scale() == 0 || !shown.ends_with('0'), "{shown} has a zero too many");
    for scale in 0..=SCALE_MAX {
        match number.to_minor(scale) {
            Ok(minor) => assert_eq!(Decimal::from_minor(minor, scale), number),
            Err(reason) => says_why(&reason),
        }
    }
}

/// Another reading of the same text, for those that are short: digits, and how many tens to multiply them with.
fn meant(text: &str) -> Option<(i128, i64)> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i64 = exponent.parse().ok().filter(|exponent| (-20..=20).contains(exponent))?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let plain = (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then_some((digits.parse().ok()?, exponent - i64::try_from(fraction.len()).ok()?))
}

/// It was read exactly, or cannot be held exactly.
fn agrees(read: Option<&Decimal>, digits: i128, tens: i64) {
    let shift = tens + i64::from(SCALE_MAX);
    let power = 10_i128.pow(u32::try_from(shift.abs()).unwrap());
    let exact = match shift {
        0.. => digits.checked_mul(power),
        _ => (digits % power == 0).then_some(digits / power),
    };
    // Whole numbers may be greater than what fits with all the decimals that there can be.
    let unit = 10_i128.pow(u32::from(SCALE_MAX));
    let fits = exact.is_some_and(|ten_thousandths| {
        let mut least = (ten_thousandths, unit);
        while least.1 > 1 && least.0 % 10 == 0 {
            least = (least.0 / 10, least.1 / 10);
        }
        i64::try_from(least.0).is_ok()
    });
    assert_eq!(read.is_some(), fits, "{digits} and {tens} tens");
    if let (Some(number), Some(exact)) = (read, exact) {
        let minor = i128::from(number.to_minor(number.scale()).unwrap());
        assert_eq!(minor * 10_i128.pow(u32::from(SCALE_MAX - number.scale())), exact);
    }
}
