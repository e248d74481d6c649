//! Draws that we make: sound as made, each entry with a path of its own, and not sound once one is exchanged.

use guerdon_core::draw::{
    Check, Document, Entry, Hash, Proof, Secret, Terms, commitment, leaf, path, root_of, salt, verify,
    verify_proof, winners,
};
use guerdon_core::{EventId, Timestamp, UserId};

const SALT_KEY: Secret = Secret::new([7; 32]);

pub(crate) fn hold(data: &[u8]) {
    let [entries, capacity, at, other, rest @ ..] = data else { return };
    let (entries, capacity) = (u64::from(*entries % 64) + 1, u64::from(*capacity));
    let (at, other) = (u64::from(*at) % entries + 1, u64::from(*other) % entries + 1);
    let nonce = String::from_utf8_lossy(rest);
    let mut document = document(entries, capacity, (!nonce.is_empty()).then_some(&*nonce));
    assert!(sound(&verify(&document)), "{:?}", verify(&document));
    let mut drawn = document.winners.clone();
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len() as u64, entries.min(capacity), "each is drawn once");
    assert!(drawn.iter().all(|position| (1..=entries).contains(position)));

    let mine = proof(&document, at);
    assert!(sound(&verify_proof(&document, &mine)), "{:?}", verify_proof(&document, &mine));
    let moved = Proof { position: other, ..mine.clone() };
    assert_eq!(sound(&verify_proof(&document, &moved)), at == other, "{at} stands at {other}");
    let elsewhere = Proof { path: proof(&document, other).path, ..mine.clone() };
    assert_eq!(sound(&verify_proof(&document, &elsewhere)), at == other || elsewhere.path == mine.path);

    let (one, another) = (usize::try_from(at - 1).unwrap(), usize::try_from(other - 1).unwrap());
    document.leaves.swap(one, another);
    assert_eq!(sound(&verify(&document)), at == other, "{at} and {other} have changed places");
}

fn sound(checks: &[Check]) -> bool {
    checks.iter().all(Check::holds)
}

fn entry(position: u64) -> (EventId, UserId, String) {
    let user = UserId::parse(format!("u-{position}")).unwrap();
    (EventId::parse("draw_1").unwrap(), user, format!("r-{position}"))
}

fn document(entries: u64, capacity_total: u64, nonce: Option<&str>) -> Document {
    let leaves: Vec<_> = (1..=entries)
        .map(|position| {
            let (event_id, user_id, request_id) = entry(position);
            let entry = Entry { event_id: &event_id, position, request_id: &request_id, user_id: &user_id };
            leaf(entry, &salt(&SALT_KEY, position))
        })
        .collect();
    let (seed, root, cutoff) = ([5; 32], root_of(&leaves), 1_800_000_000_000);
    let nonce_source = nonce.map(|_| "the newspaper");
    let terms = Terms {
        event_id: "draw_1",
        capacity_total,
        cutoff: Timestamp::from_millis(cutoff),
        nonce_source: nonce_source.unwrap_or_default(),
    };
    Document {
        version: 1,
        event_id: "draw_1".into(),
        capacity_total,
        lottery_cutoff_at: cutoff,
        public_nonce_source: nonce_source.map(Into::into),
        commitment: commitment(&seed, terms),
        entries,
        root,
        public_nonce: nonce.map(Into::into),
        seed: Hash::from_bytes(seed),
        winners: winners(&seed, &root, nonce.unwrap_or_default(), entries, capacity_total),
        leaves,
    }
}

fn proof(document: &Document, position: u64) -> Proof {
    let (event_id, user_id, request_id) = entry(position);
    let index = usize::try_from(position - 1).unwrap();
    Proof {
        event_id: event_id.to_string(),
        position,
        request_id,
        user_id: user_id.to_string(),
        salt: salt(&SALT_KEY, position),
        leaf: document.leaves[index],
        entries: document.entries,
        root: document.root,
        path: path(&document.leaves, index),
    }
}
