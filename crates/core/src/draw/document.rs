//! What a draw leaves for everybody to check, and the checks.

use super::{Hash, Terms, Tree, commitment, leads_to, leaf_of, winners};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The whole that a verifier needs. The entries are leaves: nobody's name is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Document {
    pub version: u32,
    pub event_id: String,
    pub capacity_total: u64,
    pub lottery_cutoff_at: i64,
    #[serde(default)]
    pub public_nonce_source: Option<String>,
    #[schema(value_type = String)]
    pub commitment: Hash,
    pub entries: u64,
    #[schema(value_type = String)]
    pub root: Hash,
    #[serde(default)]
    pub public_nonce: Option<String>,
    #[schema(value_type = String)]
    pub seed: Hash,
    /// In line order.
    #[schema(value_type = Vec<String>)]
    pub leaves: Vec<Hash>,
    /// Positions in line, from 1, in the order drawn.
    pub winners: Vec<u64>,
}

/// That somebody's own entry is in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proof {
    pub event_id: String,
    pub position: u64,
    pub request_id: String,
    pub user_id: String,
    #[schema(value_type = String)]
    pub salt: Hash,
    #[schema(value_type = String)]
    pub leaf: Hash,
    pub entries: u64,
    #[schema(value_type = String)]
    pub root: Hash,
    /// The siblings from the bottom up.
    #[schema(value_type = Vec<String>)]
    pub path: Vec<Hash>,
}

pub const VERSION: u32 = 1;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    /// What is wrong; nothing when it holds.
    pub fault: Option<String>,
}

impl Check {
    fn new(name: &'static str, holds: bool, fault: impl FnOnce() -> String) -> Self {
        Self { name, fault: (!holds).then(fault) }
    }

    pub fn holds(&self) -> bool {
        self.fault.is_none()
    }
}

/// Checks a document against itself: nothing else is needed.
pub fn verify(document: &Document) -> Vec<Check> {
    let nonce = document.public_nonce.as_deref().unwrap_or_default();
    let terms = Terms {
        event_id: &document.event_id,
        capacity_total: document.capacity_total,
        cutoff: Timestamp::from_millis(document.lottery_cutoff_at),
        nonce_source: document.public_nonce_source.as_deref().unwrap_or_default(),
    };
    let committed = commitment(document.seed.as_bytes(), terms);
    let mut tree = Tree::default();
    tree.extend(document.leaves.iter().copied());
    let (root, counted) = (tree.root(), tree.leaves());
    let due = document.entries.min(document.capacity_total);
    // Whatever the document says of its size, no more are drawn than it names: the first of many are the first of fewer.
    let named = u64::try_from(document.winners.len()).unwrap_or(u64::MAX);
    let expected = winners(document.seed.as_bytes(), &document.root, nonce, document.entries, due.min(named));
    let first_difference =
        expected.iter().zip(&document.winners).position(|(expected, named)| expected != named);
    vec![
        Check::new("version", document.version == VERSION, || {
            format!("the document is of version {}, this verifier knows {VERSION}", document.version)
        }),
        Check::new("commitment", committed == document.commitment, || {
            format!(
                "the seed and the terms (event, capacity, cutoff, nonce source) give {committed}, the commitment is {}",
                document.commitment
            )
        }),
        Check::new("entries", counted == document.entries, || {
            format!("the document says {} entries and has {counted}", document.entries)
        }),
        Check::new("root", root == document.root, || {
            format!("the entries give the root {root}, the document says {}", document.root)
        }),
        Check::new(
            "nonce",
            document.public_nonce_source.is_some() == document.public_nonce.is_some(),
            || "a nonce without a declared source, or a source without its nonce".into(),
        ),
        Check::new("winners", due == named && expected == document.winners, || match first_difference {
            Some(place) => format!(
                "winner {} has to be position {}, the document says {}",
                place + 1,
                expected[place],
                document.winners[place]
            ),
            None => format!("{due} have to win, the document names {named}"),
        }),
    ]
}

/// Checks that somebody's entry is what the document has at its place.
pub fn verify_proof(document: &Document, proof: &Proof) -> Vec<Check> {
    let leaf = leaf_of(&proof.event_id, proof.position, &proof.request_id, &proof.user_id, &proof.salt);
    let index = proof.position.checked_sub(1);
    let in_document = index.and_then(|index| document.leaves.get(usize::try_from(index).ok()?));
    let same = proof.event_id == document.event_id
        && proof.entries == document.entries
        && proof.root == document.root;
    vec![
        Check::new("proof: document", same, || "the proof is about another draw".into()),
        Check::new("proof: leaf", leaf == proof.leaf, || {
            format!("the entry and its salt give {leaf}, the proof says {}", proof.leaf)
        }),
        Check::new(
            "proof: path",
            index.is_some_and(|index| leads_to(&proof.root, &proof.leaf, index, proof.entries, &proof.path)),
            || "the path does not lead from the entry to the root".into(),
        ),
        Check::new("proof: place", in_document == Some(&proof.leaf), || {
            format!("the document has another entry at position {}", proof.position)
        }),
    ]
}
