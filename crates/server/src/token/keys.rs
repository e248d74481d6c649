//! Public keys that tokens are signed for, from a file or an address. Kept by their `kid`, fetched again on a schedule and when a
//! token names one that is not known, which strangers can do as often as they like: so not more often than every ten seconds.

use super::FetchKeys;
use guerdon_engine::Stopwatch;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The least between two fetches.
const COOL_DOWN: Duration = Duration::from_secs(10);
/// How long a caller with an unknown key waits for it to be fetched.
const PATIENCE: Duration = Duration::from_secs(3);
/// How soon a fetch that failed is tried again.
const RETRY: Duration = Duration::from_secs(15);
const KEYS_MAX: usize = 100;
/// Shorter ones can be factored by those who have the means.
const RSA_BYTES_MIN: usize = 256;

/// A key, and the one algorithm that it is for: what a token says of its algorithm is compared with this, never believed.
pub(super) struct Key {
    pub(super) algorithm: Algorithm,
    pub(super) decoding: DecodingKey,
    /// As it was published, to tell whether a key of the same name is still the same.
    published: Jwk,
}

impl Key {
    /// None where it is not one that a token may be signed for.
    fn of(published: Jwk) -> Option<Self> {
        let for_signatures = matches!(published.common.public_key_use, None | Some(PublicKeyUse::Signature));
        let algorithm = match &published.algorithm {
            AlgorithmParameters::RSA(rsa) if decoded_len(&rsa.n) >= RSA_BYTES_MIN => Algorithm::RS256,
            AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => Algorithm::ES256,
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => Algorithm::EdDSA,
            // A secret among public keys would let everybody sign who can read them.
            _ => return None,
        };
        let stated = match published.common.key_algorithm {
            None => Some(algorithm),
            Some(KeyAlgorithm::RS256) => Some(Algorithm::RS256),
            Some(KeyAlgorithm::ES256) => Some(Algorithm::ES256),
            Some(KeyAlgorithm::EdDSA) => Some(Algorithm::EdDSA),
            Some(_) => None,
        };
        if !for_signatures || stated != Some(algorithm) {
            return None;
        }
        let decoding = DecodingKey::from_jwk(&published).ok()?;
        Some(Self { algorithm, decoding, published })
    }
}

/// How many bytes a text in base64url stands for.
fn decoded_len(text: &str) -> usize {
    text.len() * 3 / 4
}

#[derive(Clone, Default)]
struct KeySet {
    by_kid: HashMap<Box<str>, Arc<Key>>,
    /// The only key there is, if it has no name.
    nameless: Option<Arc<Key>>,
    /// Since when this is known to be so.
    fetched: Option<Stopwatch>,
}

impl KeySet {
    /// Reads a set as RFC 7517 has it. What is of no use to us is passed over.
    fn parse(text: &[u8], before: &Self) -> Result<Self, String> {
        let mut published: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(text).map_err(|_| "it is no JSON object".to_owned())?;
        let Some(serde_json::Value::Array(keys)) = published.remove("keys") else {
            return Err("it has no list of keys".to_owned());
        };
        if keys.len() > KEYS_MAX {
            return Err(format!("it has more than {KEYS_MAX} keys"));
        }
        let mut set = Self { fetched: Some(Stopwatch::start()), ..Self::default() };
        let (only, mut doubled) = (keys.len() == 1, Vec::new());
        for value in keys {
            let Some(key) = serde_json::from_value::<Jwk>(value).ok().and_then(Key::of) else { continue };
            match key.published.common.key_id.clone() {
                Some(kid) => {
                    let known =
                        before.by_kid.get(kid.as_str()).filter(|known| known.published == key.published);
                    let key = known.map_or_else(|| Arc::new(key), Arc::clone);
                    // Two of one name: neither can be meant.
                    if set.by_kid.insert(kid.as_str().into(), key).is_some() {
                        doubled.push(kid);
                    }
                }
                None if only => {
                    let known = before.nameless.as_ref().filter(|known| known.published == key.published);
                    set.nameless = Some(known.map_or_else(|| Arc::new(key), Arc::clone));
                }
                None => {}
            }
        }
        for kid in doubled {
            set.by_kid.remove(kid.as_str());
        }
        // A set without any is a set all the same: whoever withdraws all keys means it.
        if set.by_kid.is_empty() && set.nameless.is_none() {
            tracing::error!(
                "there is no key for RS256, ES256 or EdDSA any more that tokens could name: nobody is let in"
            );
        }
        Ok(set)
    }

    fn find(&self, kid: Option<&str>) -> Option<Arc<Key>> {
        match kid {
            Some(kid) => self.by_kid.get(kid).cloned(),
            None => self.nameless.clone(),
        }
    }
}

/// The keys of a set that tokens can name, each with its algorithm, in order.
pub(crate) fn key_names(text: &[u8]) -> Result<Vec<(Option<String>, String)>, String> {
    let set = KeySet::parse(text, &KeySet::default())?;
    let by_kid = set.by_kid.iter().map(|(kid, key)| (Some(kid.to_string()), key));
    let keys = by_kid.chain(set.nameless.iter().map(|key| (None, key)));
    let mut names: Vec<_> = keys.map(|(kid, key)| (kid, format!("{:?}", key.algorithm))).collect();
    names.sort();
    Ok(names)
}

/// Why there is no key for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoKey {
    /// The source does not have it.
    Unknown,
    /// The source could not be asked for too long.
    Stale,
}

/// How often keys are fetched, and how long they count while they cannot be.
#[derive(Clone, Copy, Debug)]
pub struct KeyTimes {
    pub refresh: Duration,
    pub stale: Duration,
}

/// The keys in force.
pub(super) struct KeyRing {
    set: RwLock<Arc<KeySet>>,
    times: KeyTimes,
    wanted: Notify,
    /// When the source was last asked.
    asked: Mutex<Option<Stopwatch>>,
    /// Whether the source gave no answer that can be used the last time.
    failing: AtomicBool,
    /// Counts the answers of the source.
    answers: watch::Sender<u64>,
    count: Gauge,
}

impl KeyRing {
    pub(super) fn new(times: KeyTimes) -> Self {
        Self {
            set: RwLock::default(),
            times,
            wanted: Notify::new(),
            asked: Mutex::default(),
            failing: AtomicBool::new(false),
            answers: watch::Sender::new(0),
            count: Gauge::default(),
        }
    }

    /// How many keys there are, for the metrics.
    pub(super) fn gauge(&self) -> Gauge {
        self.count.clone()
    }

    fn set(&self) -> Arc<KeySet> {
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn known(&self, kid: Option<&str>) -> Result<Arc<Key>, NoKey> {
        let set = self.set();
        let fresh = set.fetched.is_some_and(|fetched| fetched.elapsed() < self.times.stale);
        if fresh { set.find(kid).ok_or(NoKey::Unknown) } else { Err(NoKey::Stale) }
    }

    /// The key of this name; one that is not known is asked for, if that was not done just now.
    pub(super) async fn find(&self, kid: Option<&str>) -> Result<Arc<Key>, NoKey> {
        let missing = match self.known(kid) {
            Ok(key) => return Ok(key),
            Err(missing) => missing,
        };
        let mut answers = self.answers.subscribe();
        answers.mark_unchanged();
        let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is under way will be answered soon; one that was answered just now would say the same again.
        if asked.is_some_and(|asked| asked.elapsed() < COOL_DOWN) && !self.is_asking() {
            return self.unless_failing(self.known(kid).or(Err(missing)));
        }
        self.wanted.notify_one();
        let answered = tokio::time::timeout(PATIENCE, answers.changed()).await.is_ok();
        let known = self.known(kid);
        if answered { self.unless_failing(known) } else { known.map_err(|_| NoKey::Stale) }
    }

    /// A key that the source could not be asked about is not one that it does not have.
    fn unless_failing(&self, known: Result<Arc<Key>, NoKey>) -> Result<Arc<Key>, NoKey> {
        let failing = self.failing.load(Ordering::Relaxed);
        known.map_err(|missing| if failing { NoKey::Stale } else { missing })
    }

    /// Whether this is still the key of that name.
    pub(super) fn still_has(&self, kid: Option<&str>, key: &Arc<Key>) -> bool {
        self.known(kid).is_ok_and(|now| Arc::ptr_eq(&now, key))
    }

    fn is_asking(&self) -> bool {
        // Even while nobody asks: see `fetch`.
        *self.answers.borrow() % 2 == 1
    }

    /// Asks the source once.
    pub(super) async fn fetch(&self, source: &FetchKeys) -> Result<(), String> {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Stopwatch::start());
        self.answers.send_if_modified(|count| {
            *count += 1;
            // Nobody waits for a question.
            false
        });
        let fetched = source().await.and_then(|text| KeySet::parse(&text, &self.set()));
        let outcome = fetched.map(|set| {
            self.count
                .set(i64::try_from(set.by_kid.len() + usize::from(set.nameless.is_some())).unwrap_or(0));
            *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        });
        self.failing.store(outcome.is_err(), Ordering::Relaxed);
        self.answers.send_modify(|count| *count += 1);
        outcome
    }

    /// Keeps the keys up to date, for as long as the server runs.
    pub(super) async fn follow(&self, source: FetchKeys) {
        let mut pause = if self.set().fetched.is_some() { self.times.refresh } else { RETRY };
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.wanted.notified() => {}
            }
            let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if asked.is_some_and(|asked| asked.elapsed() < COOL_DOWN) {
                continue;
            }
            pause = match self.fetch(&source).await {
                Ok(()) => self.times.refresh,
                Err(reason) => {
                    tracing::warn!(
                        reason,
                        "the keys of tokens could not be fetched; those that are known count for a while"
                    );
                    RETRY.min(self.times.refresh)
                }
            };
        }
    }
}

#[cfg(test)]
mod tests;
