//! Events as operators send them: accepted whole or refused with the fields at fault, and stored as what they are.

use crate::says_why;
use guerdon_core::Timestamp;
use guerdon_core::events::lifecycle::{EventChange, NewEvent, decide};
use guerdon_core::events::{Event, EventBody, EventKind, EventView};
use guerdon_server::untrusted;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

pub(crate) fn hold(data: &[u8]) {
    let body: EventBody = match untrusted::body(data) {
        Ok(body) => body,
        Err(reason) => return says_why(&reason),
    };
    let new = match NewEvent::validate(body.clone()) {
        Ok(new) => new,
        Err(rejection) => {
            says_why(&rejection.detail);
            assert!(!rejection.fields.is_empty(), "{rejection}");
            return rejection.fields.iter().for_each(|field| says_why(&field.reason));
        }
    };
    let event =
        decide(None, &EventChange::Create(Box::new(new)), NOW).expect("what is valid can be created").event;
    let stored = serde_json::to_string(&event.settings.kind).expect("it can be stored");
    assert_eq!(serde_json::from_str::<EventKind>(&stored).expect("and read"), event.settings.kind);
    for view in [EventView::of(&event, NOW), EventView::public(&event, NOW)] {
        serde_json::to_string(&view).expect("it can be shown");
    }
    // A patch that says nothing, or the same again, changes nothing.
    patched(&event, EventBody::default());
    let same = EventBody { event_id: Default::default(), r#type: Default::default(), ..body };
    patched(&event, same);
}

fn patched(event: &Event, body: EventBody) {
    let patched =
        decide(Some(event), &EventChange::Patch(Box::new(body)), NOW).expect("what it is, it may be");
    assert_eq!(patched.event.settings, event.settings);
    assert_eq!(patched.event.version, event.version + 1);
}
