//! Checking in, once a day.

use super::{Day, Standing};
use crate::events::EventKind;
use crate::events::settings::AttendanceCount;
use crate::id::RewardId;

/// Where somebody stands after a check-in; none when they have checked in already. A day that another server has begun
/// before us has begun.
pub fn check_in(before: Option<Standing>, today: Day) -> Option<Standing> {
    let Some(before) = before else { return Some(Standing { last_day: today, total: 1, run: 1 }) };
    if before.last_day >= today {
        return None;
    }
    let run = if before.last_day.plus(1) == today { before.run + 1 } else { 1 };
    Some(Standing { last_day: today, total: before.total + 1, run })
}

/// Days in a row as of today: a day that was left out ends them.
pub fn streak(standing: Option<Standing>, today: Day) -> i64 {
    standing.filter(|standing| standing.last_day.plus(1) >= today).map_or(0, |standing| standing.run)
}

/// What a check-in gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gift<'a> {
    pub reward_id: &'a RewardId,
    /// The milestone that it is for; none is the reward of each day.
    pub milestone: Option<i64>,
}

pub fn gifts(kind: &EventKind, standing: Standing) -> Vec<Gift<'_>> {
    let EventKind::Attendance { count, daily, bonus, .. } = kind else { return Vec::new() };
    let days = match count {
        AttendanceCount::Total => standing.total,
        AttendanceCount::Streak => standing.run,
    };
    let daily = daily.iter().map(|reward_id| Gift { reward_id, milestone: None });
    let reached = bonus.iter().filter(|bonus| bonus.days == days);
    daily
        .chain(reached.map(|bonus| Gift { reward_id: &bonus.reward_id, milestone: Some(bonus.days) }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{check_in, gifts, streak};
    use crate::entries::{Day, Standing};
    use crate::events::EventKind;
    use crate::events::settings::{AttendanceCount, Bonus};
    use crate::id::RewardId;

    fn kind(count: AttendanceCount) -> EventKind {
        let reward = |name: &str| RewardId::parse(name).unwrap();
        EventKind::Attendance {
            time_zone: "Asia/Seoul".into(),
            count,
            daily: Some(reward("daily")),
            bonus: vec![
                Bonus { days: 2, reward_id: reward("two") },
                Bonus { days: 3, reward_id: reward("three") },
            ],
        }
    }

    #[test]
    fn days_in_all_and_in_a_row() {
        // Days of check-ins; what they come to, and the bonuses by each way of counting.
        let table = [
            (vec![10], 1, 1, vec![], vec![]),
            (vec![10, 11], 2, 2, vec![2], vec![2]),
            (vec![10, 11, 12, 13], 4, 4, vec![2, 3], vec![2, 3]),
            (vec![10, 12, 13], 3, 2, vec![2, 3], vec![2]),
            // A milestone that is reached again in a new streak.
            (vec![10, 11, 13, 14], 4, 2, vec![2, 3], vec![2, 2]),
        ];
        for (days, total, run, of_total, of_streak) in table {
            let mut standing: Option<Standing> = None;
            let (mut totals, mut streaks) = (Vec::new(), Vec::new());
            for day in &days {
                let today = Day::from_number(*day);
                let now = check_in(standing, today).unwrap();
                assert_eq!(check_in(Some(now), today), None, "twice a day");
                assert_eq!(check_in(Some(now), today.plus(-1)), None, "a clock that is behind");
                for (count, found) in
                    [(AttendanceCount::Total, &mut totals), (AttendanceCount::Streak, &mut streaks)]
                {
                    let kind = kind(count);
                    let gifts = gifts(&kind, now);
                    assert_eq!(gifts[0].milestone, None);
                    found.extend(gifts.iter().filter_map(|gift| gift.milestone));
                }
                standing = Some(now);
            }
            let standing = standing.unwrap();
            assert_eq!((standing.total, standing.run), (total, run), "{days:?}");
            assert_eq!((totals, streaks), (of_total, of_streak), "{days:?}");
            assert_eq!(streak(Some(standing), standing.last_day.plus(1)), run);
            assert_eq!(streak(Some(standing), standing.last_day.plus(2)), 0);
        }
    }
}
