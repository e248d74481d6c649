//! Cursors: opaque to clients, and good only for the list that gave them out.

use crate::problem::Problem;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guerdon_core::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn encode<P: Serialize>(list: &str, place: &P) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&(list, place)).unwrap_or_default())
}

pub(crate) fn decode<P: Serialize + DeserializeOwned>(list: &str, cursor: &str) -> Result<P, Problem> {
    let read = || {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        // Ours never need an escape; what only an escape can write has no business in a statement.
        if bytes.contains(&b'\\') {
            return None;
        }
        let (given_out_by, place): (String, P) = serde_json::from_slice(&bytes).ok()?;
        // As it was given, and in no other form.
        (given_out_by == list && encode(list, &place) == cursor).then_some(place)
    };
    let bad = || {
        Problem::new(Code::BadCursor, "use the nextCursor of an earlier page of this list, as it was given")
    };
    read().ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn a_cursor_is_good_for_its_own_list() {
        let cursor = encode("events", &(5_i64, "drop_1"));
        assert_eq!(decode::<(i64, String)>("events", &cursor).unwrap(), (5, "drop_1".into()));
        for (list, text) in [
            ("audit", cursor.as_str()),
            ("events", ""),
            ("events", "%%%"),
            ("events", "AAAA"),
            ("events", "WyJldmVudHMiLFswLCJhXHUwMDAwYiJdXQ"),
            // With a space in it.
            ("events", "WyJldmVudHMiLCBbNSwiZHJvcF8xIl1d"),
        ] {
            assert!(decode::<(i64, String)>(list, text).is_err(), "{list} {text}");
        }
    }
}
