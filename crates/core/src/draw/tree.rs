//! A Merkle tree over the entries, shaped as in RFC 9162: the left half of n leaves has the greatest power of two below n,
//! so that no node is ever doubled.

use crate::hash::{Bytes, Hash};

fn node(left: &Hash, right: &Hash) -> Hash {
    Bytes::new().byte(1).raw(left.as_bytes()).raw(right.as_bytes()).hash()
}

/// A tree that grows leaf by leaf and keeps only the roots of its whole parts.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// From the largest to the smallest; the number of leaves in binary says how large each is.
    parts: Vec<Hash>,
    leaves: u64,
}

impl Tree {
    pub fn push(&mut self, leaf: Hash) {
        let mut right = leaf;
        for _ in 0..self.leaves.trailing_ones() {
            if let Some(left) = self.parts.pop() {
                right = node(&left, &right);
            }
        }
        self.parts.push(right);
        self.leaves += 1;
    }

    pub fn leaves(&self) -> u64 {
        self.leaves
    }

    /// Of nothing it is the hash of nothing.
    pub fn root(&self) -> Hash {
        let mut parts = self.parts.iter().rev();
        let Some(last) = parts.next() else { return Bytes::new().hash() };
        parts.fold(*last, |right, left| node(left, &right))
    }
}

impl Extend<Hash> for Tree {
    fn extend<T: IntoIterator<Item = Hash>>(&mut self, leaves: T) {
        leaves.into_iter().for_each(|leaf| self.push(leaf));
    }
}

/// Leaves that are kept together. A power of two: the root of a whole chunk is a node of the tree, and the tree over the
/// chunks' roots has the tree's own root.
pub const CHUNK_LEAVES: usize = 1024;

/// The siblings of a leaf from the bottom up, found in its own chunk and in the roots of all of them.
pub fn path_over_chunks(chunk: &[Hash], roots: &[Hash], index: usize) -> Vec<Hash> {
    let mut siblings = path(chunk, index % CHUNK_LEAVES);
    siblings.extend(path(roots, index / CHUNK_LEAVES));
    siblings
}

pub fn root_of(leaves: &[Hash]) -> Hash {
    let mut tree = Tree::default();
    tree.extend(leaves.iter().copied());
    tree.root()
}

/// The greatest power of two below the number of leaves.
fn left_half(leaves: usize) -> usize {
    leaves.next_power_of_two() / 2
}

/// The siblings of a leaf from the bottom up.
pub fn path(leaves: &[Hash], index: usize) -> Vec<Hash> {
    if leaves.len() <= 1 {
        return Vec::new();
    }
    let (left, right) = leaves.split_at(left_half(leaves.len()));
    let (mut below, sibling) = match index.checked_sub(left.len()) {
        None => (path(left, index), root_of(right)),
        Some(index) => (path(right, index), root_of(left)),
    };
    below.push(sibling);
    below
}

/// Whether a leaf at this place, among so many, leads by these siblings to the root.
pub fn leads_to(root: &Hash, leaf: &Hash, index: u64, leaves: u64, siblings: &[Hash]) -> bool {
    fold(leaf, index, leaves, siblings) == Some(*root)
}

fn fold(leaf: &Hash, index: u64, leaves: u64, siblings: &[Hash]) -> Option<Hash> {
    if index >= leaves {
        return None;
    }
    if leaves == 1 {
        return siblings.is_empty().then_some(*leaf);
    }
    let (sibling, below) = siblings.split_last()?;
    let left = leaves.checked_next_power_of_two()? / 2;
    match index.checked_sub(left) {
        None => fold(leaf, index, left, below).map(|hash| node(&hash, sibling)),
        Some(index) => fold(leaf, index, leaves - left, below).map(|hash| node(sibling, &hash)),
    }
}
