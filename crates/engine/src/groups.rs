//! Commands of one transaction that are about several things.

use guerdon_store::{Fault, Tx};

/// Applies commands thing by thing, in the order of what they are about, and answers in the commands' own order.
pub(crate) fn by_key<C, K: Ord, O>(
    tx: &mut Tx<'_>,
    batch: &[C],
    key_of: impl Fn(&C) -> &K,
    apply: impl Fn(&mut Tx<'_>, &[&C]) -> Result<Vec<O>, Fault>,
) -> Result<Vec<O>, Fault> {
    let mut order: Vec<_> = (0..batch.len()).collect();
    order.sort_by_key(|index| key_of(&batch[*index]));
    let mut outcomes: Vec<Option<O>> = batch.iter().map(|_| None).collect();
    for same in order.chunk_by(|a, b| key_of(&batch[*a]) == key_of(&batch[*b])) {
        let together: Vec<_> = same.iter().map(|index| &batch[*index]).collect();
        for (index, outcome) in same.iter().zip(apply(tx, &together)?) {
            outcomes[*index] = Some(outcome);
        }
    }
    outcomes.into_iter().map(|outcome| outcome.ok_or(Fault::Panicked)).collect()
}
