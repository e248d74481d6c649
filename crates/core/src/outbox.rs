//! The outbox: messages for others, how long a failed one waits, and which publisher has which shard of them.

pub mod catalogue;
pub mod envelope;
#[cfg(test)]
mod tests;
pub mod view;

use crate::id::uuid_id;
use crate::named::named;
use crate::time::Timestamp;
use crate::trace::Trace;

named! {
    /// Where a message is on its way.
    MessageStatus {
        New "NEW",
        Sending "SENDING",
        Sent "SENT",
        Dead "DEAD",
    }
}

uuid_id! {
    MessageId
}

impl MessageId {
    /// The one right after it.
    #[must_use]
    pub fn next(&self) -> Self {
        Self::from_bytes(u128::from_be_bytes(*self.as_bytes()).saturating_add(1).to_be_bytes())
    }

    /// The first id that can have been made at this time.
    pub fn first_of(time: Timestamp) -> Self {
        let mut bytes = [0; 16];
        let millis = u64::try_from(time.as_millis()).unwrap_or(0);
        bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
        Self::from_bytes(bytes)
    }
}

/// A message that is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: MessageId,
    pub aggregate_type: String,
    pub aggregate_id: String,
    pub event_type: String,
    /// Orders the messages about one aggregate.
    pub sequence: i64,
    /// JSON.
    pub payload: String,
    pub created_at: Timestamp,
    /// How often it was refused so far.
    pub attempts: i64,
    /// Where it belongs in a trace.
    pub trace: Option<Trace>,
}

/// Aggregates are spread over this many shards, each published by one process at a time.
pub const SHARDS: i64 = 16;

/// The shard of an aggregate: stored with its messages, so the rule is for ever.
pub fn shard_of(aggregate_id: &str) -> i64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in aggregate_id.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The upper bits of such a hash hardly differ between names of one kind before they are mixed.
    i64::try_from(hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60).unwrap_or(0)
}

/// A message that was refused again and again waits longer each time, up to this.
const BACKOFF_MAX_MS: i64 = 300_000;
const BACKOFF_FIRST_MS: i64 = 500;

/// How long a message waits that was refused for the nth time. Half of it is chance, which spreads the tries of many
/// apart; the chance is a number below 1024.
pub fn backoff_ms(attempts: i64, chance: u64) -> i64 {
    let doublings = u32::try_from(attempts.clamp(1, 16) - 1).unwrap_or(0);
    let whole = (BACKOFF_FIRST_MS << doublings).min(BACKOFF_MAX_MS);
    let chance = i64::try_from(chance & 1023).unwrap_or(0);
    whole / 2 + whole / 2 * chance / 1024
}

/// Who publishes a shard, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub shard: i64,
    pub holder: Option<String>,
    pub until: Timestamp,
}

/// What a publisher does about the shards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Has, and goes on with.
    pub keep: Vec<i64>,
    /// Nobody has, or nobody any more.
    pub take: Vec<i64>,
    /// Has, and leaves to others.
    pub give: Vec<i64>,
}

/// Divides the shards evenly among those publishers that are alive, one of which is `me`: nobody takes what another
/// holds, and whoever has more than an even part gives the rest away.
pub fn share(leases: &[Lease], me: &str, alive: usize, now: Timestamp) -> Share {
    let even = leases.len().div_ceil(alive.max(1));
    let mut share = Share::default();
    for lease in leases {
        if lease.holder.as_deref() == Some(me) {
            let part = if share.keep.len() < even { &mut share.keep } else { &mut share.give };
            part.push(lease.shard);
        }
    }
    for lease in leases {
        let free = lease.holder.is_none() || (lease.until <= now && lease.holder.as_deref() != Some(me));
        if free && share.keep.len() + share.take.len() < even {
            share.take.push(lease.shard);
        }
    }
    share
}
