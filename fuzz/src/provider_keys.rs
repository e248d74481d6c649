//! The keys that providers see: two rewards never have the same.

use crate::lines;
use guerdon_core::allocations::key;
use guerdon_core::entries::Day;
use guerdon_core::requests::RequestId;
use guerdon_core::{ClaimKey, EventId, RewardId, UserId};

/// What one key stands for, in parts that cannot run into each other.
type Meaning = (&'static str, [String; 4]);

pub(crate) fn hold(data: &[u8]) {
    let Some(fields) = lines::<12>(data) else { return };
    let (one, other) = fields.split_at(6);
    let keys: Vec<_> = keys(one).into_iter().chain(keys(other)).collect();
    for (place, (key, meaning)) in keys.iter().enumerate() {
        for (another, meant) in &keys[..place] {
            assert_eq!(key == another, meaning == meant, "{key} and {another}: {meaning:?} and {meant:?}");
        }
    }
}

/// Every key that can be made of an event, a member, a reward, a day, a play's id and a claim's key.
fn keys(fields: &[&str]) -> Vec<(String, Meaning)> {
    let [event, member, reward, day, log, claim] = fields else { return Vec::new() };
    let day_and_milestone = day.split_once(' ').unwrap_or((day, "7"));
    let milestone: i64 = day_and_milestone.1.parse().ok().filter(|days| *days > 0).unwrap_or(7);
    let (event, member) = (EventId::parse(*event), UserId::parse(*member));
    let (reward, claim) = (RewardId::parse(*reward), ClaimKey::parse(*claim));
    let (day, log) = (Day::parse(day_and_milestone.0), RequestId::parse(log));
    let texts = |parts: &[&dyn ToString]| -> [String; 4] {
        std::array::from_fn(|place| parts.get(place).map(|part| (*part).to_string()).unwrap_or_default())
    };
    let mut keys = Vec::new();
    if let (Ok(event), Ok(member)) = (&event, &member) {
        if let Ok(reward) = &reward {
            keys.push((key::of_request(event, member, reward), ("request", texts(&[event, member, reward]))));
        }
        if let Some(day) = day {
            keys.push((key::of_day(event, member, day), ("day", texts(&[event, member, &day]))));
            let meaning = ("milestone", texts(&[event, member, &day, &milestone]));
            keys.push((key::of_milestone(event, member, day, milestone), meaning));
        }
        if let Some(log) = log {
            keys.push((key::of_play(event, member, log), ("play", texts(&[event, member, &log]))));
        }
    }
    if let (Ok(claim), Ok(reward)) = (&claim, &reward) {
        keys.push((key::of_claim(claim, reward), ("claim", texts(&[claim, reward]))));
    }
    keys
}
