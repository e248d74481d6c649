//! Cursors: good for the list that gave them out, in the form in which it did.

use crate::{lines, says_why};
use guerdon_core::Timestamp;
use guerdon_server::untrusted::{cursor_of, place_of};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

pub(crate) fn hold(data: &[u8]) {
    let Some([list, cursor, time, name]) = lines(data) else { return };
    given::<(Timestamp, String)>(list, cursor);
    given::<(Timestamp, i64, i64)>(list, cursor);
    given::<(i64, String)>(list, cursor);
    given::<String>(list, cursor);
    given::<i64>(list, cursor);
    // One of our own comes back as what it was. No id has a character that JSON would escape.
    let plain = |text: &str| !text.contains(|c: char| c.is_control() || c == '"' || c == '\\');
    if let (Ok(time), true) = (time.parse(), plain(list) && plain(name)) {
        let place = (Timestamp::from_millis(time), name.to_owned());
        let cursor = cursor_of(list, &place);
        assert_eq!(place_of(list, &cursor), Ok(place));
        assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{cursor}");
    }
}

fn given<P: Serialize + DeserializeOwned + PartialEq + Debug>(list: &str, cursor: &str) {
    match place_of::<P>(list, cursor) {
        Ok(place) => {
            assert_eq!(cursor_of(list, &place), cursor, "there is one cursor for each place");
            assert!(place_of::<P>(&format!("{list}x"), cursor).is_err(), "another list takes it");
        }
        Err(reason) => says_why(&reason),
    }
}
