//! What people do by chance.

use guerdon_engine::Entropy;
use std::time::Duration;

/// A number below `most`.
pub(super) fn below(most: u64) -> u64 {
    Entropy.number() % most.max(1)
}

/// True in so many of a hundred cases.
pub(super) fn percent(share: u64) -> bool {
    below(100) < share
}

/// A time around the mean: from a fifth of it to nearly twice as long.
pub(super) fn about(mean: Duration) -> Duration {
    let mean_ms = u64::try_from(mean.as_millis()).unwrap_or(u64::MAX / 8);
    Duration::from_millis(mean_ms / 5 + below(mean_ms * 8 / 5))
}

/// In another order.
pub(super) fn shuffle<T>(items: &mut [T]) {
    for index in (1..items.len()).rev() {
        let other = below(index as u64 + 1);
        items.swap(index, usize::try_from(other).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::{about, shuffle};
    use std::time::Duration;

    #[test]
    fn times_stay_around_their_mean() {
        let mean = Duration::from_millis(500);
        let times: Vec<_> = (0..2_000).map(|_| about(mean)).collect();
        assert!(times.iter().all(|time| (100..900).contains(&time.as_millis())));
        assert!(times.iter().any(|time| *time > mean) && times.iter().any(|time| *time < mean));
    }

    #[test]
    fn an_order_keeps_everything() {
        let mut items: Vec<_> = (0..50).collect();
        shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
