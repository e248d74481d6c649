use super::AllocationStatus::{Cancelled, Failed, Pending, Processing, Success};
use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);
const RULES: Rules = Rules { retry_delay_ms: 1_000, max_attempts: 3 };

fn row(status: AllocationStatus, retry_count: i64, unknown: bool, cancelling: bool) -> Allocation {
    let id = RequestId::parse("018bcfe5-6800-7000-8000-010000000001").unwrap();
    Allocation {
        id: AllocationId::from_bytes(*id.derived(1).as_bytes()),
        event_id: EventId::parse("e").unwrap(),
        member_id: UserId::parse("u").unwrap(),
        cause: Cause::Request(id),
        reward_id: RewardId::parse("r").unwrap(),
        provider: "default".into(),
        key: "req-e-u-r".into(),
        status,
        retry_count,
        next_retry_at: Some(NOW),
        trouble: None,
        transaction_id: None,
        processed_at: None,
        epoch: 1,
        outcome_unknown: unknown,
        cancel_requested_at: cancelling.then_some(NOW),
        created_at: NOW,
        trace: None,
    }
}

fn answered(status: u16, transaction_id: Option<&str>) -> Answer {
    Answer::Status { status, transaction_id: transaction_id.map(Into::into), retry_after_ms: None }
}

#[test]
fn what_answers_mean() {
    let name = |outcome: &Outcome| match outcome {
        Outcome::Applied { .. } => "applied",
        Outcome::Unknown { .. } => "unknown",
        Outcome::NotApplied { .. } => "not applied",
        Outcome::Misconfigured { .. } => "misconfigured",
        Outcome::Refused { .. } => "final",
        Outcome::Revoked => "revoked",
    };
    let table = [
        (answered(200, Some("t")), "applied", "revoked"),
        (answered(201, None), "applied", "revoked"),
        (answered(204, None), "applied", "revoked"),
        (answered(409, Some("t")), "applied", "unknown"),
        (answered(409, None), "unknown", "unknown"),
        (answered(500, None), "unknown", "unknown"),
        (answered(502, Some("t")), "unknown", "unknown"),
        (answered(503, None), "unknown", "unknown"),
        (answered(504, None), "unknown", "unknown"),
        (Answer::TimedOut, "unknown", "unknown"),
        (Answer::Lost { reason: "reset".into() }, "unknown", "unknown"),
        (Answer::Refused { reason: "refused".into() }, "not applied", "not applied"),
        (answered(429, None), "not applied", "not applied"),
        (answered(408, None), "not applied", "not applied"),
        (answered(425, None), "not applied", "not applied"),
        (answered(401, None), "misconfigured", "misconfigured"),
        (answered(403, None), "misconfigured", "misconfigured"),
        (answered(404, None), "misconfigured", "misconfigured"),
        (answered(405, None), "misconfigured", "misconfigured"),
        (Answer::Missing, "misconfigured", "misconfigured"),
        (answered(400, None), "final", "unknown"),
        (answered(410, None), "final", "unknown"),
        (answered(422, None), "final", "unknown"),
        // What nobody agreed on.
        (answered(302, None), "unknown", "unknown"),
        (answered(418, None), "unknown", "unknown"),
    ];
    for (answer, granting, revoking) in table {
        assert_eq!(name(&judge(Sent::Grant, answer.clone())), granting, "{answer:?}");
        assert_eq!(name(&judge(Sent::Revoke, answer.clone())), revoking, "{answer:?}");
    }
}

#[test]
fn where_a_delivery_goes() {
    let applied = Outcome::Applied { transaction_id: Some("t".into()) };
    let unknown = Outcome::Unknown { reason: "x".into() };
    let not = Outcome::NotApplied { reason: "x".into(), retry_after_ms: None };
    let wrong = Outcome::Misconfigured { reason: "x".into() };
    let refused = Outcome::Refused { reason: "x".into() };
    // Failures before, whether a try is unknown, whether it is to be cancelled, the outcome; the status, whether it is
    // at its end, failures after, whether a try is unknown.
    let table = [
        (0, false, false, &applied, Success, true, 0, false),
        (2, true, false, &applied, Success, true, 2, false),
        (0, false, true, &applied, Success, true, 0, false),
        (0, false, false, &unknown, Failed, false, 1, true),
        (9, false, false, &unknown, Failed, false, 10, true),
        (0, false, true, &unknown, Failed, false, 1, true),
        (0, false, false, &not, Failed, false, 1, false),
        (2, false, false, &not, Failed, true, 3, false),
        (2, true, false, &not, Failed, false, 3, true),
        (0, false, true, &not, Cancelled, true, 1, false),
        (0, true, true, &not, Failed, false, 1, true),
        (2, false, false, &wrong, Failed, false, 2, false),
        (2, false, true, &wrong, Cancelled, true, 2, false),
        (0, false, false, &refused, Failed, true, 1, false),
        (0, true, false, &refused, Failed, false, 1, true),
        (0, false, true, &refused, Cancelled, true, 1, false),
        (0, true, true, &Outcome::Revoked, Cancelled, true, 0, false),
    ];
    for (failures, doubt, cancelling, outcome, status, ended, after, doubt_after) in table {
        let before = row(Processing, failures, doubt, cancelling);
        let settled = settle(before.clone(), (outcome, false), NOW, &RULES, 0);
        let found = (settled.status, settled.is_final(), settled.retry_count, settled.outcome_unknown);
        let what = format!("{failures} {doubt} {cancelling} {outcome:?}");
        assert_eq!(found, (status, ended, after, doubt_after), "{what}");
        assert!(MOVES.contains(&(before.status, settled.status)), "{what}");
        assert_eq!(settled.processed_at.is_some(), matches!(status, Success | Cancelled), "{what}");
    }
}

#[test]
fn a_key_that_the_provider_does_not_know_stays_in_doubt() {
    let refused = Outcome::Refused { reason: "x".into() };
    let busy = Outcome::NotApplied { reason: "x".into(), retry_after_ms: None };
    // The outcome after the provider said that it knows nothing of the key; whether it is final, and still in doubt.
    for (outcome, ended) in [(&refused, true), (&busy, false)] {
        let settled = settle(row(Processing, 9, true, false), (outcome, true), NOW, &RULES, 0);
        assert_eq!((settled.is_final(), settled.outcome_unknown), (ended, true), "{outcome:?}");
        // So it cannot be cancelled without asking.
        assert!(matches!(wish_cancelled(settled, NOW), Wished::Noted(_)), "{outcome:?}");
    }
}

#[test]
fn what_is_heard_late_counts() {
    let applied = Outcome::Applied { transaction_id: Some("t".into()) };
    let after = |status| settle_late(row(status, 1, true, false), &applied, NOW).map(|row| row.status);
    for (status, expected) in [
        (Processing, None),
        (Success, None),
        (Failed, Some(Success)),
        (Pending, Some(Success)),
        (Cancelled, Some(Cancelled)),
    ] {
        assert_eq!(after(status), expected, "{status:?}");
    }
    let traced = settle_late(row(Cancelled, 0, false, false), &applied, NOW).unwrap();
    assert_eq!(traced.trouble.unwrap().code, "APPLIED_AFTER_CANCEL");
    let refused = Outcome::Refused { reason: "x".into() };
    assert_eq!(settle_late(row(Failed, 0, true, false), &refused, NOW), None);
}

#[test]
fn late_success_after_a_cancellation_leaves_a_trace() {
    let applied = Outcome::Applied { transaction_id: Some("t".into()) };
    let settled = settle(row(Processing, 0, false, true), (&applied, false), NOW, &RULES, 0);
    assert_eq!(settled.trouble.unwrap().code, "CANCEL_TOO_LATE");
    assert!(settled.cancel_requested_at.is_some());
}

#[test]
fn what_operators_can_wish() {
    let name = |wished: &Wished| match wished {
        Wished::Done(row) => row.status.as_str(),
        Wished::Noted(_) => "noted",
        Wished::Already => "already",
        Wished::Refused => "refused",
    };
    // The status, whether a try is unknown, whether it is being cancelled; after a cancel, after a retry.
    let table = [
        (Pending, false, false, "CANCELLED", "PENDING"),
        (Failed, false, false, "CANCELLED", "FAILED"),
        (Failed, true, false, "noted", "FAILED"),
        (Failed, true, true, "already", "FAILED"),
        (Processing, false, false, "noted", "already"),
        (Processing, false, true, "already", "already"),
        (Success, false, false, "refused", "refused"),
        (Cancelled, false, false, "already", "refused"),
    ];
    for (status, doubt, cancelling, cancelled, retried) in table {
        let before = row(status, 5, doubt, cancelling);
        assert_eq!(name(&wish_cancelled(before.clone(), NOW)), cancelled, "{status:?} {doubt}");
        assert_eq!(name(&wish_retried(before.clone(), NOW)), retried, "{status:?} {doubt}");
        if let Wished::Done(after) = wish_cancelled(before.clone(), NOW) {
            assert!(MOVES.contains(&(status, after.status)));
        }
    }
}

#[test]
fn tries_spread_apart_and_are_never_much_rarer_than_hourly() {
    let table = [(1, 0, 1_000), (1, 1_023, 1_249), (2, 0, 2_000), (3, 0, 4_000), (40, 0, 3_600_000)];
    for (failures, chance, wait) in table {
        assert_eq!(RULES.backoff_ms(failures, chance), wait, "{failures}");
    }
    let slow = Rules { retry_delay_ms: 86_400_000, max_attempts: 1 };
    assert_eq!(slow.backoff_ms(5, 0), 86_400_000);
}

#[test]
fn a_transfer_tells_its_allocation_and_is_like_no_other_id() {
    let request = RequestId::parse("018bcfe5-6800-7000-8000-010000000001").unwrap();
    let mut messages = std::collections::HashSet::from([*request.derived(0).as_bytes()]);
    for purpose in 1..=100 {
        let allocation = AllocationId::from_bytes(*request.derived(purpose).as_bytes());
        let transfer = allocation.transfer_id();
        assert_eq!(AllocationId::of_transfer(transfer), allocation);
        assert!(messages.insert(transfer.message_id()), "{purpose}");
    }
}
