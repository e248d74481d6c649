//! The idempotency keys that providers see. No two rewards can have the same one: an event's and a reward's id have no
//! hyphen, and what follows the member's id has a form by which it is known from the end.

use crate::entries::Day;
use crate::id::{ClaimKey, EventId, RewardId, UserId};
use crate::requests::RequestId;

pub fn of_request(event: &EventId, member: &UserId, reward: &RewardId) -> String {
    format!("req-{event}-{member}-{reward}")
}

pub fn of_day(event: &EventId, member: &UserId, day: Day) -> String {
    format!("att-{event}-{member}-{day}-DAILY")
}

pub fn of_milestone(event: &EventId, member: &UserId, day: Day, milestone: i64) -> String {
    format!("att-{event}-{member}-{day}-BONUS-{milestone}")
}

pub fn of_play(event: &EventId, member: &UserId, log: RequestId) -> String {
    format!("rand-{event}-{member}-log-{log}")
}

pub fn of_claim(claim: &ClaimKey, reward: &RewardId) -> String {
    format!("claim-{claim}-{reward}")
}

/// The key of a call that takes back what was given under another.
pub fn of_revocation(key: &str) -> String {
    format!("{key}#revoke")
}

#[cfg(test)]
mod tests {
    use super::{of_claim, of_day, of_milestone, of_play, of_request};
    use crate::entries::Day;
    use crate::id::{ClaimKey, EventId, RewardId, UserId};
    use crate::requests::RequestId;
    use std::collections::HashMap;

    #[test]
    fn as_the_specification_has_them() {
        let (event, member) = (EventId::parse("e_1").unwrap(), UserId::parse("u-7").unwrap());
        let day = Day::parse("2026-03-05").unwrap();
        let log = RequestId::parse("018bcfe5-6800-7000-8000-010000000001").unwrap();
        assert_eq!(of_day(&event, &member, day), "att-e_1-u-7-2026-03-05-DAILY");
        assert_eq!(of_milestone(&event, &member, day, 7), "att-e_1-u-7-2026-03-05-BONUS-7");
        assert_eq!(of_play(&event, &member, log), "rand-e_1-u-7-log-018bcfe5-6800-7000-8000-010000000001");
        assert_eq!(of_request(&event, &member, &RewardId::parse("r.1").unwrap()), "req-e_1-u-7-r.1");
    }

    #[test]
    fn no_two_are_equal_however_members_are_called() {
        let log = "018bcfe5-6800-7000-8000-010000000001";
        let members = [
            "a".to_owned(),
            "a-b".into(),
            "b".into(),
            "a-2026-03-05".into(),
            "a-2026-03-05-DAILY".into(),
            "a-2026-03-05-BONUS-7".into(),
            "a-r".into(),
            "a-r-r".into(),
            format!("a-log-{log}"),
            "-".into(),
            "--".into(),
        ];
        let mut seen = HashMap::new();
        let mut add = |key: String, what: String| {
            if let Some(other) = seen.insert(key.clone(), what.clone()) {
                panic!("{key} is both {other} and {what}");
            }
        };
        for claim in ["12345678", "12345678-r", "12345678-r-r", "--------"] {
            for reward in ["r", "r2"] {
                let key = of_claim(&ClaimKey::parse(claim).unwrap(), &RewardId::parse(reward).unwrap());
                add(key, format!("{claim} {reward}"));
            }
        }
        for event in ["a", "b", "a.b", "a_b"] {
            let event = EventId::parse(event).unwrap();
            for member in &members {
                let who = UserId::parse(member.clone()).unwrap();
                for day in ["2026-03-05", "2026-03-06"] {
                    let day = Day::parse(day).unwrap();
                    add(of_day(&event, &who, day), format!("{event} {who} {day}"));
                    for milestone in [7, 77] {
                        let what = format!("{event} {who} {day} {milestone}");
                        add(of_milestone(&event, &who, day, milestone), what);
                    }
                }
                add(of_play(&event, &who, RequestId::parse(log).unwrap()), format!("{event} {who} play"));
                for reward in ["r", "r2", "DAILY"] {
                    let what = format!("{event} {who} {reward}");
                    add(of_request(&event, &who, &RewardId::parse(reward).unwrap()), what);
                }
            }
        }
    }
}
