//! Bearer tokens: verified once, then remembered by their hash for as long as they are valid.

use crate::problem::Problem;
use guerdon_core::identity::{Identity, Role};
use guerdon_core::{Code, Timestamp, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use quick_cache::sync::Cache;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// A longer token is refused unread.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
const TOKENS_REMEMBERED: usize = 50_000;

#[derive(Clone, Debug, Default)]
pub struct AuthOptions {
    pub secret: String,
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

/// Where the key of a token comes from. A set of public keys by `kid` will be another variant.
enum Keys {
    Secret(Box<DecodingKey>),
}

pub struct Verifier {
    keys: Keys,
    validation: Validation,
    remembered: Cache<[u8; 32], Arc<Verified>>,
}

/// A token whose signature was found good. Its times are looked at on every use.
#[derive(Debug)]
struct Verified {
    identity: Arc<Identity>,
    expires_at: Timestamp,
    not_before: Option<Timestamp>,
}

impl Verifier {
    pub fn new(options: &AuthOptions) -> Self {
        // Only this algorithm: a token that names another, or none, is refused whatever it is signed with.
        let mut validation = Validation::new(Algorithm::HS256);
        // Times are judged by the server's clock, below.
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
        let key = DecodingKey::from_secret(options.secret.as_bytes());
        Self { keys: Keys::Secret(Box::new(key)), validation, remembered: Cache::new(TOKENS_REMEMBERED) }
    }

    pub(crate) fn remembered(&self) -> usize {
        self.remembered.len()
    }

    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<Identity>, Problem> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(invalid("the token is longer than 8 KiB"));
        }
        let hash: [u8; 32] = Sha256::digest(token).into();
        let verified = match self.remembered.get(&hash) {
            Some(verified) => verified,
            None => {
                let verified = Arc::new(self.read(token)?);
                self.remembered.insert(hash, Arc::clone(&verified));
                verified
            }
        };
        if now >= verified.expires_at {
            self.remembered.remove(&hash);
            return Err(Problem::new(Code::TokenExpired, "ask for a new token"));
        }
        if verified.not_before.is_some_and(|not_before| now < not_before) {
            return Err(invalid("the token is not valid yet"));
        }
        Ok(Arc::clone(&verified.identity))
    }

    fn read(&self, token: &str) -> Result<Verified, Problem> {
        let Keys::Secret(key) = &self.keys;
        let read = jsonwebtoken::decode::<Claims>(token, key, &self.validation);
        let claims = read.map_err(|error| invalid(&refusal(&error)))?.claims;
        let user_id = UserId::parse(claims.sub).map_err(|reason| invalid(&format!("sub {reason}")))?;
        let roles = match claims.roles {
            None => vec![Role::User],
            Some(names) => names.iter().filter_map(|name| Role::parse(name)).collect(),
        };
        Ok(Verified {
            identity: Arc::new(Identity { user_id, name: claims.name, roles }),
            expires_at: numeric_date(claims.exp),
            not_before: claims.nbf.map(numeric_date),
        })
    }
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
        ErrorKind::Json(_) => "its header or its claims cannot be read: HS256, sub and exp are needed, and each claim in its own type".into(),
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
