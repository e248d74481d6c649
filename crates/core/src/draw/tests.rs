use super::{
    Document, Entry, Hash, Proof, Secret, Terms, Tree, commitment, leads_to, leaf, path, salt, verify,
    verify_proof, winners,
};
use crate::id::{EventId, UserId};
use crate::time::Timestamp;
use std::collections::HashSet;

const SEED: [u8; 32] = *b"0123456789abcdef0123456789abcdef";
const SALT_KEY: Secret = Secret::new([7; 32]);

fn leaves(count: u64) -> Vec<Hash> {
    let event_id = EventId::parse("draw_1").unwrap();
    (1..=count)
        .map(|position| {
            let user_id = UserId::parse(format!("u-{position}")).unwrap();
            let entry = Entry {
                event_id: &event_id,
                position,
                request_id: &format!("r-{position}"),
                user_id: &user_id,
            };
            leaf(entry, &salt(&SALT_KEY, position))
        })
        .collect()
}

fn document(entries: u64, capacity_total: u64, nonce: Option<(&str, &str)>) -> Document {
    let leaves = leaves(entries);
    let mut tree = Tree::default();
    tree.extend(leaves.iter().copied());
    let root = tree.root();
    let terms = Terms {
        event_id: "draw_1",
        capacity_total,
        cutoff: Timestamp::from_millis(1_800_000_000_000),
        nonce_source: nonce.map_or("", |(source, _)| source),
    };
    Document {
        version: 1,
        event_id: "draw_1".into(),
        capacity_total,
        lottery_cutoff_at: 1_800_000_000_000,
        public_nonce_source: nonce.map(|(source, _)| source.into()),
        commitment: commitment(&SEED, terms),
        entries,
        root,
        public_nonce: nonce.map(|(_, value)| value.into()),
        seed: Hash::from_bytes(SEED),
        leaves,
        winners: winners(&SEED, &root, nonce.map_or("", |(_, value)| value), entries, capacity_total),
    }
}

fn proof(document: &Document, position: u64) -> Proof {
    let index = usize::try_from(position - 1).unwrap();
    Proof {
        event_id: "draw_1".into(),
        position,
        request_id: format!("r-{position}"),
        user_id: format!("u-{position}"),
        salt: salt(&SALT_KEY, position),
        leaf: document.leaves[index],
        entries: document.entries,
        root: document.root,
        path: path(&document.leaves, index),
    }
}

type Tamper = (&'static str, fn(&mut Document), &'static [&'static str]);

fn faults(document: &Document) -> Vec<&'static str> {
    verify(document).into_iter().filter(|check| !check.holds()).map(|check| check.name).collect()
}

#[test]
fn every_entry_has_its_own_path_to_the_root() {
    for count in 1..40_u64 {
        let document = document(count, 3, None);
        for position in 1..=count {
            let proof = proof(&document, position);
            assert!(verify_proof(&document, &proof).iter().all(super::Check::holds), "{position} of {count}");
            for elsewhere in (0..count).filter(|index| *index != position - 1) {
                assert!(!leads_to(&document.root, &proof.leaf, elsewhere, count, &proof.path));
            }
        }
    }
}

#[test]
fn trees_of_different_entries_have_different_roots() {
    let roots: HashSet<_> = (0..200).map(|count| document(count, 1, None).root).collect();
    assert_eq!(roots.len(), 200, "no node is doubled to fill a row");
}

#[test]
fn winners_are_drawn_without_replacement() {
    for (entries, capacity) in [(0, 5), (1, 5), (5, 5), (5, 0), (1_000, 999), (100_000, 10)] {
        let drawn = winners(&SEED, &Hash::from_bytes([1; 32]), "", entries, capacity);
        assert_eq!(drawn.len() as u64, entries.min(capacity));
        assert!(drawn.iter().all(|position| (1..=entries).contains(position)));
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), drawn.len());
    }
    assert_ne!(
        winners(&SEED, &Hash::from_bytes([1; 32]), "", 1_000, 10),
        winners(&SEED, &Hash::from_bytes([1; 32]), "x", 1_000, 10),
    );
}

#[test]
fn everybody_is_as_likely_as_anybody() {
    let (entries, capacity, times) = (7_u64, 3, 7_000_u64);
    let mut wins = vec![0_u64; 8];
    let mut first = vec![0_u64; 8];
    for number in 0..times {
        let mut root = [0; 32];
        root[..8].copy_from_slice(&number.to_be_bytes());
        let drawn = winners(&SEED, &Hash::from_bytes(root), "", entries, capacity);
        first[usize::try_from(drawn[0]).unwrap()] += 1;
        for position in drawn {
            wins[usize::try_from(position).unwrap()] += 1;
        }
    }
    // Five standard deviations; the draws are the same in every run.
    assert!(wins[1..].iter().all(|count| count.abs_diff(3_000) < 210), "{wins:?}");
    assert!(first[1..].iter().all(|count| count.abs_diff(1_000) < 150), "{first:?}");
}

#[test]
fn tampering_is_found() {
    let sound = document(50, 5, Some(("a beacon's round 1000", "f00d")));
    assert_eq!(faults(&sound), Vec::<&str>::new());
    let cases: [Tamper; 14] = [
        ("a winner", |d| d.winners[2] = if d.winners.contains(&9) { 10 } else { 9 }, &["winners"]),
        ("the order of winners", |d| d.winners.swap(0, 1), &["winners"]),
        ("a winner less", |d| d.winners.truncate(4), &["winners"]),
        ("an entry", |d| d.leaves[7] = Hash::from_bytes([9; 32]), &["root"]),
        ("the order of entries", |d| d.leaves.swap(3, 4), &["root"]),
        ("an entry less", |d| d.leaves.truncate(49), &["entries", "root"]),
        ("the count", |d| d.entries = 49, &["entries", "winners"]),
        ("the capacity", |d| d.capacity_total = 6, &["commitment", "winners"]),
        // Nobody has the memory to draw so many.
        (
            "the count and the capacity",
            |d| (d.entries, d.capacity_total) = (u64::MAX, u64::MAX),
            &["commitment", "entries", "winners"],
        ),
        ("the seed", |d| d.seed = Hash::from_bytes([3; 32]), &["commitment", "winners"]),
        ("the nonce", |d| d.public_nonce = Some("f00e".into()), &["winners"]),
        ("the nonce's source", |d| d.public_nonce_source = Some("another".into()), &["commitment"]),
        ("the cutoff", |d| d.lottery_cutoff_at += 1, &["commitment"]),
        ("the event", |d| d.event_id = "draw_2".into(), &["commitment"]),
    ];
    for (what, tamper, expected) in cases {
        let mut tampered = sound.clone();
        tamper(&mut tampered);
        assert_eq!(faults(&tampered), expected, "{what}");
    }
    let mut without = sound.clone();
    without.public_nonce = None;
    assert_eq!(faults(&without), ["nonce", "winners"]);
}

#[test]
fn a_forged_proof_is_found() {
    let document = document(50, 5, None);
    let sound = proof(&document, 20);
    let names = |proof: &Proof| -> Vec<_> {
        verify_proof(&document, proof)
            .into_iter()
            .filter(|check| !check.holds())
            .map(|check| check.name)
            .collect()
    };
    assert_eq!(names(&sound), Vec::<&str>::new());
    for (tamper, expected) in [
        ((|p| p.user_id = "u-21".into()) as fn(&mut Proof), vec!["proof: leaf"]),
        (|p| p.position = 21, vec!["proof: leaf", "proof: path", "proof: place"]),
        (|p| p.path[1] = Hash::from_bytes([1; 32]), vec!["proof: path"]),
        (|p| p.root = Hash::from_bytes([1; 32]), vec!["proof: document", "proof: path"]),
        (|p| p.position = 0, vec!["proof: leaf", "proof: path", "proof: place"]),
    ] {
        let mut forged = sound.clone();
        tamper(&mut forged);
        assert_eq!(names(&forged), expected);
    }
}

/// The vectors that others write their verifiers against.
#[test]
fn the_vectors_of_the_document_are_true() {
    let page = include_str!("../../../../docs/verifiable-draw.md");
    let small = document(5, 2, Some(("beacon round 7", "00ff")));
    for (name, value) in [
        ("commitment", small.commitment.to_string()),
        ("salt of position 1", salt(&SALT_KEY, 1).to_string()),
        ("leaf of position 1", small.leaves[0].to_string()),
        ("root", small.root.to_string()),
        ("winners", format!("{:?}", small.winners)),
        ("root of no entries", Tree::default().root().to_string()),
        (
            "winners of 1,000,000 entries, 5 places",
            format!("{:?}", winners(&SEED, &small.root, "", 1_000_000, 5)),
        ),
    ] {
        assert!(page.contains(&format!("| {name} | `{value}` |")), "| {name} | `{value}` |");
    }
}
