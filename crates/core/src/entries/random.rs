//! Games of chance: which prize, by which odds, and how often somebody may play.

use super::{Day, Standing};
use crate::code::Code;
use crate::events::settings::Odds;
use crate::rejection::Rejection;
use crate::time::Timestamp;

/// The odds that are in force: the last whose time has come.
pub fn odds_at(odds: &[Odds], now: Timestamp) -> Option<&Odds> {
    odds.iter().rev().find(|odds| odds.effective_at <= now).or(odds.first())
}

/// A number below `total`, each as likely as any other, from numbers that are. Those beyond the last whole multiple of
/// the total would favour the first few, and are drawn again.
pub fn below(total: u64, mut number: impl FnMut() -> u64) -> u64 {
    if total <= 1 {
        return 0;
    }
    let beyond = (u64::MAX % total + 1) % total;
    loop {
        let drawn = number();
        if drawn <= u64::MAX - beyond {
            return drawn % total;
        }
    }
}

/// Draws a prize by its weight; its place in the table.
pub fn draw(odds: &Odds, number: impl FnMut() -> u64) -> Option<usize> {
    let weight = |weight: i64| u64::try_from(weight).unwrap_or(0);
    let total = odds.prizes.iter().map(|prize| weight(prize.weight)).sum();
    let mut left = below(total, number);
    odds.prizes.iter().position(|prize| match left.checked_sub(weight(prize.weight)) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    })
}

/// How many plays somebody has left now; none where nothing limits them.
pub fn left(
    before: Option<Standing>,
    today: Day,
    per_day: Option<i64>,
    per_user: Option<i64>,
) -> Option<i64> {
    let (total, on_day) = before.map_or((0, 0), |standing| {
        (standing.total, if standing.last_day >= today { standing.run } else { 0 })
    });
    let left = |limit: Option<i64>, played: i64| limit.map(|limit| (limit - played).max(0));
    [left(per_day, on_day), left(per_user, total)].into_iter().flatten().min()
}

/// Where somebody stands after one more play, unless that is more than they have. A day that another server has begun
/// before us has begun.
pub fn play(
    before: Option<Standing>,
    today: Day,
    per_day: Option<i64>,
    per_user: Option<i64>,
) -> Result<Standing, Rejection> {
    let (total, last_day, run) =
        before.map_or((0, today, 0), |standing| (standing.total, standing.last_day, standing.run));
    let today = today.max(last_day);
    let run = if last_day == today { run } else { 0 };
    for (limit, played, when) in [(per_day, run, "a day"), (per_user, total, "in all")] {
        if let Some(limit) = limit.filter(|limit| played >= *limit) {
            let detail = format!("the event has {limit} plays {when} for everybody, and they are played");
            return Err(Rejection::new(Code::PlayLimitReached, detail));
        }
    }
    Ok(Standing { last_day: today, total: total + 1, run: run + 1 })
}

/// How far what was drawn is from what was to be expected, as chi-square with its degrees of freedom. Prizes that are
/// too rare to be judged one by one are taken together.
pub fn chi_square(odds: &Odds, drawn: &[i64]) -> Option<(f64, usize)> {
    const ENOUGH: f64 = 5.0;
    let total_weight: i64 = odds.prizes.iter().map(|prize| prize.weight).sum();
    let plays: i64 = drawn.iter().sum();
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    let float = |number: i64| number as f64;
    let (mut sum, mut cells, mut rare) = (0.0, 0_usize, (0.0, 0.0));
    let mut add = |expected: f64, seen: f64| {
        if expected > 0.0 {
            sum += (seen - expected).powi(2) / expected;
            cells += 1;
        }
    };
    for (prize, seen) in odds.prizes.iter().zip(drawn.iter().chain(std::iter::repeat(&0))) {
        let expected = float(plays) * float(prize.weight) / float(total_weight);
        if expected < ENOUGH {
            rare = (rare.0 + expected, rare.1 + float(*seen));
        } else {
            add(expected, float(*seen));
        }
    }
    if rare.0 >= ENOUGH {
        add(rare.0, rare.1);
    }
    (cells > 1).then(|| (sum, cells - 1))
}

/// Whether a chi-square is beyond what chance would do once in a thousand million times: by the cube root of it, which
/// is nearly normal (Wilson and Hilferty).
pub fn is_beyond_chance(chi_square: f64, degrees: usize) -> bool {
    const SIX_SIGMA: f64 = 6.0;
    let degrees = f64::from(u32::try_from(degrees).unwrap_or(u32::MAX));
    let spread = 2.0 / (9.0 * degrees);
    let normal = ((chi_square / degrees).cbrt() - (1.0 - spread)) / spread.sqrt();
    normal > SIX_SIGMA
}

#[cfg(test)]
mod tests {
    use super::{below, chi_square, draw, is_beyond_chance, left, odds_at, play};
    use crate::entries::{Day, Standing};
    use crate::events::settings::{Odds, Prize};
    use crate::time::Timestamp;

    fn odds(weights: &[i64]) -> Odds {
        let prizes = weights.iter().map(|weight| Prize { reward_id: None, weight: *weight }).collect();
        Odds { version: 1, effective_at: Timestamp::from_millis(0), prizes, fallback: None }
    }

    #[test]
    fn every_weight_is_met_exactly() {
        let odds = odds(&[3, 0, 1, 6]);
        let mut drawn = [0; 4];
        for number in 0..10_u64 {
            drawn[draw(&odds, || number).unwrap()] += 1;
        }
        assert_eq!(drawn, [3, 0, 1, 6]);
    }

    #[test]
    fn numbers_that_would_favour_some_are_drawn_again() {
        // Of 2^64 numbers, 2^64 mod 10 = 6 are left over at the end.
        let mut numbers = [u64::MAX, u64::MAX - 5, u64::MAX - 6].into_iter();
        assert_eq!(below(10, || numbers.next().unwrap()), (u64::MAX - 6) % 10);
        assert_eq!(numbers.next(), None);
        assert_eq!(below(1, || 7), 0);
        let mut once = [u64::MAX].into_iter();
        assert_eq!(
            below(1 << 32, || once.next().unwrap()),
            (1 << 32) - 1,
            "a power of two has none left over"
        );
    }

    #[test]
    fn how_many_plays_are_left() {
        let stands = |last, total, run| Some(Standing { last_day: Day::from_number(last), total, run });
        // Before, per day, per user; left on day 5.
        for (before, per_day, per_user, expected) in [
            (None, None, None, None),
            (None, Some(3), Some(9), Some(3)),
            (stands(5, 2, 2), Some(3), None, Some(1)),
            (stands(4, 2, 2), Some(3), None, Some(3)),
            (stands(6, 2, 2), Some(3), None, Some(1)),
            (stands(4, 8, 3), Some(3), Some(9), Some(1)),
            (stands(5, 9, 5), Some(3), Some(9), Some(0)),
            (stands(5, 9, 5), None, None, None),
        ] {
            assert_eq!(left(before, Day::from_number(5), per_day, per_user), expected, "{before:?}");
        }
    }

    #[test]
    fn how_often_somebody_may_play() {
        let day = Day::from_number;
        let stands = |last, total, run| Some(Standing { last_day: day(last), total, run });
        // Before, today, per day, per user; after.
        let table = [
            (None, 5, Some(1), Some(1), stands(5, 1, 1)),
            (stands(5, 1, 1), 5, Some(1), None, None),
            (stands(5, 1, 1), 6, Some(1), None, stands(6, 2, 1)),
            (stands(5, 1, 1), 5, Some(2), None, stands(5, 2, 2)),
            (stands(5, 3, 1), 6, None, Some(3), None),
            (stands(5, 3, 1), 6, None, None, stands(6, 4, 1)),
            // A clock that is behind does not give a day twice.
            (stands(6, 1, 1), 5, Some(1), None, None),
        ];
        for (before, today, per_day, per_user, after) in table {
            assert_eq!(play(before, day(today), per_day, per_user).ok(), after, "{before:?} on {today}");
        }
    }

    #[test]
    fn the_odds_in_force() {
        let at = Timestamp::from_millis;
        let versions: Vec<_> = [(1, 10), (2, 20), (3, 30)]
            .map(|(version, effective)| Odds { version, effective_at: at(effective), ..odds(&[1]) })
            .into();
        for (now, version) in [(0, 1), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (99, 3)] {
            assert_eq!(odds_at(&versions, at(now)).unwrap().version, version, "at {now}");
        }
    }

    #[test]
    fn what_is_beyond_chance() {
        let odds = odds(&[50, 30, 20]);
        for (drawn, beyond) in [
            ([50_000, 30_000, 20_000], false),
            ([50_250, 29_900, 19_850], false),
            ([52_000, 29_000, 19_000], true),
            ([30_000, 50_000, 20_000], true),
        ] {
            let (chi, degrees) = chi_square(&odds, &drawn).unwrap();
            assert_eq!(degrees, 2);
            assert_eq!(is_beyond_chance(chi, degrees), beyond, "{drawn:?}: {chi}");
        }
        assert_eq!(chi_square(&odds, &[1, 1, 0]), None, "too few to judge");
    }
}
