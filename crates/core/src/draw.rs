//! The verifiable draw: a commitment before people enter, a tree over those who did, and winners that follow from both.
//!
//! `docs/verifiable-draw.md` has every byte of this; a verifier in another language is written from there.

pub mod document;
pub mod progress;
pub mod tree;

#[cfg(test)]
mod tests;

pub use crate::hash::Hash;
pub use document::{Check, Document, Proof, verify, verify_proof};
pub use progress::{Draw, DrawState, DrawView, terms};
pub use tree::{CHUNK_LEAVES, Tree, leads_to, path, path_over_chunks, root_of};

use crate::hash::Bytes;
use crate::id::{EventId, UserId};
use crate::time::Timestamp;
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use std::collections::HashMap;
use std::fmt;

/// 32 bytes that nobody may see yet.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// What is stored, and in the end revealed.
    pub const fn reveal(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// What a lottery is bound to before it opens.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub event_id: &'a str,
    pub capacity_total: u64,
    pub cutoff: Timestamp,
    /// Where the public nonce will come from; empty without one.
    pub nonce_source: &'a str,
}

const NONCE_CHARACTERS_MAX: usize = 512;

/// A public nonce is one line of text: whoever verifies types it from its source.
pub fn check_nonce(nonce: String) -> Result<String, String> {
    let characters = nonce.chars().count();
    if characters == 0 || characters > NONCE_CHARACTERS_MAX || nonce.chars().any(char::is_control) {
        return Err(format!("must be one line of 1 to {NONCE_CHARACTERS_MAX} characters"));
    }
    Ok(nonce)
}

/// Binds the seed and the terms, and tells nothing about the seed.
pub fn commitment(seed: &[u8; 32], terms: Terms<'_>) -> Hash {
    Bytes::new()
        .text("guerdon.draw.commitment.v1")
        .raw(seed)
        .text(terms.event_id)
        .number(terms.capacity_total)
        .number(u64::try_from(terms.cutoff.as_millis()).unwrap_or(0))
        .text(terms.nonce_source)
        .hash()
}

/// What keeps a leaf from telling who stands behind it. The key is never revealed.
pub fn salt(key: &Secret, position: u64) -> Hash {
    Bytes::new().text("guerdon.draw.salt.v1").raw(key.reveal()).number(position).hash()
}

/// An entry as the tree has it.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub event_id: &'a EventId,
    /// In line, from 1.
    pub position: u64,
    pub request_id: &'a str,
    pub user_id: &'a UserId,
}

pub fn leaf(entry: Entry<'_>, salt: &Hash) -> Hash {
    leaf_of(entry.event_id.as_str(), entry.position, entry.request_id, entry.user_id.as_str(), salt)
}

fn leaf_of(event_id: &str, position: u64, request_id: &str, user_id: &str, salt: &Hash) -> Hash {
    Bytes::new()
        .byte(0)
        .text("guerdon.draw.leaf.v1")
        .text(event_id)
        .number(position)
        .text(request_id)
        .text(user_id)
        .raw(salt.as_bytes())
        .hash()
}

/// The winners' positions in the order in which they are drawn: as many as there are places, or all who entered.
pub fn winners(seed: &[u8; 32], root: &Hash, public_nonce: &str, entries: u64, capacity: u64) -> Vec<u64> {
    let key = Bytes::new().raw(seed).raw(root.as_bytes()).raw(public_nonce.as_bytes()).hash();
    let mut stream = Stream::new(key.as_bytes());
    let count = entries.min(capacity);
    // The first steps of a Fisher–Yates shuffle of 1 … n; only what was moved is kept.
    let mut moved: HashMap<u64, u64> = HashMap::new();
    let mut winners = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    for step in 0..count {
        let chosen = step + stream.below(entries - step);
        let at = |place: u64, moved: &HashMap<u64, u64>| moved.get(&place).copied().unwrap_or(place + 1);
        winners.push(at(chosen, &moved));
        let displaced = at(step, &moved);
        moved.insert(chosen, displaced);
    }
    winners
}

/// `ChaCha20` (RFC 8439), nonce zero, from block 0: its key stream as 64-bit numbers, least byte first.
struct Stream {
    cipher: ChaCha20,
    block: [u8; 64],
    used: usize,
}

impl Stream {
    fn new(key: &[u8; 32]) -> Self {
        Self { cipher: ChaCha20::new(key.into(), &[0; 12].into()), block: [0; 64], used: 64 }
    }

    fn next(&mut self) -> u64 {
        if self.used == self.block.len() {
            self.block = [0; 64];
            self.cipher.apply_keystream(&mut self.block);
            self.used = 0;
        }
        let mut number = [0; 8];
        number.copy_from_slice(&self.block[self.used..self.used + 8]);
        self.used += 8;
        u64::from_le_bytes(number)
    }

    /// A number below the bound, each as likely as any other: those from the last, incomplete round are thrown away.
    fn below(&mut self, bound: u64) -> u64 {
        let incomplete = (u64::MAX % bound + 1) % bound;
        loop {
            let number = self.next();
            if number <= u64::MAX - incomplete {
                return number % bound;
            }
        }
    }
}
