//! Tokens: only what was signed with the secret is believed, as long as it lasts.

use crate::{lines, says_why};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use guerdon_core::Timestamp;
use guerdon_server::{AuthOptions, Verifier, untrusted};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use std::sync::LazyLock;

const SECRET: &str = "a secret of the fuzz targets, long enough";
const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn verifier(secret: &str) -> Verifier {
    Verifier::new(&AuthOptions { secret: Some(secret.into()), ..AuthOptions::default() }, None)
}

static OURS: LazyLock<Verifier> = LazyLock::new(|| verifier(SECRET));
static ANOTHER: LazyLock<Verifier> = LazyLock::new(|| verifier("another secret, just as long as the other"));

fn signature(signed: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(signed.as_bytes());
    URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
}

pub(crate) fn hold(data: &[u8]) {
    let Some([header, claims, raw]) = lines(data) else { return };
    match untrusted::token(&OURS, raw, NOW) {
        Ok(_) => {
            let (signed, given) = raw.rsplit_once('.').unwrap();
            assert_eq!(given, signature(signed), "nobody signed {raw}");
        }
        Err(reason) => refused(&reason, raw),
    }
    let signed = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
    let token = format!("{signed}.{}", signature(&signed));
    let identity = match untrusted::token(&OURS, &token, NOW) {
        Ok(identity) => identity,
        Err(reason) => return refused(&reason, &token),
    };
    let (header, claims): (Value, Value) =
        (serde_json::from_str(header).unwrap(), serde_json::from_str(claims).unwrap());
    assert_eq!(header["alg"], "HS256");
    assert_eq!(claims["sub"], identity.user_id.as_str());
    assert!(claims["exp"].as_f64().unwrap() * 1_000.0 > 1_800_000_000_000.0, "it is over");
    assert!(claims["name"].as_str() == identity.name.as_deref());
    for role in &identity.roles {
        let stated = claims["roles"].as_array().is_none_or(|roles| roles.contains(&role.as_str().into()));
        assert!(stated, "{role:?} came from nowhere");
    }
    assert!(untrusted::token(&OURS, &token, Timestamp::from_millis(i64::MAX)).is_err(), "none is for ever");
    assert!(untrusted::token(&ANOTHER, &token, NOW).is_err(), "another secret");
    let other = URL_SAFE_NO_PAD.encode(claims.to_string().replace(identity.user_id.as_str(), "somebody"));
    let (head, _) = signed.split_once('.').unwrap();
    let forged = format!("{head}.{other}.{}", signature(&signed));
    assert!(forged == token || untrusted::token(&OURS, &forged, NOW).is_err(), "other claims");
}

/// Why, and nothing of the token.
fn refused(reason: &str, token: &str) {
    says_why(reason);
    for part in token.split('.').filter(|part| part.len() > 24) {
        assert!(!reason.contains(part), "{reason}");
    }
}
