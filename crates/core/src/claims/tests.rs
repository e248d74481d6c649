use super::*;
use crate::allocations::Outcome;
use crate::claims::steps::begin;
use crate::events::lifecycle::NewEvent;
use crate::events::{Event, EventBody, EventState};
use crate::id::{ClaimKey, RewardId, UserId};

const RULES: Rules = Rules { tries: 3, retry_delay_ms: 100, timeout_ms: 10_000 };

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn event(policy: &str, rewards: &str) -> Event {
    let body = format!(
        r#"{{"eventId":"gift","name":"Gift","type":"CLAIM","startsAt":0,"endsAt":1000000,"grantPolicy":"{policy}",
            "conditions":"activity.LOGIN_COUNT >= 7","rewards":{rewards}}}"#
    );
    let body: EventBody = serde_json::from_str(&body).unwrap();
    let NewEvent { id, settings } = NewEvent::validate(body).unwrap();
    let remaining_stock = settings.rewards.iter().map(|reward| reward.total_stock).collect();
    Event {
        id,
        state: EventState::Open { opened_at: at(0) },
        settings,
        remaining_stock,
        capacity_remaining: None,
        version: 2,
        created_at: at(0),
        updated_at: at(0),
    }
}

fn two_rewards(policy: &str) -> Event {
    event(
        policy,
        r#"[{"rewardId":"sword","kind":"ITEM","totalStock":5},{"rewardId":"shield","kind":"ITEM","totalStock":5}]"#,
    )
}

fn claim_of(event: &Event) -> Claim {
    let (key, user) = (ClaimKey::parse("key-12345").unwrap(), UserId::parse("u-1").unwrap());
    begin(ClaimId::from_bytes([0x70; 16]), key, user, event, at(1), &RULES).unwrap()
}

fn failure() -> Failure {
    Failure::new("WHY", "because")
}

/// Some state of each status.
fn state_of(status: ClaimStatus) -> State {
    let going = Going::ALL.iter().map(|at| State::Going { at: *at });
    let undoing = Undoing::ALL.iter().map(|at| State::Undoing { at: *at, failure: failure() });
    let refused = Refusal::ALL.iter().map(|by| State::Refused { by: *by, failure: failure() });
    let rest = [
        State::NeedsHand { failure: failure(), trouble: failure() },
        State::RolledBack { failure: failure(), note: None },
        State::Granted { at: at(1) },
        State::PartiallyGranted { at: at(1) },
    ];
    going.chain(undoing).chain(refused).chain(rest).find(|state| state.status() == status).unwrap()
}

#[test]
fn every_move_of_the_table_is_made_and_every_other_is_refused() {
    let event = two_rewards("ALL_OR_NOTHING");
    let mut made = 0;
    for from in ClaimStatus::ALL {
        for to in ClaimStatus::ALL {
            let mut claim = claim_of(&event);
            claim.progress.state = state_of(*from);
            let before = claim.clone();
            let outcome = claim.go(state_of(*to), at(2));
            if MOVES.contains(&(*from, *to)) {
                assert_eq!((outcome, claim.status()), (Ok(()), *to));
                assert_eq!(claim.progress.timeline.last().unwrap().to, *to);
                made += 1;
            } else {
                assert_eq!(outcome, Err(IllegalMove { from: *from, to: *to }));
                assert_eq!(claim, before, "what is refused changes nothing");
            }
        }
    }
    assert_eq!(made, MOVES.len(), "no move is listed twice");
}

#[test]
fn what_each_status_means() {
    use ClaimStatus::CompensationFailedManualInterventionRequired as NeedsHand;
    for status in ClaimStatus::ALL.iter().copied() {
        let is_end = !MOVES.iter().any(|(from, _)| *from == status);
        assert_eq!(is_end, status.is_success() || status.is_failure(), "{status:?}");
        assert_eq!(status.is_pending(), !is_end && status != NeedsHand, "{status:?}");
        let reached = status == S::PendingValidation || MOVES.iter().any(|(_, to)| *to == status);
        assert!(reached, "{status:?}");
        let text = serde_json::to_string(&state_of(status)).unwrap();
        let back: State = serde_json::from_str(&text).unwrap();
        assert_eq!(back, state_of(status), "survives storage");
    }
}

/// What the world says to a claim, by chance.
struct World {
    chance: u64,
    stock: i64,
    /// What the provider holds, by reward.
    applied: Vec<bool>,
    barred: Vec<bool>,
}

impl World {
    fn number(&mut self, below: u64) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 33) % below
    }

    fn grant(&mut self, index: usize) -> Outcome {
        let reason = String::from("why");
        let barred = self.barred[index];
        match self.number(7) {
            0 | 1 if !barred => {
                self.applied[index] = true;
                Outcome::Applied { transaction_id: Some("t".into()) }
            }
            2 if !barred => {
                self.applied[index] = true;
                Outcome::Unknown { reason }
            }
            3 => Outcome::Unknown { reason },
            4 => Outcome::NotApplied { reason, retry_after_ms: Some(50) },
            5 if !self.applied[index] => Outcome::Refused { reason },
            _ => Outcome::Misconfigured { reason },
        }
    }

    fn revoke(&mut self, index: usize) -> Outcome {
        if self.number(3) == 0 {
            return Outcome::Unknown { reason: "why".into() };
        }
        (self.applied[index], self.barred[index]) = (false, true);
        Outcome::Revoked
    }
}

impl World {
    /// Answers whatever a claim needs, or does not.
    fn say(&mut self, claim: &mut Claim, event: &Event, now: Timestamp) {
        let need = claim.need();
        let chance = self.number(1_024);
        let mut returned = Vec::new();
        match need {
            Need::Over => {
                if self.number(2) == 0 {
                    assert!(claim.tried_again(now, &RULES).unwrap());
                } else {
                    // Somebody took it back by hand.
                    self.applied.fill(false);
                    assert!(claim.resolved("seen to", true, now, &mut returned).unwrap());
                }
            }
            Need::Event => {
                let mut event = event.clone();
                if self.number(8) == 0 {
                    event.state =
                        EventState::Cancelled { opened_at: Some(at(0)), closed_at: None, cancelled_at: now };
                }
                claim.event_found(&event, now, &RULES).unwrap();
            }
            Need::User => {
                let found = match self.number(10) {
                    0 => UserFound::Inactive("BANNED".into()),
                    1 => UserFound::Failed("no answer".into()),
                    _ => UserFound::Active,
                };
                claim.user_found(found, now, &RULES).unwrap();
            }
            Need::Conditions => {
                let judged = match self.number(10) {
                    0 => Judged::NotMet(Map::new()),
                    1 => Judged::Failed { reason: "no answer".into(), data: None },
                    _ => Judged::Met(Map::new()),
                };
                claim.judged(judged, now).unwrap();
            }
            Need::Stock => {
                let stocked = match self.number(12) {
                    0 => Stocked::Short(RewardId::parse("sword").unwrap()),
                    1 => Stocked::Lost("others".into()),
                    2 => Stocked::Odd("odd".into()),
                    3 => Stocked::Broken("broken".into()),
                    _ => {
                        self.stock -= claim.wanted_stock().map(|(_, count)| count).sum::<i64>();
                        Stocked::Taken
                    }
                };
                claim.stocked(stocked, now, &RULES).unwrap();
            }
            Need::Grant(index) => {
                claim.calling(need, now.plus_millis(50), now);
                let outcome = self.grant(index);
                // Sometimes nobody hears of it.
                if self.number(10) > 0 {
                    claim.granted(index, &outcome, now, &RULES, chance).unwrap();
                }
            }
            Need::Revoke(index) => {
                claim.calling(need, now.plus_millis(50), now);
                let outcome = self.revoke(index);
                claim.revoked(index, &outcome, now, &RULES, chance).unwrap();
            }
            Need::Return => {
                self.stock += claim.held_stock().map(|(_, count)| count).sum::<i64>();
                claim.returned(now, &RULES).unwrap();
            }
            Need::Nothing => claim.proceed(now, &RULES, &mut returned).unwrap(),
        }
        self.stock += returned.iter().map(|(_, count)| count).sum::<i64>();
    }

    /// What is true of a claim at its end.
    fn check(&self, claim: &Claim) {
        let held: i64 = claim.held_stock().map(|(_, count)| count).sum();
        assert_eq!(self.stock + held, 10, "{claim:?}");
        for (reward, applied) in claim.progress.rewards.iter().zip(&self.applied) {
            let granted = reward.grant == GrantStatus::Success;
            assert_eq!(granted, *applied, "{claim:?}");
            assert!(!reward.in_doubt, "{claim:?}");
            assert_eq!(granted, reward.inventory == InventoryStatus::Allocated, "{claim:?}");
            let lines = [UndoPhase::Started, UndoPhase::Done].map(|phase| {
                let of = |line: &&UndoLine| {
                    (line.action, line.phase) == (UndoAction::ReturnInventory, phase)
                        && line.reward_id.as_ref() == Some(&reward.reward_id)
                };
                claim.progress.log.iter().filter(of).count()
            });
            let times = usize::from(reward.inventory == InventoryStatus::Returned);
            assert_eq!(lines, [times, times], "given back once, with its log: {claim:?}");
        }
        assert!(claim.expires_at.is_none());
        let granted = claim.progress.rewards.iter().any(|reward| reward.grant == GrantStatus::Success);
        assert_eq!(claim.status().is_success(), granted);
    }
}

/// Whatever is said to a claim, in whatever order a claim asks, it ends; what is held, granted and left adds up.
#[test]
fn whatever_happens_it_ends_and_adds_up() {
    use ClaimStatus::CompensationFailedManualInterventionRequired as NeedsHand;
    let mut ends = std::collections::BTreeMap::<ClaimStatus, u32>::new();
    for round in 1..4_000_u64 {
        let event = two_rewards(if round % 2 == 0 { "PARTIAL" } else { "ALL_OR_NOTHING" });
        let chance = round.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut world = World { chance, stock: 10, applied: vec![false; 2], barred: vec![false; 2] };
        let mut claim = claim_of(&event);
        let mut now = at(1);
        while claim.need() != Need::Over || claim.status() == NeedsHand {
            now = now.plus_millis(1);
            assert!(now < at(200), "{claim:?}");
            match world.number(60) {
                0 if claim.status().is_pending() => claim.timed_out(now, &RULES).unwrap(),
                1 if claim.status().is_pending() => claim.broken("disk I/O error", now, &RULES).unwrap(),
                _ => world.say(&mut claim, &event, now),
            }
        }
        world.check(&claim);
        *ends.entry(claim.status()).or_default() += 1;
    }
    for end in ClaimStatus::ALL.iter().filter(|status| status.is_success() || status.is_failure()) {
        // Who has claimed before is told so by the store.
        let unreachable = [S::ValidationFailedAlreadyClaimed];
        assert_eq!(ends.contains_key(end), !unreachable.contains(end), "{end:?} among {ends:?}");
    }
}

#[test]
fn a_call_that_may_be_under_way_is_waited_for_before_it_is_taken_back() {
    let event = two_rewards("ALL_OR_NOTHING");
    let mut claim = claim_of(&event);
    for reward in &mut claim.progress.rewards {
        reward.inventory = InventoryStatus::Allocated;
    }
    claim.progress.state = State::Going { at: Going::RewardGrant };
    (claim.progress.seen_event, claim.progress.seen_user) = (true, true);
    claim.calling(Need::Grant(0), at(5_000), at(10));
    // The process that made the call is gone, and so is the claim's time.
    claim.timed_out(at(20), &RULES).unwrap();
    assert_eq!((claim.status(), claim.need()), (S::PendingCompensationReward, Need::Revoke(0)));
    assert_eq!(claim.progress.not_before, Some(at(5_000)));
    assert_eq!(claim.expires_at, Some(at(10_020)), "and has its own time");
    claim.revoked(0, &Outcome::Revoked, at(5_001), &RULES, 0).unwrap();
    let mut returned = Vec::new();
    claim.proceed(at(5_001), &RULES, &mut returned).unwrap();
    claim.proceed(at(5_001), &RULES, &mut returned).unwrap();
    assert_eq!(claim.status(), S::PendingCompensationInventory);
    claim.returned(at(5_002), &RULES).unwrap();
    assert_eq!(claim.status(), S::FailedRolledBack);
    assert_eq!(claim.progress.state.failure().unwrap().code, "TIMEOUT");
}

#[test]
fn ids_of_transfers_are_a_claims_own() {
    let claim = ClaimId::from_bytes([1, 2, 3, 4, 5, 6, 0x70, 0, 0x80, 9, 9, 9, 9, 9, 9, 9]);
    for reward in [0, 1, 7, 99] {
        assert_eq!(ClaimId::of_transfer(claim.transfer_id(reward)), Some((claim, reward)));
        assert_eq!(ClaimId::of_transfer(claim.refund_id(reward)), None);
        assert_ne!(claim.transfer_id(reward), claim.refund_id(reward));
    }
}
