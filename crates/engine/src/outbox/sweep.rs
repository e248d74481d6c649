//! The end of what was sent, and of what a consumer remembers.

use crate::clock::millis;
use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::Timestamp;
use guerdon_core::outbox::MessageId;
use guerdon_store::outbox::listing;
use guerdon_store::{Command, Fault, Priority, Tx, each};

/// Messages that one transaction removes.
const CHUNK: usize = 500;
/// Messages that one read looks at.
const PAGE: i64 = 2_000;

impl Engine {
    /// Removes messages that were sent, and kept long enough.
    pub(crate) async fn sweep_outbox(&self) {
        let ttl = millis(self.options.outbox.ttl);
        let before = self.now().plus_millis(-ttl);
        let swept = async {
            let mut after = MessageId::from_bytes([0; 16]);
            // Looked for beside the writer, and in pages: most of what is old may have to stay.
            loop {
                let (last, old) = self.read(move |tx| listing::old(tx, after, before, PAGE)).await?;
                for ids in old.chunks(CHUNK) {
                    self.commit(Sweep { ids: ids.to_vec(), before }).await?;
                }
                match last {
                    Some(last) => after = last,
                    None => return Ok::<_, Failure>(()),
                }
            }
        };
        if let Err(failure) = swept.await {
            tracing::debug!(%failure, "messages are swept later");
        }
    }
}

struct Sweep {
    ids: Vec<MessageId>,
    before: Timestamp,
}

impl Command for Sweep {
    type Output = u64;
    const NAME: &'static str = "sweep_outbox";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<u64>, Fault> {
        each(batch, |sweep| listing::sweep(tx, &sweep.ids, sweep.before))
    }
}
