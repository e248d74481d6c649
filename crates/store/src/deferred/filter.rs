//! Who is certainly not in the index: a Bloom filter, so that a newcomer needs no look-up.

/// Bits for each user: about one newcomer in fifty is looked up in vain.
const BITS_PER_USER: usize = 16;
const LAYER_LEAST: usize = 1 << 20;

/// Hashes of users, layer upon layer, each for twice as many as the one before.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    words: Vec<u64>,
    room: usize,
}

impl Layer {
    fn for_users(users: usize) -> Self {
        Self { words: vec![0; (users * BITS_PER_USER / 64).next_power_of_two()], room: users }
    }

    /// All bits of a user lie in one word, so that a look costs one access to memory.
    fn place(&self, hash: u64) -> (usize, u64) {
        let bit = |shift: u32| 1_u64 << ((hash >> shift) & 63);
        let word = usize::try_from(hash >> 24).unwrap_or(0) & (self.words.len() - 1);
        (word, bit(0) | bit(6) | bit(12) | bit(18))
    }
}

impl Filter {
    pub(crate) fn insert(&mut self, hash: u64) {
        if self.layers.last().is_none_or(|layer| layer.room == 0) {
            let room = LAYER_LEAST << self.layers.len().min(16);
            self.layers.push(Layer::for_users(room));
        }
        if let Some(layer) = self.layers.last_mut() {
            let (word, bits) = layer.place(hash);
            layer.room -= usize::from(layer.words[word] & bits != bits);
            layer.words[word] |= bits;
        }
    }

    /// Whether this may have been inserted.
    pub(crate) fn may_have(&self, hash: u64) -> bool {
        self.layers.iter().any(|layer| {
            let (word, bits) = layer.place(hash);
            layer.words[word] & bits == bits
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, LAYER_LEAST};
    use std::hash::{BuildHasher, RandomState};

    #[test]
    fn nobody_is_missed_and_few_are_looked_up_in_vain() {
        let hasher = RandomState::new();
        let mut filter = Filter::default();
        let known = LAYER_LEAST * 5 / 2;
        for number in 0..known {
            filter.insert(hasher.hash_one(number));
        }
        assert_eq!(filter.layers.len(), 2);
        assert!((0..known).all(|number| filter.may_have(hasher.hash_one(number))));
        let in_vain = (0..10_000).filter(|n| filter.may_have(hasher.hash_one(known + n))).count();
        assert!(in_vain < 1_000, "{in_vain} of 10,000");
    }
}
