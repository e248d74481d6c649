//! What goes wrong, and how often: by chance from a seed, or one by one from a script.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// What the service does wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Faults {
    /// The same seed, the same faults.
    pub seed: u64,
    pub rates: Rates,
    /// The longest that an answer takes, in milliseconds; each takes as long as chance has it.
    pub delay_ms: u64,
    /// How long what is `late` takes, and what `hangs`.
    pub late_ms: u64,
    /// Answers everything with this status, and applies nothing.
    pub status: Option<u16>,
    /// Whether it cannot be asked what was applied: 405.
    pub no_lookup: bool,
    /// Answers every revocation with this status, and takes nothing back.
    pub revoke_status: Option<u16>,
    /// What happens to the next revocations, in this order, before anything else.
    pub revocations: VecDeque<Scripted>,
    /// The service that knows who is active.
    pub auth: ServiceFaults,
    /// The service that knows who did what.
    pub game_data: ServiceFaults,
    /// What happens to the next grants, in this order, before anything else.
    pub next: VecDeque<Scripted>,
    /// The same for the grants of a reward.
    pub by_reward: BTreeMap<String, VecDeque<Scripted>>,
}

/// What a service that is only asked does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ServiceFaults {
    /// Answers everything with this status.
    pub status: Option<u16>,
    /// How many of all answers are 503, from 0 to 1.
    pub fails: f64,
    /// How long every answer takes, in milliseconds.
    pub delay_ms: u64,
}

/// How many of all grants, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Rates {
    /// 503, and nothing was applied.
    pub fails: f64,
    /// 500, and it was applied all the same.
    pub fails_after: f64,
    /// Applied after `lateMs`, when nobody waits any more.
    pub late: f64,
    /// No answer for `lateMs`, and nothing was applied.
    pub hangs: f64,
    /// Applied, and the connection is lost before the answer is whole.
    pub loses: f64,
    /// 429 with `Retry-After: 1`.
    pub busy: f64,
    /// 409 without a transaction: somebody is at it.
    pub conflicts: f64,
}

/// What happens to one grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scripted {
    /// What is answered; 200 unless set.
    #[serde(default = "ok")]
    pub status: u16,
    /// Whether it is applied; as with a 200 unless set.
    #[serde(default)]
    pub applies: Option<bool>,
    /// Whether the answer names the transaction.
    #[serde(default = "yes")]
    pub tells: bool,
    #[serde(default)]
    pub delay_ms: u64,
    #[serde(default)]
    pub retry_after: Option<u64>,
    /// Loses the connection before the answer is whole.
    #[serde(default)]
    pub loses: bool,
    /// Applies only after the delay; otherwise at once.
    #[serde(default)]
    pub late: bool,
}

fn ok() -> u16 {
    200
}

fn yes() -> bool {
    true
}

impl Scripted {
    pub(crate) const SOUND: Self = Self {
        status: 200,
        applies: None,
        tells: true,
        delay_ms: 0,
        retry_after: None,
        loses: false,
        late: false,
    };

    pub(crate) fn does_apply(&self) -> bool {
        self.applies.unwrap_or((200..300).contains(&self.status))
    }
}

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) faults: Faults,
    chance: u64,
}

impl Program {
    pub(crate) fn new(faults: Faults) -> Self {
        // Zero would stay zero.
        let chance = faults.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { faults, chance }
    }

    /// A number from 0 to 1.
    pub(crate) fn chance(&mut self) -> f64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        f64::from(u32::try_from(self.chance >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    /// What happens to the next revocation.
    pub(crate) fn next_revocation(&mut self) -> Scripted {
        let status = self.faults.revoke_status;
        let failing = status.map(|status| Scripted { status, applies: Some(false), ..Scripted::SOUND });
        self.faults.revocations.pop_front().or(failing).unwrap_or(Scripted::SOUND)
    }

    /// What happens to the next grant.
    pub(crate) fn next(&mut self, reward_id: &str) -> Scripted {
        let of_reward = self.faults.by_reward.get_mut(reward_id).and_then(VecDeque::pop_front);
        if let Some(scripted) = of_reward.or_else(|| self.faults.next.pop_front()) {
            return scripted;
        }
        if let Some(status) = self.faults.status {
            return Scripted { status, applies: Some(false), tells: false, ..Scripted::SOUND };
        }
        let share = self.chance();
        let delay_ms = self.chance() * f64::from(u32::try_from(self.faults.delay_ms).unwrap_or(u32::MAX));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below a u32")]
        let delay_ms = delay_ms as u64;
        let (rates, late_ms) = (self.faults.rates, self.faults.late_ms);
        let sound = Scripted { delay_ms, ..Scripted::SOUND };
        let failing = |status| Scripted { status, applies: Some(false), tells: false, ..sound };
        let table = [
            (rates.fails, failing(503)),
            (rates.fails_after, Scripted { status: 500, applies: Some(true), tells: false, ..sound }),
            (rates.late, Scripted { delay_ms: late_ms, late: true, ..sound }),
            (rates.hangs, Scripted { delay_ms: late_ms, ..failing(503) }),
            (rates.loses, Scripted { loses: true, ..sound }),
            (rates.busy, Scripted { retry_after: Some(1), ..failing(429) }),
            (rates.conflicts, failing(409)),
        ];
        let mut below = 0.0;
        for (rate, scripted) in table {
            below += rate;
            if share < below {
                return scripted;
            }
        }
        sound
    }
}

#[cfg(test)]
mod tests {
    use super::{Faults, Program, Rates, Scripted};

    #[test]
    fn the_same_seed_does_the_same() {
        let rates = Rates { fails: 0.3, late: 0.2, ..Rates::default() };
        let faults = Faults { seed: 7, rates, late_ms: 50, ..Faults::default() };
        let run = || {
            let mut program = Program::new(faults.clone());
            (0..1_000).map(|_| program.next("r")).collect::<Vec<_>>()
        };
        let first = run();
        assert_eq!(first, run());
        let count = |wanted: fn(&Scripted) -> bool| first.iter().filter(|one| wanted(one)).count();
        assert!((230..370).contains(&count(|one| one.status == 503)));
        assert!((140..260).contains(&count(|one| one.late)));
    }

    #[test]
    fn a_script_comes_first_and_a_reward_has_its_own() {
        let one = |status| Scripted { status, ..Scripted::SOUND };
        let faults = Faults {
            next: [one(500), one(429)].into(),
            by_reward: [("r".to_owned(), [one(422)].into())].into(),
            status: Some(401),
            ..Faults::default()
        };
        let mut program = Program::new(faults);
        let statuses: Vec<_> =
            ["x", "r", "r", "x"].into_iter().map(|reward| program.next(reward).status).collect();
        assert_eq!(statuses, [500, 422, 429, 401]);
    }
}
