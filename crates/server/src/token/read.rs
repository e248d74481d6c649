//! Reads a token: its head, its signature, its claims, in this order, so that nothing of a forged one is believed.
//!
//! The first part of a token names the algorithm and the key, and an issuer puts the same one before all of its tokens; so what
//! it says is read once and found again by its text. That, and looking for an audience only where one is expected, is half of
//! what it takes to check a token that is signed with a secret.

use super::keys::Key;
use super::{AuthOptions, Times, invalid, numeric_date};
use crate::problem::Problem;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use guerdon_core::identity::{Identity, Role};
use guerdon_core::{Timestamp, UserId};
use hmac::{Hmac, KeyInit, Mac};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Header, crypto, decode_header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::Sha256;
use std::sync::{Arc, PoisonError, RwLock};

/// Issuers have a few keys at a time.
const HEADS_KEPT: usize = 16;

const UNREADABLE: &str = "it is not a JSON web token that can be read";
const UNREADABLE_JSON: &str = "its header or its claims cannot be read: a known algorithm, sub and exp are needed, and each claim in its own type";

/// What a token says of how it was signed.
pub(super) struct Head {
    pub(super) algorithm: Algorithm,
    pub(super) kid: Option<Box<str>>,
    /// It asks to be understood in a way that is beyond us.
    critical: bool,
}

impl From<Header> for Head {
    fn from(header: Header) -> Self {
        let critical = header.crit.is_some();
        Self { algorithm: header.alg, kid: header.kid.map(Into::into), critical }
    }
}

/// Heads of tokens that were good.
#[derive(Default)]
pub(super) struct Heads(RwLock<Vec<(Box<str>, Arc<Head>)>>);

impl Heads {
    fn find(&self, text: &str) -> Option<Arc<Head>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(known, _)| **known == *text).map(|(_, head)| Arc::clone(head))
    }

    fn keep(&self, text: &str, head: &Arc<Head>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < HEADS_KEPT && known.iter().all(|(known, _)| **known != *text) {
            known.push((text.into(), Arc::clone(head)));
        }
    }
}

/// The parts of a token, of which the head was read.
pub(super) struct Parts<'t> {
    pub(super) head: Arc<Head>,
    /// The head's text, where it was not known.
    unknown: Option<&'t str>,
    /// What the signature is for: the head and the claims.
    message: &'t str,
    claims: &'t str,
    signature: &'t str,
}

impl<'t> Parts<'t> {
    pub(super) fn of(token: &'t str, heads: &Heads) -> Result<Self, Problem> {
        let split = || {
            let (message, signature) = token.rsplit_once('.')?;
            let (head, claims) = message.split_once('.')?;
            Some((head, message, claims, signature))
        };
        let (text, message, claims, signature) = split().ok_or_else(|| invalid(UNREADABLE))?;
        if let Some(head) = heads.find(text) {
            return Ok(Self { head, unknown: None, message, claims, signature });
        }
        let header = decode_header(token).map_err(|error| invalid(&refusal(&error)))?;
        Ok(Self { head: Arc::new(header.into()), unknown: Some(text), message, claims, signature })
    }
}

/// What every token is read by.
pub(super) struct Rules {
    pub(super) heads: Heads,
    expected: Expected,
}

impl Rules {
    pub(super) fn by(options: &AuthOptions) -> Self {
        let expected = Expected { audience: options.audience.clone(), issuer: options.issuer.clone() };
        Self { heads: Heads::default(), expected }
    }
}

/// Whom a token has to be for, and from, where that is set.
struct Expected {
    audience: Option<String>,
    issuer: Option<String>,
}

impl Expected {
    fn check(&self, claims: &[u8]) -> Result<(), Problem> {
        if self.audience.is_none() && self.issuer.is_none() {
            return Ok(());
        }
        let Addressed { aud, iss } = parse(claims)?;
        let checked = [
            (&self.audience, aud, "aud", "the token is for another audience"),
            (&self.issuer, iss, "iss", "the token is from another issuer"),
        ];
        for (expected, said, claim, another) in checked {
            let Some(expected) = expected else { continue };
            let said = said.ok_or_else(|| invalid(&format!("the claim {claim} is missing")))?;
            if !said.names(expected) {
                return Err(invalid(another));
            }
        }
        Ok(())
    }
}

/// What a token says. `roles` is `["USER"]` unless given; roles that we do not know mean nothing.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    name: Option<String>,
    roles: Option<Vec<String>>,
    /// Seconds since the epoch; may have a fraction.
    exp: f64,
    nbf: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Addressed {
    aud: Option<Names>,
    iss: Option<Names>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Names {
    One(String),
    Many(Vec<String>),
}

impl Names {
    fn names(&self, wanted: &str) -> bool {
        match self {
            Self::One(name) => name == wanted,
            Self::Many(names) => names.iter().any(|name| name == wanted),
        }
    }
}

pub(super) type Read = (Arc<Identity>, Times);

/// What a signature is compared with.
pub(super) trait Signed {
    /// Only this algorithm: a token that names another, or none, is refused whatever it is signed with.
    fn algorithm(&self) -> Algorithm;

    fn has_signed(&self, message: &str, signature: &str) -> jsonwebtoken::errors::Result<bool>;
}

/// The secret of HS256 tokens. What it adds to every signature is worked out once.
pub(super) struct Secret(Hmac<Sha256>);

impl Secret {
    pub(super) fn new(secret: &str) -> Self {
        Self(Hmac::new_from_slice(secret.as_bytes()).expect("a key of any length will do"))
    }
}

impl Signed for Secret {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }

    fn has_signed(&self, message: &str, signature: &str) -> jsonwebtoken::errors::Result<bool> {
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).map_err(ErrorKind::Base64)?;
        Ok(self.0.clone().chain_update(message).verify_slice(&signature).is_ok())
    }
}

impl Signed for Key {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    fn has_signed(&self, message: &str, signature: &str) -> jsonwebtoken::errors::Result<bool> {
        crypto::verify(signature, message.as_bytes(), &self.decoding, self.algorithm)
    }
}

pub(super) fn read(
    parts: &Parts<'_>,
    key: &impl Signed,
    Rules { heads, expected }: &Rules,
    now: Timestamp,
) -> Result<Read, Problem> {
    if parts.head.algorithm != key.algorithm() {
        return Err(invalid("the algorithm is not accepted"));
    }
    let signed = key.has_signed(parts.message, parts.signature);
    if !signed.map_err(|error| invalid(&refusal(&error)))? {
        return Err(invalid("the signature does not match"));
    }
    if let Some(text) = parts.unknown {
        heads.keep(text, &parts.head);
    }
    if parts.head.critical {
        return Err(invalid("it has to be understood in a way that this server does not know (crit)"));
    }
    let text = BASE64_URL_SAFE_NO_PAD.decode(parts.claims).map_err(|_| invalid(UNREADABLE))?;
    let claims: Claims = parse(&text)?;
    expected.check(&text)?;
    let times = Times { expires_at: numeric_date(claims.exp), not_before: claims.nbf.map(numeric_date) };
    times.check(now)?;
    let user_id = UserId::parse(claims.sub).map_err(|reason| invalid(&format!("sub {reason}")))?;
    let roles = match claims.roles {
        None => vec![Role::User],
        Some(names) => names.iter().filter_map(|name| Role::parse(name)).collect(),
    };
    Ok((Arc::new(Identity { user_id, name: claims.name, roles }), times))
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    // A struct would also be read from a list of its fields in order.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(invalid(UNREADABLE_JSON));
    }
    serde_json::from_slice(text).map_err(|_| invalid(UNREADABLE_JSON))
}

/// Says what is wrong without repeating any of the token.
fn refusal(error: &jsonwebtoken::errors::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidSignature => "the signature does not match".into(),
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => {
            "the algorithm is not accepted".into()
        }
        ErrorKind::Json(_) => UNREADABLE_JSON.into(),
        _ => UNREADABLE.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Algorithm, HEADS_KEPT, Parts, Rules, Secret, Timestamp, read};
    use crate::token::AuthOptions;
    use jsonwebtoken::{EncodingKey, Header, encode};
    use serde_json::{Value, json};

    const SECRET: &str = "a secret of tests that is long enough";
    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn token(header: &Header, claims: &Value, secret: &str) -> String {
        encode(header, claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
    }

    fn who(token: &str, rules: &Rules) -> Result<String, String> {
        let key = Secret::new(SECRET);
        let parts = Parts::of(token, &rules.heads);
        let read = parts.and_then(|parts| read(&parts, &key, rules, NOW));
        read.map(|(identity, _)| identity.user_id.to_string()).map_err(|problem| problem.detail)
    }

    #[test]
    fn audiences_and_issuers() {
        let rules = |audience: Option<&str>, issuer: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            Rules::by(&AuthOptions { secret: None, audience: own(audience), issuer: own(issuer) })
        };
        let ours = rules(Some("shop"), Some("login"));
        for (rules, aud, iss, refused) in [
            (&ours, json!("shop"), json!("login"), None),
            (&ours, json!(["bank", "shop"]), json!(["login"]), None),
            (&ours, json!("bank"), json!("login"), Some("another audience")),
            (&ours, json!([]), json!("login"), Some("another audience")),
            (&ours, json!("shop"), json!("elsewhere"), Some("another issuer")),
            (&ours, json!(null), json!("login"), Some("aud is missing")),
            (&ours, json!("shop"), json!(null), Some("iss is missing")),
            (&ours, json!(7), json!("login"), Some("cannot be read")),
            (&rules(None, Some("login")), json!(7), json!("login"), Some("cannot be read")),
            (&rules(None, None), json!(7), json!({"of": "no concern"}), None),
        ] {
            let mut claims = json!({"sub": "u-1", "exp": 2_000, "aud": aud, "iss": iss});
            claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            let told = who(&token(&Header::default(), &claims, SECRET), rules);
            match refused {
                None => assert_eq!(told.as_deref(), Ok("u-1"), "{claims}"),
                Some(reason) => assert!(told.as_ref().unwrap_err().contains(reason), "{claims}: {told:?}"),
            }
        }
    }

    #[test]
    fn a_head_that_is_known_vouches_for_nothing() {
        let rules = Rules::by(&AuthOptions::default());
        let claims = |sub: &str| json!({"sub": sub, "exp": 2_000});
        let header = Header::default();
        // Forged ones leave nothing behind.
        for number in 0..2 * HEADS_KEPT {
            let header = Header { kid: Some(number.to_string()), ..Header::default() };
            let told = who(&token(&header, &claims("u-1"), "another secret, as long as the other"), &rules);
            assert!(told.unwrap_err().contains("signature"));
        }
        assert_eq!(rules.heads.0.read().unwrap().len(), 0);
        assert_eq!(who(&token(&header, &claims("u-1"), SECRET), &rules).as_deref(), Ok("u-1"));
        assert_eq!(rules.heads.0.read().unwrap().len(), 1);
        // The next one with the same head is checked all the same.
        let forged = token(&header, &claims("u-2"), "another secret, as long as the other");
        assert!(who(&forged, &rules).unwrap_err().contains("signature"));
        let good = token(&header, &claims("u-3"), SECRET);
        assert_eq!(who(&good, &rules).as_deref(), Ok("u-3"));
        // Claims under another's signature, another algorithm under a good head, and parts too few or too many.
        let (message, _) = good.rsplit_once('.').unwrap();
        let (_, signature) = forged.rsplit_once('.').unwrap();
        for broken in
            [format!("{message}.{signature}"), message.to_owned(), format!("{good}.x"), String::new()]
        {
            assert!(who(&broken, &rules).is_err(), "{broken}");
        }
        // Claims are an object; a list of the same values in order says nothing.
        let listed = token(&header, &json!(["u-1", 2_000, null, null, null]), SECRET);
        assert!(who(&listed, &rules).unwrap_err().contains("cannot be read"));
        let other = Header { alg: Algorithm::HS384, ..Header::default() };
        assert!(who(&token(&other, &claims("u-4"), SECRET), &rules).unwrap_err().contains("algorithm"));
        // Heads that are good are kept up to a bound, and read anew beyond it.
        for number in 0..2 * HEADS_KEPT {
            let header = Header { kid: Some(number.to_string()), ..Header::default() };
            assert_eq!(who(&token(&header, &claims("u-5"), SECRET), &rules).as_deref(), Ok("u-5"));
        }
        assert_eq!(rules.heads.0.read().unwrap().len(), HEADS_KEPT);
    }
}
