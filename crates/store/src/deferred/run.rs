//! Users in the order of an index, on their way into it.

use crate::fault::Fault;
use std::ops::Range;

/// What users have, sorted by user. The names lie in one text: a million of them are a million allocations less.
#[derive(Debug)]
pub struct Run<K> {
    names: String,
    entries: Vec<Entry<K>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    /// The first bytes of the name, which decide most comparisons.
    prefix: u64,
    key: K,
    start: u32,
    length: u32,
}

impl<K: Copy + Ord> Run<K> {
    pub fn with_capacity(users: usize) -> Self {
        Self { names: String::with_capacity(users * 12), entries: Vec::with_capacity(users) }
    }

    pub fn add(&mut self, key: K, user: &str) -> Result<(), Fault> {
        let mut prefix = [0; 8];
        let shared = user.len().min(8);
        prefix[..shared].copy_from_slice(&user.as_bytes()[..shared]);
        let too_long = |_| Fault::inconsistent("a run is too long");
        let (start, length) = (u32::try_from(self.names.len()), u32::try_from(user.len()));
        self.entries.push(Entry {
            prefix: u64::from_be_bytes(prefix),
            key,
            start: start.map_err(too_long)?,
            length: length.map_err(too_long)?,
        });
        self.names.push_str(user);
        Ok(())
    }

    pub fn sort(&mut self) {
        let names = &self.names;
        self.entries.sort_unstable_by(|a, b| {
            let by_name = || name(names, a).cmp(name(names, b));
            a.prefix.cmp(&b.prefix).then_with(by_name).then(a.key.cmp(&b.key))
        });
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn part(&self, range: Range<usize>) -> impl Iterator<Item = (&str, K)> {
        self.entries[range].iter().map(|entry| (name(&self.names, entry), entry.key))
    }
}

fn name<'a, K>(names: &'a str, entry: &Entry<K>) -> &'a str {
    let start = entry.start as usize;
    names.get(start..start + entry.length as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Run;
    use guerdon_core::requests::LineKey;

    #[test]
    fn a_run_is_sorted_as_the_index_is() {
        let mut run = Run::with_capacity(7);
        for (position, user) in ["b", "abcdefgh2", "", "abcdefgh10", "a", "abcdefgh"].iter().enumerate() {
            run.add(LineKey::new(2, i64::try_from(position).unwrap()), user).unwrap();
        }
        run.add(LineKey::new(1, 5), "b").unwrap();
        run.sort();
        let sorted: Vec<_> = run.part(0..run.len()).map(|(user, key)| (user, key.event_key())).collect();
        let expected =
            [("", 2), ("a", 2), ("abcdefgh", 2), ("abcdefgh10", 2), ("abcdefgh2", 2), ("b", 1), ("b", 2)];
        assert_eq!(sorted, expected);
    }
}
