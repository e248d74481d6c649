//! Bearer tokens. A signature with a secret is checked as fast as a remembered one would be found, so those are not remembered;
//! those of public keys are.

mod keys;
mod remembered;

pub use keys::KeyTimes;
pub(crate) use keys::key_names;

use crate::problem::Problem;
use futures_util::future::BoxFuture;
use guerdon_core::identity::{Identity, Role};
use guerdon_core::{Code, Timestamp, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use keys::{KeyRing, NoKey};
use prometheus_client::registry::Registry;
use remembered::{Known, Remembered};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A longer token is refused unread.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// Brings the text of a set of public keys, or says why not.
pub type FetchKeys = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<u8>, String>> + Send + Sync>;

#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    /// Of HS256 tokens, where there are any.
    pub secret: Option<String>,
    /// Checked where set.
    pub issuer: Option<String>,
    pub audience: Option<String>,
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

/// When a token is good.
#[derive(Clone, Copy, Debug)]
struct Times {
    expires_at: Timestamp,
    not_before: Option<Timestamp>,
}

impl Times {
    fn check(self, now: Timestamp) -> Result<(), Problem> {
        if now >= self.expires_at {
            return Err(Problem::new(Code::TokenExpired, "ask for a new token"));
        }
        if self.not_before.is_some_and(|not_before| now < not_before) {
            return Err(invalid("the token is not valid yet"));
        }
        Ok(())
    }
}

/// Public keys, and where they come from.
struct Public {
    ring: KeyRing,
    source: FetchKeys,
    remembered: Remembered,
    /// For each algorithm that a key can be for.
    validations: [Validation; 3],
}

pub struct Verifier {
    secret: Option<(DecodingKey, Validation)>,
    public: Option<Public>,
}

impl Verifier {
    /// Takes tokens that are signed with the secret, where there is one, and for public keys, where they come from somewhere.
    pub fn new(options: &AuthOptions, keys: Option<(FetchKeys, KeyTimes)>) -> Self {
        let secret = options.secret.as_ref().map(|secret| {
            (DecodingKey::from_secret(secret.as_bytes()), validation(options, Algorithm::HS256))
        });
        let public = keys.map(|(source, times)| Public {
            ring: KeyRing::new(times),
            source,
            remembered: Remembered::default(),
            validations: [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA]
                .map(|algorithm| validation(options, algorithm)),
        });
        Self { secret, public }
    }

    pub fn register(&self, registry: &mut Registry) {
        if let Some(public) = &self.public {
            let auth = registry.sub_registry_with_prefix("guerdon_auth");
            auth.register("keys", "Public keys that tokens can be signed for", public.ring.gauge());
        }
    }

    /// Fetches the public keys for the first time, if there are any.
    pub async fn fetch_keys(&self) -> Result<(), String> {
        match &self.public {
            Some(public) => public.ring.fetch(&public.source).await,
            None => Ok(()),
        }
    }

    /// Keeps the public keys up to date; never ends.
    pub async fn follow_keys(&self) {
        match &self.public {
            Some(public) => public.ring.follow(Arc::clone(&public.source)).await,
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<Identity>, Problem> {
        self.check(token, now).await.map(|(identity, _)| identity)
    }

    /// Whose token it is, and when it expires.
    pub(crate) async fn read(
        &self,
        token: &str,
        now: Timestamp,
    ) -> Result<(Arc<Identity>, Timestamp), Problem> {
        self.check(token, now).await.map(|(identity, times)| (identity, times.expires_at))
    }

    async fn check(&self, token: &str, now: Timestamp) -> Result<Read, Problem> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(invalid("the token is longer than 8 KiB"));
        }
        match (&self.public, &self.secret) {
            (Some(public), secret) => {
                let header = jsonwebtoken::decode_header(token).map_err(|error| invalid(&refusal(&error)))?;
                match (header.alg, secret) {
                    (Algorithm::HS256, Some((key, validation))) => read(token, key, validation, now),
                    _ => public.verify(token, header.kid.as_deref(), now).await,
                }
            }
            (None, Some((key, validation))) => read(token, key, validation, now),
            (None, None) => Err(invalid("this server takes no tokens")),
        }
    }
}

impl Public {
    async fn verify(&self, token: &str, kid: Option<&str>, now: Timestamp) -> Result<Read, Problem> {
        let hash = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.remembered.find(&hash) {
            if self.ring.still_has(known.kid.as_deref(), &known.key) && known.times.check(now).is_ok() {
                return Ok((known.identity, known.times));
            }
            self.remembered.forget(&hash);
        }
        let key = self.ring.find(kid).await.map_err(|missing| match missing {
            NoKey::Unknown => invalid("it is signed for a key that is not known"),
            NoKey::Stale => Problem::new(
                Code::KeysUnavailable,
                "the keys that tokens are checked with cannot be fetched just now; try again",
            ),
        })?;
        let validation =
            self.validations.iter().find(|validation| validation.algorithms.contains(&key.algorithm));
        let validation = validation.ok_or_else(|| invalid("the algorithm is not accepted"))?;
        let (identity, times) = read(token, &key.decoding, validation, now)?;
        let known = Known { identity: Arc::clone(&identity), times, kid: kid.map(Into::into), key };
        self.remembered.keep(hash, known);
        Ok((identity, times))
    }
}

/// Only this algorithm: a token that names another, or none, is refused whatever it is signed with.
fn validation(options: &AuthOptions, algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    // Times are judged by the server's clock.
    validation.validate_exp = false;
    validation.validate_nbf = false;
    // `exp` and `sub` are required by the shape of the claims.
    validation.required_spec_claims.clear();
    match &options.audience {
        Some(audience) => validation.set_audience(&[audience]),
        None => validation.validate_aud = false,
    }
    if let Some(issuer) = &options.issuer {
        validation.set_issuer(&[issuer]);
    }
    for (claim, checked) in [("aud", options.audience.is_some()), ("iss", options.issuer.is_some())] {
        if checked {
            validation.required_spec_claims.insert(claim.into());
        }
    }
    validation
}

type Read = (Arc<Identity>, Times);

fn read(token: &str, key: &DecodingKey, validation: &Validation, now: Timestamp) -> Result<Read, Problem> {
    let read = jsonwebtoken::decode::<Claims>(token, key, validation);
    let read = read.map_err(|error| invalid(&refusal(&error)))?;
    if read.header.crit.is_some() {
        return Err(invalid("it has to be understood in a way that this server does not know (crit)"));
    }
    let claims = read.claims;
    let times = Times { expires_at: numeric_date(claims.exp), not_before: claims.nbf.map(numeric_date) };
    times.check(now)?;
    let user_id = UserId::parse(claims.sub).map_err(|reason| invalid(&format!("sub {reason}")))?;
    let roles = match claims.roles {
        None => vec![Role::User],
        Some(names) => names.iter().filter_map(|name| Role::parse(name)).collect(),
    };
    Ok((Arc::new(Identity { user_id, name: claims.name, roles }), times))
}

fn invalid(detail: &str) -> Problem {
    Problem::new(Code::TokenInvalid, detail)
}

/// Says what is wrong without repeating any of the token.
fn refusal(error: &jsonwebtoken::errors::Error) -> String {
    use jsonwebtoken::errors::ErrorKind;
    match error.kind() {
        ErrorKind::InvalidSignature => "the signature does not match".into(),
        ErrorKind::InvalidAudience => "the token is for another audience".into(),
        ErrorKind::InvalidIssuer => "the token is from another issuer".into(),
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidAlgorithmName => {
            "the algorithm is not accepted".into()
        }
        ErrorKind::MissingRequiredClaim(claim) => format!("the claim {claim} is missing"),
        ErrorKind::Json(_) => "its header or its claims cannot be read: a known algorithm, sub and exp are needed, and each claim in its own type".into(),
        _ => "it is not a JSON web token that can be read".into(),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, which is what an absurd date deserves"
)]
fn numeric_date(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1_000.0) as i64)
}
