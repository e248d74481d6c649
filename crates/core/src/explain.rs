//! Why somebody did or did not get what an event gives: the reasons by name, with the facts behind each. Pages put them in words.

use crate::allocations::AllocationStatus;
use crate::allocations::view::AllocationView;
use crate::claims::view::ClaimView;
use crate::entries::Standing;
use crate::events::settings::AttendanceCount;
use crate::events::{Event, EventKind, EventStatus, EventView};
use crate::requests::{RequestView, ResultCode};
use crate::time::Timestamp;
use crate::users::UserStatus;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

crate::named::named! {
    /// What came of it, all in all.
    Verdict {
        Got "GOT",
        PartlyGot "PARTLY_GOT",
        OnItsWay "ON_ITS_WAY",
        NotGot "NOT_GOT",
        NeverAsked "NEVER_ASKED",
    }
}

crate::named::named! {
    ReasonCode {
        UserNotActive "USER_NOT_ACTIVE",
        EventNotOpened "EVENT_NOT_OPENED",
        EventNotStarted "EVENT_NOT_STARTED",
        EventEnded "EVENT_ENDED",
        EventClosed "EVENT_CLOSED",
        EventCancelled "EVENT_CANCELLED",
        DidNotAsk "DID_NOT_ASK",
        InLine "IN_LINE",
        NotDrawnYet "NOT_DRAWN_YET",
        Won "WON",
        CapacityFull "CAPACITY_FULL",
        LotteryLost "LOTTERY_LOST",
        RequestFailed "REQUEST_FAILED",
        ClaimGranted "CLAIM_GRANTED",
        ClaimPartlyGranted "CLAIM_PARTLY_GRANTED",
        ClaimGoesOn "CLAIM_GOES_ON",
        ClaimNeedsHand "CLAIM_NEEDS_HAND",
        ClaimFailed "CLAIM_FAILED",
        TookPart "TOOK_PART",
        BonusNotReached "BONUS_NOT_REACHED",
        Delivered "DELIVERED",
        DeliveryWaits "DELIVERY_WAITS",
        DeliveryRetried "DELIVERY_RETRIED",
        DeliveryGivenUp "DELIVERY_GIVEN_UP",
        DeliveryCancelled "DELIVERY_CANCELLED",
    }
}

/// One reason, and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Reason {
    pub code: ReasonCode,
    /// By name: places, times, statuses, error codes.
    #[schema(value_type = Object)]
    pub facts: Map<String, Value>,
}

/// What is known of one user at one event.
pub struct Facts<'a> {
    pub event: &'a Event,
    /// As the registry has it; none where it does not know the user.
    pub user_status: Option<UserStatus>,
    pub request: Option<&'a RequestView>,
    /// The newest first.
    pub claims: &'a [ClaimView],
    pub standing: Option<Standing>,
    pub allocations: &'a [AllocationView],
    pub now: Timestamp,
}

/// One user at one event: what came of it, why, and everything that was looked at.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplanationView {
    pub event_id: String,
    pub user_id: String,
    pub verdict: Verdict,
    /// The most telling first.
    pub reasons: Vec<Reason>,
    /// As the registry has it; `null` where it does not know the user.
    pub user_status: Option<UserStatus>,
    pub event: EventView,
    pub request: Option<RequestView>,
    pub claims: Vec<ClaimView>,
    pub allocations: Vec<AllocationView>,
}

/// How many of the things that somebody could get stand where.
#[derive(Default)]
struct Tally {
    granted: usize,
    waiting: usize,
    lost: usize,
}

impl Tally {
    const fn verdict(&self) -> Verdict {
        match self {
            Self { waiting: 1.., .. } => Verdict::OnItsWay,
            Self { granted: 1.., lost: 0, .. } => Verdict::Got,
            Self { granted: 1.., .. } => Verdict::PartlyGot,
            _ => Verdict::NotGot,
        }
    }
}

pub fn explain(facts: &Facts<'_>) -> (Verdict, Vec<Reason>) {
    let mut reasons = Vec::new();
    let mut tally = Tally::default();
    let asked = facts.request.is_some() || !facts.claims.is_empty() || facts.standing.is_some();
    if let Some(status) = facts.user_status.filter(|status| !status.is_active()) {
        reasons.push(reason(ReasonCode::UserNotActive, json!({"status": status})));
    }
    if !asked {
        reasons.push(reason(ReasonCode::DidNotAsk, json!({})));
        reasons.extend(of_event(facts));
        return (Verdict::NeverAsked, reasons);
    }
    if let Some(request) = facts.request {
        reasons.push(of_request(facts.event, request, facts.allocations.is_empty(), &mut tally));
    }
    reasons.extend(of_claims(facts.claims, &mut tally));
    if let Some(standing) = facts.standing {
        reasons.extend(of_standing(facts.event, standing));
        if facts.allocations.is_empty() {
            tally.lost += 1;
        }
    }
    reasons.extend(facts.allocations.iter().map(|allocation| of_allocation(allocation, &mut tally)));
    if facts.event.status() == EventStatus::Cancelled {
        reasons.extend(of_event(facts));
    }
    (tally.verdict(), reasons)
}

fn reason(code: ReasonCode, facts: Value) -> Reason {
    let facts = match facts {
        Value::Object(facts) => facts,
        _ => Map::new(),
    };
    Reason { code, facts }
}

/// What kept everybody from asking.
fn of_event(facts: &Facts<'_>) -> Option<Reason> {
    let (event, times) = (facts.event, facts.event.state.times());
    let (starts_at, ends_at) = (event.settings.starts_at, event.settings.ends_at);
    Some(match event.status() {
        EventStatus::Draft => reason(ReasonCode::EventNotOpened, json!({})),
        EventStatus::Cancelled => reason(ReasonCode::EventCancelled, json!({"at": times.cancelled_at})),
        EventStatus::Closed | EventStatus::Announced => {
            reason(ReasonCode::EventClosed, json!({"at": times.closed_at}))
        }
        EventStatus::Open if facts.now < starts_at => {
            reason(ReasonCode::EventNotStarted, json!({"at": starts_at}))
        }
        EventStatus::Open if facts.now >= ends_at => reason(ReasonCode::EventEnded, json!({"at": ends_at})),
        EventStatus::Open => return None,
    })
}

fn of_request(event: &Event, request: &RequestView, gives_nothing: bool, tally: &mut Tally) -> Reason {
    let capacity = event.settings.kind.capacity_total();
    let place = || json!({"position": request.position, "capacityTotal": capacity, "at": request.finished_at, "requestId": request.request_id});
    match request.result_code {
        None => {
            tally.waiting += 1;
            let code = match event.settings.kind {
                EventKind::Lottery { .. } => ReasonCode::NotDrawnYet,
                _ => ReasonCode::InLine,
            };
            let facts = json!({"position": request.position, "ahead": request.ahead,
                "at": request.lottery_cutoff_at, "requestId": request.request_id});
            reason(code, facts)
        }
        Some(ResultCode::Success) => {
            // What was won is counted below, where there is anything to deliver.
            tally.granted += usize::from(gives_nothing);
            reason(ReasonCode::Won, place())
        }
        Some(result) => {
            tally.lost += 1;
            match result {
                ResultCode::RejectedCapacity => reason(ReasonCode::CapacityFull, place()),
                ResultCode::RejectedLotteryLose => reason(ReasonCode::LotteryLost, place()),
                ResultCode::RejectedEventCancelled => reason(ReasonCode::EventCancelled, place()),
                other => {
                    let facts = json!({"resultCode": other, "at": request.finished_at, "requestId": request.request_id});
                    reason(ReasonCode::RequestFailed, facts)
                }
            }
        }
    }
}

/// One that went well makes those before it history.
fn of_claims(claims: &[ClaimView], tally: &mut Tally) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let succeeded = claims.iter().any(|claim| claim.status.is_success());
    for claim in claims {
        let code = if claim.status.is_success() {
            tally.granted += 1;
            let all =
                claim.rewards_to_process.iter().all(|reward| reward.transaction_id_from_provider.is_some());
            tally.lost += usize::from(!all);
            if all { ReasonCode::ClaimGranted } else { ReasonCode::ClaimPartlyGranted }
        } else if claim.status.is_pending() {
            tally.waiting += 1;
            ReasonCode::ClaimGoesOn
        } else if claim.status.is_failure() {
            tally.lost += usize::from(!succeeded);
            ReasonCode::ClaimFailed
        } else {
            tally.waiting += 1;
            ReasonCode::ClaimNeedsHand
        };
        let facts = json!({"status": claim.status, "step": claim.current_saga_step, "requestId": claim.request_id,
            "failureReason": claim.failure_reason, "failureMessage": claim.failure_message, "at": claim.updated_at});
        reasons.push(reason(code, facts));
    }
    reasons
}

fn of_standing(event: &Event, standing: Standing) -> Vec<Reason> {
    let mut reasons =
        vec![reason(ReasonCode::TookPart, json!({"total": standing.total, "run": standing.run}))];
    if let EventKind::Attendance { bonus, count, .. } = &event.settings.kind {
        let reached = match count {
            AttendanceCount::Total => standing.total,
            AttendanceCount::Streak => standing.run,
        };
        let next = bonus.iter().filter(|bonus| bonus.days > reached).min_by_key(|bonus| bonus.days);
        let facts = |days: i64| json!({"days": days, "reached": reached, "count": count});
        reasons.extend(next.map(|bonus| reason(ReasonCode::BonusNotReached, facts(bonus.days))));
    }
    reasons
}

fn of_allocation(allocation: &AllocationView, tally: &mut Tally) -> Reason {
    let code = match allocation.reward_status {
        AllocationStatus::Success => {
            tally.granted += 1;
            ReasonCode::Delivered
        }
        AllocationStatus::Cancelled => {
            tally.lost += 1;
            ReasonCode::DeliveryCancelled
        }
        AllocationStatus::Failed if allocation.next_retry_at.is_none() => {
            tally.lost += 1;
            ReasonCode::DeliveryGivenUp
        }
        status => {
            tally.waiting += 1;
            let tried = status == AllocationStatus::Failed || allocation.retry_count > 0;
            if tried { ReasonCode::DeliveryRetried } else { ReasonCode::DeliveryWaits }
        }
    };
    let facts = json!({"rewardId": allocation.reward_id, "allocationId": allocation.allocation_id,
        "retryCount": allocation.retry_count, "nextRetryAt": allocation.next_retry_at,
        "errorCode": allocation.error_code, "errorMessage": allocation.error_message,
        "transactionId": allocation.external_transaction_id, "at": allocation.processed_at});
    reason(code, facts)
}

#[cfg(test)]
mod tests {
    use super::{AllocationStatus, AllocationView, Reason, ReasonCode, Tally, Verdict, of_allocation};
    use crate::time::Timestamp;

    fn allocation(status: AllocationStatus, retry_count: i64, next_retry_at: Option<i64>) -> AllocationView {
        AllocationView {
            allocation_id: "a".into(),
            event_id: "e".into(),
            member_id: "u".into(),
            reward_id: "r".into(),
            reward_status: status,
            idempotency_key: "k".into(),
            retry_count,
            next_retry_at: next_retry_at.map(Timestamp::from_millis),
            error_code: None,
            error_message: None,
            external_transaction_id: None,
            processed_at: None,
            created_at: Timestamp::from_millis(1),
            request_id: None,
            entry_id: None,
            provider: None,
            outcome_unknown: None,
            cancel_requested_at: None,
        }
    }

    #[test]
    fn where_a_delivery_stands_says_whether_it_will_come() {
        use AllocationStatus::{Cancelled, Failed, Pending, Processing, Success};
        // (status, failed tries, when it is tried again) -> the reason, and (granted, waiting, lost)
        for (status, tries, next, code, counted) in [
            (Success, 0, None, ReasonCode::Delivered, (1, 0, 0)),
            (Pending, 0, Some(5), ReasonCode::DeliveryWaits, (0, 1, 0)),
            (Processing, 0, Some(5), ReasonCode::DeliveryWaits, (0, 1, 0)),
            (Processing, 2, Some(5), ReasonCode::DeliveryRetried, (0, 1, 0)),
            (Failed, 1, Some(5), ReasonCode::DeliveryRetried, (0, 1, 0)),
            (Failed, 0, Some(5), ReasonCode::DeliveryRetried, (0, 1, 0)),
            (Failed, 10, None, ReasonCode::DeliveryGivenUp, (0, 0, 1)),
            (Cancelled, 0, None, ReasonCode::DeliveryCancelled, (0, 0, 1)),
        ] {
            let mut tally = Tally::default();
            let Reason { code: found, facts } = of_allocation(&allocation(status, tries, next), &mut tally);
            assert_eq!(found, code, "{status:?} {tries} {next:?}");
            assert_eq!((tally.granted, tally.waiting, tally.lost), counted, "{status:?} {tries} {next:?}");
            assert_eq!(facts["rewardId"], "r");
        }
    }

    #[test]
    fn what_waits_comes_before_what_was_lost() {
        for (granted, waiting, lost, verdict) in [
            (1, 0, 0, Verdict::Got),
            (2, 0, 1, Verdict::PartlyGot),
            (1, 1, 1, Verdict::OnItsWay),
            (0, 1, 0, Verdict::OnItsWay),
            (0, 0, 1, Verdict::NotGot),
            (0, 0, 0, Verdict::NotGot),
        ] {
            assert_eq!(Tally { granted, waiting, lost }.verdict(), verdict, "{granted} {waiting} {lost}");
        }
    }
}
