//! The one place that asks the operating system for randomness.

use guerdon_core::Timestamp;
use guerdon_core::requests::RequestId;
use uuid::Builder;

#[derive(Clone, Copy, Debug, Default)]
pub struct Entropy;

impl Entropy {
    /// Random bytes. A machine that cannot give any cannot run this product.
    #[expect(clippy::disallowed_methods, reason = "this is the source that everything else is told to ask")]
    pub fn bytes<const N: usize>(self) -> [u8; N] {
        let mut bytes = [0; N];
        getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
        bytes
    }

    pub fn number(self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// A time-ordered id (UUID version 7), so that indexes append.
    pub fn request_id(self, now: Timestamp) -> RequestId {
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        RequestId::from_bytes(
            Builder::from_unix_timestamp_millis(millis, &self.bytes()).into_uuid().into_bytes(),
        )
    }

    /// The same as text.
    pub fn id(self, now: Timestamp) -> String {
        self.request_id(now).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Entropy;
    use guerdon_core::Timestamp;

    #[test]
    fn ids_are_ordered_by_time() {
        let ids: Vec<_> =
            (0..100).map(|n| Entropy.id(Timestamp::from_millis(1_700_000_000_000 + n))).collect();
        assert!(ids.is_sorted());
        assert!(ids.iter().all(|id| id.len() == 36 && id.as_bytes()[14] == b'7'));
    }
}
