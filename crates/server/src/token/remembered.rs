//! Tokens that were found good. Only those of public keys, whose signatures take a hundred times as long to check as a look-up.

use super::Times;
use super::keys::Key;
use guerdon_core::identity::Identity;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};

/// How many are remembered in each part, before the older half is forgotten.
const YOUNG_MAX: usize = 4_096;
const PARTS: usize = 16;

/// The hash of a whole token, its signature included.
pub(super) type TokenHash = [u8; 32];

#[derive(Clone)]
pub(super) struct Known {
    pub(super) identity: Arc<Identity>,
    pub(super) times: Times,
    pub(super) kid: Option<Box<str>>,
    pub(super) key: Arc<Key>,
}

#[derive(Default)]
struct Part {
    young: HashMap<TokenHash, Known>,
    old: HashMap<TokenHash, Known>,
}

#[derive(Default)]
pub(super) struct Remembered {
    parts: [Mutex<Part>; PARTS],
    hasher: RandomState,
}

impl Remembered {
    fn part(&self, hash: &TokenHash) -> &Mutex<Part> {
        // The caller chooses the token, not this hash.
        let place = self.hasher.hash_one(hash) % PARTS as u64;
        &self.parts[usize::try_from(place).unwrap_or(0)]
    }

    pub(super) fn find(&self, hash: &TokenHash) -> Option<Known> {
        let part = self.part(hash).lock().unwrap_or_else(PoisonError::into_inner);
        part.young.get(hash).or_else(|| part.old.get(hash)).cloned()
    }

    pub(super) fn keep(&self, hash: TokenHash, known: Known) {
        let mut part = self.part(&hash).lock().unwrap_or_else(PoisonError::into_inner);
        if part.young.len() >= YOUNG_MAX {
            part.old = std::mem::take(&mut part.young);
        }
        part.young.insert(hash, known);
    }

    pub(super) fn forget(&self, hash: &TokenHash) {
        let mut part = self.part(hash).lock().unwrap_or_else(PoisonError::into_inner);
        part.young.remove(hash);
        part.old.remove(hash);
    }
}
