//! The end of what was sent, and of what a consumer remembers.

use crate::engine::Engine;
use crate::failure::Failure;
use guerdon_core::Timestamp;
use guerdon_core::outbox::MessageId;
use guerdon_store::outbox::listing;
use guerdon_store::{Command, Fault, Priority, Tx, each};

/// Messages that one transaction removes.
const CHUNK: i64 = 500;

impl Engine {
    /// Removes messages that were sent, and kept long enough.
    pub(crate) async fn sweep_outbox(&self) {
        let ttl = i64::try_from(self.options.outbox.ttl.as_millis()).unwrap_or(i64::MAX);
        let before = self.now().plus_millis(-ttl);
        let swept = async {
            let mut after = Some(MessageId::from_bytes([0; 16]));
            while let Some(place) = after {
                after = self.commit(Sweep { after: place, before }).await?;
            }
            Ok::<_, Failure>(())
        };
        if let Err(failure) = swept.await {
            tracing::debug!(%failure, "messages are swept later");
        }
    }
}

struct Sweep {
    after: MessageId,
    before: Timestamp,
}

impl Command for Sweep {
    /// Where to go on, if anywhere.
    type Output = Option<MessageId>;
    const NAME: &'static str = "sweep_outbox";
    const PRIORITY: Priority = Priority::Background;

    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<Self::Output>, Fault> {
        each(batch, |sweep| Ok(listing::sweep(tx, sweep.after, sweep.before, CHUNK)?.1))
    }
}
