//! Durations of settings.

use crate::{lines, says_why};
use guerdon::text::{duration, signed_millis};
use std::time::Duration;

pub(crate) fn hold(data: &[u8]) {
    let Some([text]) = lines(data) else { return };
    let signed = signed_millis(text);
    match duration(text) {
        Ok(time) => {
            assert!(time <= Duration::from_hours(24 * 366 * 10), "{text} is longer than ten years");
            assert_eq!(duration(&format!("{}ms", time.as_millis())), Ok(time), "{text}");
            let millis = i64::try_from(time.as_millis()).unwrap();
            assert_eq!(signed, Ok(millis));
            assert_eq!(signed_millis(&format!("-{text}")), Ok(-millis));
            assert!(text.starts_with(|c: char| c.is_ascii_digit()) && text.ends_with(['s', 'm', 'h', 'd']));
        }
        Err(reason) => {
            says_why(&reason);
            assert!(signed.is_err() || text.starts_with('-'), "{text}");
        }
    }
}
