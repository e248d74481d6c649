use super::{EventChange, MOVES, Move, NewEvent, decide};
use crate::code::Code;
use crate::events::body::EventBody;
use crate::events::{Event, EventKind, EventState, EventStatus};
use crate::time::Timestamp;
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::from_millis(1_500);

fn body(value: Value) -> EventBody {
    serde_json::from_value(value).unwrap()
}

fn event_of(value: Value) -> Event {
    let new = NewEvent::validate(body(value)).unwrap();
    decide(None, &EventChange::Create(Box::new(new)), NOW).unwrap().event
}

fn drop_event() -> Event {
    event_of(json!({
        "eventId": "drop_1", "name": "Drop", "type": "FIRST_COME", "startsAt": 1_000, "endsAt": 2_000,
        "capacityTotal": 5, "rewards": [{"rewardId": "gift", "kind": "ITEM", "quantity": 2, "totalStock": 10}],
    }))
}

fn in_status(status: EventStatus) -> Event {
    let at = Timestamp::from_millis(1);
    let state = match status {
        EventStatus::Draft => EventState::Draft,
        EventStatus::Open => EventState::Open { opened_at: at },
        EventStatus::Closed => EventState::Closed { opened_at: at, closed_at: at },
        EventStatus::Announced => EventState::Announced { opened_at: at, closed_at: at, announced_at: at },
        EventStatus::Cancelled => {
            EventState::Cancelled { opened_at: None, closed_at: None, cancelled_at: at }
        }
    };
    Event { state, ..drop_event() }
}

fn patch(event: &Event, value: Value) -> Result<Event, Code> {
    let change = EventChange::Patch(Box::new(body(value)));
    decide(Some(event), &change, NOW).map(|decision| decision.event).map_err(|rejection| rejection.code)
}

#[test]
fn the_whole_table_of_moves() {
    for status in EventStatus::ALL {
        for step in Move::ALL {
            let event = in_status(status);
            let outcome = decide(Some(&event), &EventChange::Move(step), NOW);
            let legal = MOVES.iter().find(|(from, legal, _)| *from == status && *legal == step);
            let Some((_, _, to)) = legal else {
                assert_eq!(outcome.unwrap_err().code, Code::EventTransitionRefused, "{status:?} {step:?}");
                continue;
            };
            let decision = outcome.unwrap();
            assert_eq!(decision.event.status(), *to, "{status:?} {step:?}");
            assert_eq!(decision.event.version, event.version + 1);
            assert_eq!(decision.event.updated_at, NOW);
        }
    }
}

#[test]
fn what_is_not_there_cannot_change_and_what_is_cannot_be_made_again() {
    let event = drop_event();
    let new = NewEvent { id: event.id.clone(), settings: event.settings.clone() };
    let again = decide(Some(&event), &EventChange::Create(Box::new(new)), NOW);
    assert_eq!(again.unwrap_err().code, Code::EventExists);
    for change in [EventChange::Move(Move::Open), EventChange::Patch(Box::new(body(json!({}))))] {
        assert_eq!(decide(None, &change, NOW).unwrap_err().code, Code::EventNotFound);
    }
}

#[test]
fn an_event_opens_only_when_it_can_keep_its_promise() {
    let lottery = json!({"eventId": "l", "name": "L", "type": "LOTTERY", "startsAt": 1_000, "endsAt": 2_000,
        "capacityTotal": 1, "lotteryCutoffAt": 1_400});
    let short = json!({"eventId": "s", "name": "S", "type": "FIRST_COME", "startsAt": 1_000, "endsAt": 2_000,
        "capacityTotal": 5, "rewards": [{"rewardId": "gift", "kind": "ITEM", "quantity": 2, "totalStock": 9}]});
    let over = json!({"eventId": "o", "name": "O", "type": "CLAIM", "startsAt": 1_000, "endsAt": 1_500,
        "rewards": [{"rewardId": "gift", "kind": "ITEM"}]});
    for (value, path) in [(lottery, "lotteryCutoffAt"), (short, "rewards[0].totalStock"), (over, "endsAt")] {
        let rejection = decide(Some(&event_of(value)), &EventChange::Move(Move::Open), NOW).unwrap_err();
        assert_eq!(rejection.code, Code::EventNotReady);
        assert_eq!(rejection.fields[0].path, path);
    }
}

#[test]
fn a_draft_takes_any_change_that_validates() {
    let event = drop_event();
    let patched = patch(&event, json!({"name": "New", "capacityTotal": 9, "rewards": null})).unwrap();
    assert_eq!(patched.settings.name, "New");
    assert_eq!(patched.settings.kind, EventKind::FirstCome { capacity_total: 9 });
    assert!(patched.settings.rewards.is_empty() && patched.remaining_stock.is_empty());
    assert_eq!(patch(&event, json!({})).unwrap().settings, event.settings);
    for refused in [
        json!({"name": null}),
        json!({"endsAt": 1}),
        json!({"eventId": "other"}),
        json!({"type": "CLAIM"}),
        json!({"lotteryCutoffAt": 1_500}),
    ] {
        assert_eq!(patch(&event, refused.clone()).unwrap_err(), Code::InvalidFields, "{refused}");
    }
}

#[test]
fn a_patch_keeps_what_every_type_had() {
    for value in [
        json!({"type": "LOTTERY", "capacityTotal": 1, "lotteryCutoffAt": 1_900, "publicNonceSource": "beacon"}),
        json!({"type": "CLAIM", "conditions": "activity.N > 1", "grantPolicy": "PARTIAL"}),
        json!({"type": "ATTENDANCE", "attendance": {"count": "STREAK", "daily": "r"}}),
        json!({"type": "RANDOM", "random": {"perDay": 2, "prizes": [{"rewardId": "r", "weight": 3}], "fallback": "r"}}),
    ] {
        let mut whole = json!({"eventId": "e", "name": "E", "startsAt": 1_000, "endsAt": 2_000, "rewards": [
            {"rewardId": "r", "kind": "COUPON", "couponId": "c", "provider": "p", "details": {"a": 1}}]});
        for (key, field) in value.as_object().unwrap() {
            whole[key] = field.clone();
        }
        let event = event_of(whole);
        let mut expected = event.settings.clone();
        expected.name = "Renamed".into();
        assert_eq!(patch(&event, json!({"name": "Renamed"})).unwrap().settings, expected);
    }
}

#[test]
fn an_open_event_takes_very_little() {
    let event = in_status(EventStatus::Open);
    assert_eq!(patch(&event, json!({"name": "N"})).unwrap().settings.name, "N");
    let later = patch(&event, json!({"endsAt": 3_000})).unwrap();
    assert_eq!(later.settings.ends_at, Timestamp::from_millis(3_000));
    for (value, code) in [
        (json!({"endsAt": 1_999}), Code::InvalidFields),
        (json!({"endsAt": null}), Code::InvalidFields),
        (json!({"name": ""}), Code::InvalidFields),
        (json!({"random": {"prizes": [], "effectiveAt": 1_600}}), Code::InvalidFields),
        (json!({"startsAt": 1}), Code::EventFieldFrozen),
        (json!({"capacityTotal": 6}), Code::EventFieldFrozen),
        (json!({"rewards": null}), Code::EventFieldFrozen),
        (json!({"conditions": "true"}), Code::EventFieldFrozen),
    ] {
        assert_eq!(patch(&event, value.clone()).unwrap_err(), code, "{value}");
    }
    for status in [EventStatus::Closed, EventStatus::Announced, EventStatus::Cancelled] {
        assert_eq!(
            patch(&in_status(status), json!({"name": "N"})).unwrap_err(),
            Code::EventTransitionRefused
        );
    }
}

#[test]
fn new_odds_of_an_open_game_are_a_new_version() {
    let draft = event_of(
        json!({"eventId": "g", "name": "G", "type": "RANDOM", "startsAt": 1_000, "endsAt": 9_000,
        "rewards": [{"rewardId": "r", "kind": "ITEM"}], "random": {"prizes": [{"rewardId": "r", "weight": 1}]}}),
    );
    let event = Event { state: EventState::Open { opened_at: NOW }, ..draft };
    let odds = |at: i64| json!({"random": {"prizes": [{"rewardId": "r", "weight": 2}], "effectiveAt": at}});
    let patched = patch(&event, odds(6_500)).unwrap();
    let EventKind::Random { odds: versions, .. } = &patched.settings.kind else { panic!("not a game") };
    assert_eq!(versions.iter().map(|odds| odds.version).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(patch(&patched, odds(6_500)).unwrap_err(), Code::InvalidFields, "not after the newest");
    assert_eq!(patch(&event, odds(1_499)).unwrap_err(), Code::InvalidFields, "in the past");
    for refused in [
        json!({"random": {"prizes": [{"rewardId": "r", "weight": 2}]}}),
        json!({"random": {"prizes": [{"rewardId": "x", "weight": 2}], "effectiveAt": 6_500}}),
        json!({"random": {"perDay": 1, "prizes": [{"rewardId": "r", "weight": 2}], "effectiveAt": 6_500}}),
        json!({"random": null}),
    ] {
        assert_eq!(patch(&event, refused.clone()).unwrap_err(), Code::InvalidFields, "{refused}");
    }
}
