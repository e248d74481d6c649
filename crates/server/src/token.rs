//! Bearer tokens. A signature with a secret is checked as fast as a remembered one would be found, so nothing is remembered.

use crate::problem::Problem;
use guerdon_core::identity::{Identity, Role};
use guerdon_core::{Code, Timestamp, UserId};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use std::sync::Arc;

/// A longer token is refused unread.
const TOKEN_BYTES_MAX: usize = 8 * 1024;

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
        Self { keys: Keys::Secret(Box::new(key)), validation }
    }

    pub(crate) fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<Identity>, Problem> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(invalid("the token is longer than 8 KiB"));
        }
        let Keys::Secret(key) = &self.keys;
        let read = jsonwebtoken::decode::<Claims>(token, key, &self.validation);
        let claims = read.map_err(|error| invalid(&refusal(&error)))?.claims;
        if now >= numeric_date(claims.exp) {
            return Err(Problem::new(Code::TokenExpired, "ask for a new token"));
        }
        if claims.nbf.is_some_and(|not_before| now < numeric_date(not_before)) {
            return Err(invalid("the token is not valid yet"));
        }
        let user_id = UserId::parse(claims.sub).map_err(|reason| invalid(&format!("sub {reason}")))?;
        let roles = match claims.roles {
            None => vec![Role::User],
            Some(names) => names.iter().filter_map(|name| Role::parse(name)).collect(),
        };
        Ok(Arc::new(Identity { user_id, name: claims.name, roles }))
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
