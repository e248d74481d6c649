//! The document of a draw, and the proof of an entry, from whoever wrote them.

use crate::halves;
use guerdon_core::draw::{Check, Document, Proof, verify, verify_proof};

pub(crate) fn hold(data: &[u8]) {
    let Some((document, proof)) = halves(data) else { return };
    let Ok(document) = serde_json::from_str::<Document>(document) else { return };
    let written = serde_json::to_string(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document>(&written).unwrap(), document);
    let sound = holds(&verify(&document));
    if sound {
        changed(&document);
    }
    let Ok(proof) = serde_json::from_str::<Proof>(proof) else { return };
    let written = serde_json::to_string(&proof).unwrap();
    assert_eq!(serde_json::from_str::<Proof>(&written).unwrap(), proof);
    if holds(&verify_proof(&document, &proof)) && sound {
        for change in [
            |proof: &mut Proof| proof.position += 1,
            |proof: &mut Proof| proof.user_id.push('x'),
            |proof: &mut Proof| proof.request_id.push('x'),
            |proof: &mut Proof| proof.event_id.push('x'),
            |proof: &mut Proof| proof.path.push(proof.leaf),
            |proof: &mut Proof| proof.salt = proof.root,
        ] {
            let mut other = proof.clone();
            change(&mut other);
            assert!(!holds(&verify_proof(&document, &other)), "{other:?}");
        }
    }
}

fn holds(checks: &[Check]) -> bool {
    checks.iter().all(Check::holds)
}

/// A document that is sound is no longer so once anything in it is another.
fn changed(document: &Document) {
    for change in [
        |document: &mut Document| document.winners.push(1),
        |document: &mut Document| document.winners.insert(0, 1),
        |document: &mut Document| document.leaves.push(document.root),
        |document: &mut Document| document.entries += 1,
        |document: &mut Document| document.capacity_total += 1,
        |document: &mut Document| document.event_id.push('x'),
        |document: &mut Document| document.seed = document.commitment,
        |document: &mut Document| document.root = document.commitment,
        |document: &mut Document| document.version += 1,
    ] {
        let mut other = document.clone();
        change(&mut other);
        assert!(!holds(&verify(&other)), "{other:?}");
    }
}
