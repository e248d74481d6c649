//! CloudEvents: what we seal is opened as what it was, and what others seal is bounded.

use crate::{lines, says_why};
use guerdon_core::outbox::envelope::{Received, open, seal};
use guerdon_core::outbox::{Message, MessageId};
use guerdon_core::{Timestamp, Trace};
use serde_json::value::RawValue;
use serde_json::{Value, json};

pub(crate) fn hold(data: &[u8]) {
    match open(data) {
        Ok(received) => opened(&received),
        Err(reason) => says_why(&reason),
    }
    if let Some(fields) = lines(data) {
        sealed(fields);
    }
}

fn opened(received: &Received) {
    for name in [&received.id, &received.source, &received.event_type] {
        assert!((1..=255).contains(&name.len()) && !name.contains('\0'), "{name:?}");
    }
    assert!(![&received.subject, &received.aggregate_type].iter().any(|text| text.contains('\0')));
    let data: &RawValue = serde_json::from_str(&received.data).expect("the data is JSON");
    let again = json!({
        "specversion": "1.0", "id": received.id, "source": received.source, "type": received.event_type,
        "subject": received.subject, "aggregatetype": received.aggregate_type,
        "sequence": received.sequence.to_string(), "traceparent": received.trace,
    });
    let mut again = again.to_string();
    again.insert_str(again.len() - 1, &format!(",\"data\":{data}"));
    assert_eq!(open(again.as_bytes()).as_ref(), Ok(received));
    let other = again.replacen("\"specversion\":\"1.0\"", "\"specversion\":\"0.3\"", 1);
    assert!(open(other.as_bytes()).is_err(), "of another version");
}

fn sealed([source, kind, aggregate, sequence, time, payload]: [&str; 6]) {
    let message = Message {
        id: MessageId::from_bytes([7; 16]),
        aggregate_type: "EVENT".into(),
        aggregate_id: aggregate.into(),
        event_type: kind.into(),
        sequence: sequence.parse().ok().filter(|sequence| *sequence >= 0).unwrap_or(1),
        payload: payload.into(),
        created_at: Timestamp::from_millis(time.parse().unwrap_or(0)),
        attempts: 0,
        trace: Trace::parse(source),
    };
    let sealed = match seal(&message, source) {
        Ok(sealed) => sealed,
        Err(error) => {
            assert!(serde_json::from_str::<&RawValue>(payload).is_err(), "{error}: the payload is JSON");
            return;
        }
    };
    let whole: Value = serde_json::from_str(&sealed).expect("an envelope is JSON");
    assert_eq!(whole["subject"], aggregate);
    let named = |text: &str| (1..=255).contains(&text.len()) && !text.contains('\0');
    match open(sealed.as_bytes()) {
        Ok(received) => {
            assert_eq!(received.id, message.id.to_string());
            assert_eq!((received.source.as_str(), received.event_type.as_str()), (source, kind));
            assert_eq!((received.subject.as_str(), received.sequence), (aggregate, message.sequence));
            assert_eq!(received.trace, message.trace);
            assert_eq!(received.data, payload.trim_matches([' ', '\n', '\r', '\t']));
        }
        Err(reason) => assert!(!named(source) || !named(kind) || aggregate.contains('\0'), "{reason}"),
    }
}
