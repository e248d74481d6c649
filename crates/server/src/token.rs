//! Bearer tokens. A signature with a secret is checked as fast as a remembered one would be found, so those are not remembered;
//! those of public keys are.

mod keys;
mod read;
mod remembered;

pub use keys::KeyTimes;
pub(crate) use keys::key_names;

use crate::problem::Problem;
use futures_util::future::BoxFuture;
use guerdon_core::identity::Identity;
use guerdon_core::{Code, Timestamp};
use jsonwebtoken::Algorithm;
use keys::{KeyRing, NoKey};
use prometheus_client::registry::Registry;
use read::{Parts, Read, Rules, Secret, read};
use remembered::{Known, Remembered};
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
}

pub struct Verifier {
    secret: Option<Secret>,
    public: Option<Public>,
    rules: Rules,
}

impl Verifier {
    /// Takes tokens that are signed with the secret, where there is one, and for public keys, where they come from somewhere.
    pub fn new(options: &AuthOptions, keys: Option<(FetchKeys, KeyTimes)>) -> Self {
        let secret = options.secret.as_deref().map(Secret::new);
        let public = keys.map(|(source, times)| Public {
            ring: KeyRing::new(times),
            source,
            remembered: Remembered::default(),
        });
        Self { secret, public, rules: Rules::by(options) }
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
        let parts = Parts::of(token, &self.rules.heads)?;
        match (&self.public, &self.secret) {
            (_, Some(secret)) if parts.head.algorithm == Algorithm::HS256 || self.public.is_none() => {
                read(&parts, secret, &self.rules, now)
            }
            (Some(public), _) => public.verify(token, &parts, &self.rules, now).await,
            (None, _) => Err(invalid("this server takes no tokens")),
        }
    }
}

impl Public {
    async fn verify(
        &self,
        token: &str,
        parts: &Parts<'_>,
        rules: &Rules,
        now: Timestamp,
    ) -> Result<Read, Problem> {
        let kid = parts.head.kid.as_deref();
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
        let (identity, times) = read(parts, &*key, rules, now)?;
        let known = Known { identity: Arc::clone(&identity), times, kid: kid.map(Into::into), key };
        self.remembered.keep(hash, known);
        Ok((identity, times))
    }
}

fn invalid(detail: &str) -> Problem {
    Problem::new(Code::TokenInvalid, detail)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the cast saturates, which is what an absurd date deserves"
)]
fn numeric_date(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1_000.0) as i64)
}
