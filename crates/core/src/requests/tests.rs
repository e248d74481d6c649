use super::line::Tally;
use super::view::RequestView;
use super::{LineKey, MOVES, Request, RequestId, RequestState, ResultCode, admit, decide};
use crate::code::Code;
use crate::events::lifecycle::{EventChange, NewEvent, decide as decide_event};
use crate::events::{Event, EventState, EventType};
use crate::time::Timestamp;
use serde_json::{Value, json};
use std::collections::HashSet;

const AT: fn(i64) -> Timestamp = Timestamp::from_millis;

fn event(extra: &Value) -> Event {
    let mut body = json!({"eventId": "e", "name": "E", "type": "FIRST_COME", "startsAt": 100, "endsAt": 200,
        "capacityTotal": 2, "rewards": [{"rewardId": "r", "kind": "ITEM"}]});
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    let new = NewEvent::validate(serde_json::from_value(body).unwrap()).unwrap();
    decide_event(None, &EventChange::Create(Box::new(new)), AT(1)).unwrap().event
}

#[test]
fn who_is_admitted_when() {
    let open = EventState::Open { opened_at: AT(1) };
    let lottery = json!({"type": "LOTTERY", "lotteryCutoffAt": 150});
    let claim = json!({"type": "CLAIM", "capacityTotal": null});
    let closed = EventState::Closed { opened_at: AT(1), closed_at: AT(2) };
    for (kind, state, now, outcome) in [
        (json!({}), open, 100, None),
        (json!({}), open, 199, None),
        (json!({}), open, 99, Some(Code::EventNotOpen)),
        (json!({}), open, 200, Some(Code::EventNotOpen)),
        (json!({}), closed, 150, Some(Code::EventNotOpen)),
        (lottery.clone(), open, 149, None),
        (lottery, open, 150, Some(Code::EventNotOpen)),
        (claim, open, 150, Some(Code::EventWrongType)),
    ] {
        let event = Event { state, ..event(&kind) };
        assert_eq!(admit(&event, AT(now)).err().map(|rejection| rejection.code), outcome, "{kind} {now}");
    }
}

#[test]
fn the_first_ones_win_and_a_lottery_waits() {
    use ResultCode::{RejectedCapacity, Success};
    for (kind, places, joining, outcome) in [
        (EventType::FirstCome, 2, 3, vec![Some(Success), Some(Success), Some(RejectedCapacity)]),
        (EventType::FirstCome, 0, 1, vec![Some(RejectedCapacity)]),
        (EventType::FirstCome, 5, 0, vec![]),
        (EventType::Lottery, 5, 2, vec![None, None]),
    ] {
        assert_eq!(decide(kind, places, joining), outcome);
    }
}

#[test]
fn results_survive_storage_and_lead_to_one_status() {
    for code in ResultCode::ALL {
        assert_eq!(ResultCode::from_number(code.number()), Some(*code));
        assert!(MOVES.iter().any(|(_, to)| *to == code.status()));
    }
    assert_eq!(ResultCode::from_number(0), None);
    let key = LineKey::new(7, 123_456);
    assert_eq!((key.event_key(), key.position()), (7, 123_456));
    assert_eq!(LineKey::from_raw(key.raw()), key);
    assert!(LineKey::new(7, (1 << 40) - 1) < LineKey::new(8, 1));
}

#[test]
fn derived_ids_differ_and_are_repeatable() {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let ids: Vec<_> = (1..50).map(|position| RequestId::at(LineKey::new(3, position), now)).collect();
    let derived: Vec<_> =
        ids.iter().flat_map(|id| (0..100).map(|purpose| (purpose, id.derived(purpose)))).collect();
    let different: HashSet<_> = derived.iter().map(|(_, id)| id).chain(&ids).collect();
    assert_eq!(different.len(), 49 * 101);
    let of_one_purpose = derived.iter().filter(|(purpose, _)| *purpose == 7).map(|(_, id)| id);
    assert!(of_one_purpose.is_sorted());
    assert_eq!(ids[4].derived(5), derived[405].1);
}

#[test]
fn an_id_tells_its_place() {
    let now = Timestamp::from_millis(1_700_000_000_000);
    for (event_key, position) in [(1, 1), (7, 123_456), ((1 << 22) - 1, (1 << 40) - 1)] {
        let key = LineKey::new(event_key, position);
        let id = RequestId::at(key, now);
        assert_eq!(id.place(), Some(key));
        assert_eq!(RequestId::parse(&id.to_string()), Some(id));
        assert_eq!(id.derived(0).place(), None);
        assert_eq!(&id.to_string()[14..15], "7");
        assert!(id < RequestId::at(LineKey::new(event_key, 1), now.plus_millis(1)));
    }
    assert_eq!(RequestId::parse("0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001").unwrap().place(), None);
}

#[test]
fn latencies_are_kept_in_buckets() {
    let mut tally = Tally::default();
    assert_eq!(tally.percentile(500), None);
    for millis in [0, 1, 1, 3, 1_000] {
        tally.add(ResultCode::Success, AT(1_000), AT(1_000 + millis));
    }
    assert_eq!(tally.decided(), 5);
    assert_eq!((tally.percentile(500), tally.percentile(990)), (Some(1), Some(4)));
    assert_eq!(tally.percentile(1_000), Some(1_024));
    tally.add(ResultCode::Success, AT(5), AT(0));
    let stored = serde_json::to_string(&tally).unwrap();
    assert_eq!(serde_json::from_str::<Tally>(&stored).unwrap(), tally);
}

#[test]
fn a_request_tells_its_story() {
    let request = Request {
        id: RequestId::parse("0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001").unwrap(),
        event_id: crate::EventId::parse("drop_1").unwrap(),
        user_id: crate::UserId::parse("u-1").unwrap(),
        event_type: EventType::FirstCome,
        position: 17,
        requested_at: AT(1),
        queued_at: AT(2),
        state: RequestState::Finished { result: ResultCode::Success, started_at: AT(3), finished_at: AT(4) },
    };
    let view = serde_json::to_value(RequestView::of(&request, 20, None, AT(5))).unwrap();
    assert_eq!(
        view,
        json!({"requestId": "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001", "eventId": "drop_1", "userId": "u-1",
            "eventType": "FIRST_COME", "status": "SUCCEEDED", "uiResult": "SUCCESS", "resultCode": "SUCCESS",
            "position": 17, "ahead": 0, "requestedAt": 1, "queuedAt": 2, "startedAt": 3, "finishedAt": 4,
            "duplicate": false, "idempotencyKey": "IDEMP#drop_1#u-1", "timeline": [
                {"from": null, "to": "RECEIVED", "at": 1}, {"from": "RECEIVED", "to": "QUEUED", "at": 2},
                {"from": "QUEUED", "to": "PROCESSING", "at": 3}, {"from": "PROCESSING", "to": "SUCCEEDED", "at": 4}]})
    );
    let waiting = Request { state: RequestState::Queued, ..request };
    let view = RequestView::of(&waiting, 10, None, AT(5));
    assert_eq!((view.ahead, view.timeline.len(), view.result_code), (6, 2, None));
}
