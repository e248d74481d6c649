use super::{Lease, SHARDS, Share, backoff_ms, shard_of, share};
use crate::Timestamp;

fn lease(shard: i64, holder: &str, until: i64) -> Lease {
    let holder = (!holder.is_empty()).then(|| holder.to_owned());
    Lease { shard, holder, until: Timestamp::from_millis(until) }
}

#[test]
fn shards_are_shared_evenly_and_never_taken_from_anybody() {
    // Holders and ends of four shards; how many are alive; what `me` keeps, takes and gives at the time 100.
    type Row = ([(&'static str, i64); 4], usize, [&'static [i64]; 3]);
    let table: &[Row] = &[
        ([("", 0), ("", 0), ("", 0), ("", 0)], 1, [&[], &[0, 1, 2, 3], &[]]),
        ([("me", 200), ("me", 200), ("me", 200), ("me", 200)], 1, [&[0, 1, 2, 3], &[], &[]]),
        ([("me", 200), ("me", 200), ("me", 200), ("me", 200)], 2, [&[0, 1], &[], &[2, 3]]),
        ([("other", 200), ("other", 200), ("", 0), ("", 0)], 2, [&[], &[2, 3], &[]]),
        ([("other", 200), ("other", 200), ("other", 200), ("", 0)], 2, [&[], &[3], &[]]),
        // Whoever was not heard of for a lease has lost it.
        ([("other", 100), ("other", 100), ("me", 200), ("me", 200)], 1, [&[2, 3], &[0, 1], &[]]),
        // What nobody took in the meantime is still mine.
        ([("me", 50), ("me", 50), ("other", 200), ("other", 200)], 2, [&[0, 1], &[], &[]]),
        // Three share four: nobody is left out for good.
        ([("a", 200), ("a", 200), ("b", 200), ("", 0)], 3, [&[], &[3], &[]]),
    ];
    for (holders, alive, [keep, take, give]) in table {
        let leases: Vec<_> =
            (0..).zip(holders).map(|(shard, (holder, until))| lease(shard, holder, *until)).collect();
        let expected = Share { keep: keep.to_vec(), take: take.to_vec(), give: give.to_vec() };
        assert_eq!(share(&leases, "me", *alive, Timestamp::from_millis(100)), expected, "{holders:?}");
    }
}

#[test]
fn a_shard_is_for_ever() {
    // Stored with every message: if one of these changes, messages in flight lose their order.
    let table = [("drop_1", 2), ("0190f5e0-1111-7000-8000-000000000001", 10), ("", 15)];
    for (aggregate, shard) in table {
        assert_eq!(shard_of(aggregate), shard, "{aggregate}");
    }
    let kinds: [fn(i64) -> String; 2] =
        [|n| format!("drop_{n}"), |n| format!("0190f5e0-1111-7000-8000-01{n:010x}")];
    for name in kinds {
        let mut counts = [0; 16];
        for number in 0..1_600 {
            counts[usize::try_from(shard_of(&name(number))).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (50..200).contains(count)), "{counts:?}");
    }
    assert_eq!(SHARDS, 16);
}

#[test]
fn every_refusal_waits_longer_up_to_five_minutes() {
    let table = [
        (1, 250, 500),
        (2, 500, 1_000),
        (5, 4_000, 8_000),
        (11, 150_000, 300_000),
        (1_000, 150_000, 300_000),
    ];
    for (attempts, least, most) in table {
        assert_eq!(backoff_ms(attempts, 0), least);
        assert!(backoff_ms(attempts, u64::MAX) <= most && backoff_ms(attempts, 1023) > most * 9 / 10);
    }
}
