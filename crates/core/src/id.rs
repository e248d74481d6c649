//! Identifiers. Their alphabets are chosen so that no two different idempotency keys can come out equal.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest `eventId`, `rewardId` or `couponId`.
pub const NAME_MAX: usize = 64;
/// The longest `userId`.
pub const USER_MAX: usize = 128;
const CURRENCY_MAX: usize = 16;
const KEY_MAX: usize = 128;
/// The shortest key of a claim: it is one for everybody, so that it must not be guessed by chance.
const CLAIM_KEY_MIN: usize = 8;

fn check_currency(text: &str) -> Result<(), String> {
    let fits = (1..=CURRENCY_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if fits { Ok(()) } else { Err(format!("must be 1 to {CURRENCY_MAX} of the characters A-Z 0-9")) }
}

fn check_key(text: &str) -> Result<(), String> {
    let fits = (1..=KEY_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if fits { Ok(()) } else { Err(format!("must be 1 to {KEY_MAX} visible ASCII characters")) }
}

fn check_claim_key(text: &str) -> Result<(), String> {
    if text.len() >= CLAIM_KEY_MIN && check_key(text).is_ok() {
        return Ok(());
    }
    Err(format!("must be {CLAIM_KEY_MIN} to {KEY_MAX} visible ASCII characters"))
}

fn check_name(text: &str) -> Result<(), String> {
    let fits = (1..=NAME_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'.');
    if fits { Ok(()) } else { Err(format!("must be 1 to {NAME_MAX} of the characters A-Z a-z 0-9 _ .")) }
}

fn check_user(text: &str) -> Result<(), String> {
    let fits = (1..=USER_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_graphic() && b != b'#' && b != b'/');
    if fits {
        Ok(())
    } else {
        Err(format!("must be 1 to {USER_MAX} visible ASCII characters other than # and /"))
    }
}

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident, $check:ident;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn parse(text: impl Into<String>) -> Result<Self, String> {
                let text = text.into();
                $check(&text)?;
                Ok(Self(text))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                Self::parse(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+ };
}

/// Declares an id that is a UUID: bytes in the store, hyphenated text for people.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(uuid::Uuid);

        impl $name {
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(uuid::Uuid::from_bytes(bytes))
            }

            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            pub fn parse(text: &str) -> Option<Self> {
                uuid::Uuid::try_parse(text).ok().map(Self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }
    };
}
pub(crate) use uuid_id;

identifiers! {
    /// An event, named by the operator who creates it.
    EventId, check_name;
    /// A reward within its event.
    RewardId, check_name;
    CouponId, check_name;
    /// A person who takes part, as the token's `sub` names them.
    UserId, check_user;
    Currency, check_currency;
    /// An idempotency key, ours or one that a client chose.
    IdempotencyKey, check_key;
    /// The key of a claim, by which it is known from then on.
    ClaimKey, check_claim_key;
}

#[cfg(test)]
mod tests {
    use super::{EventId, UserId};

    #[test]
    fn alphabets() {
        let long = "a".repeat(64);
        let too_long = "a".repeat(65);
        for (text, fits) in [
            ("drop_1", true),
            ("A.b_9", true),
            (long.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            ("with-hyphen", false),
            ("sp ace", false),
            ("이벤트", false),
            ("a/b", false),
        ] {
            assert_eq!(EventId::parse(text).is_ok(), fits, "{text:?}");
        }
        let long = "u".repeat(128);
        let too_long = "u".repeat(129);
        for (text, fits) in [
            ("u-1", true),
            ("mail@host!", true),
            (long.as_str(), true),
            (too_long.as_str(), false),
            ("", false),
            ("a#b", false),
            ("a/b", false),
            ("a b", false),
            ("tab\t", false),
            ("é", false),
        ] {
            assert_eq!(UserId::parse(text).is_ok(), fits, "{text:?}");
        }
    }
}
