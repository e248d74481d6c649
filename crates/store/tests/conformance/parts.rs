//! What the parts store comes back as it was.

use crate::fixture::{Fixture, NOW};
use crate::on_every_engine;
use guerdon_core::audit::{Action, Actor, AuditEntry};
use guerdon_core::events::lifecycle::{EventChange, Move, NewEvent, decide};
use guerdon_core::events::{Event, EventStatus};
use guerdon_core::users::UserStatus;
use guerdon_core::{Timestamp, UserId};
use guerdon_store::audit_log::Target;
use guerdon_store::{Command, Fault, Priority, Tx, audit_log, each, events, requests, users};
use serde_json::json;

on_every_engine! {
    events_come_back_as_they_were
    an_event_is_updated_only_from_the_version_that_was_read
    events_are_listed_page_by_page
    users_and_who_is_not_active
    the_audit_log_has_no_gaps
    a_row_that_fits_no_state_is_named
}

/// Runs a closure as a command, so that it goes through the committer like everything else.
struct Write<T>(Box<dyn Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + Sync>);

impl<T: Send + 'static> Command for Write<T> {
    type Output = T;
    const NAME: &'static str = "write";
    const PRIORITY: Priority = Priority::Operator;
    fn apply(tx: &mut Tx<'_>, batch: &[Self]) -> Result<Vec<T>, Fault> {
        each(batch, |write| (write.0)(tx))
    }
}

fn write<T: Send + 'static>(
    opened: &crate::fixture::Opened,
    run: impl Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + Sync + 'static,
) -> T {
    opened.run(Write(Box::new(run))).unwrap()
}

fn read<T: Send + 'static>(
    opened: &crate::fixture::Opened,
    run: impl Fn(&mut Tx<'_>) -> Result<T, Fault> + Send + 'static,
) -> T {
    opened.store.read(run).unwrap().blocking_recv().unwrap().unwrap()
}

fn new_event(id: &str, starts_at: i64, extra: serde_json::Value) -> Event {
    let mut body = json!({"eventId": id, "name": "이벤트 ✓", "startsAt": starts_at, "endsAt": 9_000_000_000_000_i64, "rewards": [
        {"rewardId": "p", "kind": "POINT", "amount": 12.3456, "currency": "KRW", "provider": "bank"},
        {"rewardId": "c", "kind": "COUPON", "couponId": "c_1", "totalStock": 3},
        {"rewardId": "i", "kind": "ITEM", "quantity": 2, "totalStock": 0, "details": {"sku": "x", "n": 1.50}},
    ]});
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    let new = NewEvent::validate(serde_json::from_value(body).unwrap()).unwrap();
    decide(None, &EventChange::Create(Box::new(new)), NOW).unwrap().event
}

fn kinds() -> Vec<serde_json::Value> {
    vec![
        json!({"type": "FIRST_COME", "capacityTotal": 1, "rewards": null}),
        json!({"type": "LOTTERY", "capacityTotal": 1, "lotteryCutoffAt": 8_000_000_000_000_i64, "publicNonceSource": "beacon",
            "rewards": null}),
        json!({"type": "CLAIM", "conditions": "activity.N > 1", "grantPolicy": "PARTIAL"}),
        json!({"type": "ATTENDANCE", "attendance": {"count": "STREAK", "daily": "p", "bonus": [{"days": 7, "rewardId": "c"}]}}),
        json!({"type": "RANDOM", "random": {"perDay": 2, "prizes": [{"rewardId": "i", "weight": 3}, {"rewardId": null, "weight": 1}],
            "fallback": "p"}}),
    ]
}

fn events_come_back_as_they_were(fixture: &Fixture) {
    let opened = fixture.open();
    for (number, kind) in kinds().into_iter().enumerate() {
        let event = new_event(&format!("e{number}"), 1, kind);
        let stored = event.clone();
        assert!(write(&opened, move |tx| events::insert(tx, &stored)));
        let again = event.clone();
        assert!(!write(&opened, move |tx| events::insert(tx, &again)), "the id is taken");
        let id = event.id.clone();
        assert_eq!(read(&opened, move |tx| events::find(tx, &id)), Some(event.clone()));
        let open = decide(Some(&event), &EventChange::Move(Move::Open), NOW).unwrap().event;
        let changed = open.clone();
        assert!(write(&opened, move |tx| {
            if let Some(capacity) = changed.capacity_remaining {
                requests::open_line(tx, &changed.id, capacity)?;
            }
            events::update(tx, &changed, false)
        }));
        let id = open.id.clone();
        assert_eq!(read(&opened, move |tx| events::find(tx, &id)), Some(open));
    }
}

fn an_event_is_updated_only_from_the_version_that_was_read(fixture: &Fixture) {
    let opened = fixture.open();
    let event = new_event("e", 1, json!({"type": "FIRST_COME", "capacityTotal": 1}));
    let body =
        |name: &str| EventChange::Patch(Box::new(serde_json::from_value(json!({"name": name})).unwrap()));
    let first = decide(Some(&event), &body("first"), NOW).unwrap().event;
    let second = decide(Some(&event), &body("second"), NOW).unwrap().event;
    write(&opened, move |tx| events::insert(tx, &event));
    let expected = first.clone();
    assert!(write(&opened, move |tx| events::update(tx, &first, true)));
    assert!(
        !write(&opened, move |tx| events::update(tx, &second, true)),
        "it was read before the first change"
    );
    let id = expected.id.clone();
    assert_eq!(read(&opened, move |tx| events::find(tx, &id)), Some(expected));
}

fn events_are_listed_page_by_page(fixture: &Fixture) {
    let opened = fixture.open();
    let ids = ["b", "A", "a", "_", "z.9"];
    for (starts_at, id) in ids.into_iter().enumerate() {
        let starts_at = i64::try_from(starts_at / 2).unwrap();
        let event = new_event(id, starts_at, json!({"type": "FIRST_COME", "capacityTotal": 1}));
        write(&opened, move |tx| events::insert(tx, &event));
    }
    let mut after = None;
    let mut seen = Vec::new();
    loop {
        let from = after.clone();
        let page =
            read(&opened, move |tx| events::list_by_status(tx, EventStatus::Draft, None, from.as_ref(), 2));
        let Some(last) = page.last() else { break };
        after = Some((last.settings.starts_at, last.id.to_string()));
        seen.extend(page.into_iter().map(|event| event.id.to_string()));
    }
    assert_eq!(seen, ["A", "b", "_", "a", "z.9"], "by start, then byte by byte");
    let newest = read(&opened, |tx| events::list_newest(tx, None, 2));
    let ids: Vec<_> = newest.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids, ["z.9", "b"], "made at the same time, so by id");
    let none = read(&opened, |tx| events::list_by_status(tx, EventStatus::Open, None, None, 2));
    assert!(none.is_empty());
}

fn users_and_who_is_not_active(fixture: &Fixture) {
    let opened = fixture.open();
    let user = |name: &str| UserId::parse(name).unwrap();
    let at = Timestamp::from_millis;
    for (name, status, when) in
        [("u-1", UserStatus::Banned, 1), ("u-2", UserStatus::Active, 2), ("u-1", UserStatus::Withdrawn, 3)]
    {
        write(&opened, move |tx| users::put(tx, &user(name), status, at(when)));
    }
    assert_eq!(read(&opened, move |tx| users::find(tx, &user("u-1"))), Some(UserStatus::Withdrawn));
    let before = write(&opened, move |tx| users::put(tx, &user("u-2"), UserStatus::Active, at(4)));
    assert_eq!(before, Some(UserStatus::Active));
    assert_eq!(read(&opened, move |tx| users::find(tx, &user("u-3"))), None);
    let not_active = read(&opened, |tx| users::not_active(tx, "", 10));
    assert_eq!(not_active, [(user("u-1"), UserStatus::Withdrawn)]);
    assert!(read(&opened, |tx| users::not_active(tx, "u-1", 10)).is_empty());
}

fn entry(target: &str) -> AuditEntry {
    AuditEntry {
        at: NOW,
        actor: Actor { user_id: UserId::parse("op").unwrap(), request_id: "r".into() },
        action: Action::EventPatched,
        target_id: target.into(),
        before: None,
        after: Some(json!({"name": "이"})),
    }
}

fn the_audit_log_has_no_gaps(fixture: &Fixture) {
    let opened = fixture.open();
    write(&opened, |tx| audit_log::append(tx, &[entry("a"), entry("b")]));
    let failed = opened.run(Write::<()>(Box::new(|tx| {
        audit_log::append(tx, &[entry("lost")])?;
        Err(Fault::Inconsistent("after the line was written".into()))
    })));
    assert!(failed.is_err());
    write(&opened, |tx| audit_log::append(tx, &[entry("a")]));
    let page = read(&opened, |tx| audit_log::list(tx, None, None, 10));
    assert_eq!(page.iter().map(|record| record.sequence).collect::<Vec<_>>(), [3, 2, 1]);
    assert_eq!(page[0].entry, entry("a"));
    assert_eq!(read(&opened, audit_log::newest), 3);
    let since = read(&opened, |tx| audit_log::targets_since(tx, 1, 10));
    let targets: Vec<_> =
        since.iter().map(|(sequence, target)| (*sequence, target.target_id.as_str())).collect();
    assert_eq!(targets, [(2, "b"), (3, "a")]);
    let target = Target { target_type: "EVENT".into(), target_id: "a".into() };
    let of_a = read(&opened, move |tx| audit_log::list(tx, Some(&target), Some(3), 10));
    assert_eq!(of_a.iter().map(|record| record.sequence).collect::<Vec<_>>(), [1]);
}

fn a_row_that_fits_no_state_is_named(fixture: &Fixture) {
    let opened = fixture.open();
    let event = new_event("e", 1, json!({"type": "FIRST_COME", "capacityTotal": 1}));
    let id = event.id.clone();
    write(&opened, move |tx| events::insert(tx, &event));
    fixture.database.sql().run("UPDATE events SET status = 'OPEN'");
    let found = opened.store.read(move |tx| events::find(tx, &id)).unwrap().blocking_recv().unwrap();
    let Err(Fault::Inconsistent(text)) = found else { panic!("{found:?}") };
    assert!(text.contains("the event e") && text.contains("times"), "{text}");
}
