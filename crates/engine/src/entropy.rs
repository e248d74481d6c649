//! The one place that asks the operating system for randomness.

use guerdon_core::Timestamp;
use guerdon_core::requests::RequestId;
use std::cell::RefCell;
use uuid::Builder;

/// How much is asked for at a time: a call to the system for each id would cost more than the id.
const DRAWN: usize = 4096;

thread_local! {
    static DRAWN_BEFORE: RefCell<Drawn> = const { RefCell::new(Drawn { bytes: [0; DRAWN], used: DRAWN }) };
}

/// Random bytes in hand. Each is given away once and not kept.
struct Drawn {
    bytes: [u8; DRAWN],
    used: usize,
}

impl Drawn {
    fn fill(&mut self, wanted: &mut [u8]) {
        if wanted.len() > DRAWN {
            return draw(wanted);
        }
        if DRAWN - self.used < wanted.len() {
            draw(&mut self.bytes);
            self.used = 0;
        }
        let given = &mut self.bytes[self.used..self.used + wanted.len()];
        wanted.copy_from_slice(given);
        given.fill(0);
        self.used += wanted.len();
    }
}

/// A machine that cannot give any cannot run this product.
#[expect(clippy::disallowed_methods, reason = "this is the source that everything else is told to ask")]
fn draw(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives random bytes");
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Entropy;

impl Entropy {
    /// Random bytes, the operating system's own.
    pub fn bytes<const N: usize>(self) -> [u8; N] {
        let mut bytes = [0; N];
        DRAWN_BEFORE.with_borrow_mut(|drawn| drawn.fill(&mut bytes));
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
    fn no_bytes_are_given_twice() {
        let given: std::collections::HashSet<_> = (0..2_000).map(|_| Entropy.bytes::<16>()).collect();
        assert_eq!(given.len(), 2_000);
        assert_ne!(Entropy.bytes::<8_192>()[4_096..], [0; 4_096]);
    }

    #[test]
    fn ids_are_ordered_by_time() {
        let ids: Vec<_> =
            (0..100).map(|n| Entropy.id(Timestamp::from_millis(1_700_000_000_000 + n))).collect();
        assert!(ids.is_sorted());
        assert!(ids.iter().all(|id| id.len() == 36 && id.as_bytes()[14] == b'7'));
    }
}
