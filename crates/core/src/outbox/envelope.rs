//! What travels: CloudEvents 1.0 in JSON.

use super::Message;
use crate::time::Timestamp;
use crate::trace::Trace;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub const CONTENT_TYPE: &str = "application/cloudevents+json";

/// A message as others see it. `subject` and `partitionkey` are the aggregate's id; `sequence` orders the messages about
/// one aggregate, as text that sorts as its number does.
#[derive(Serialize)]
struct Outgoing<'a> {
    specversion: &'static str,
    id: String,
    source: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    subject: &'a str,
    time: String,
    datacontenttype: &'static str,
    aggregatetype: &'a str,
    partitionkey: &'a str,
    sequence: String,
    /// As the extension for distributed tracing has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<Trace>,
    data: &'a RawValue,
}

/// The envelope of a message from this source.
pub fn seal(message: &Message, source: &str) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Outgoing {
        specversion: "1.0",
        id: message.id.to_string(),
        source,
        kind: &message.event_type,
        subject: &message.aggregate_id,
        time: rfc3339(message.created_at),
        datacontenttype: "application/json",
        aggregatetype: &message.aggregate_type,
        partitionkey: &message.aggregate_id,
        sequence: format!("{:020}", message.sequence),
        traceparent: message.trace,
        data: serde_json::from_str(&message.payload)?,
    })
}

/// What a consumer needs of an envelope that came from wherever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub id: String,
    pub source: String,
    pub event_type: String,
    pub subject: String,
    pub aggregate_type: String,
    pub sequence: i64,
    pub trace: Option<Trace>,
    /// JSON.
    pub data: String,
}

#[derive(Deserialize)]
struct Incoming {
    specversion: String,
    id: String,
    source: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    subject: String,
    #[serde(default)]
    aggregatetype: String,
    #[serde(default)]
    sequence: String,
    #[serde(default)]
    traceparent: Option<Value>,
    #[serde(default)]
    data: Option<Box<RawValue>>,
}

/// Opens an envelope; why it cannot be, where it cannot.
pub fn open(bytes: &[u8]) -> Result<Received, String> {
    // A struct would also be read from a list of its fields in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err("is no CloudEvents 1.0 JSON: no object".into());
    }
    let event: Incoming =
        serde_json::from_slice(bytes).map_err(|error| format!("is no CloudEvents 1.0 JSON: {error}"))?;
    if event.specversion != "1.0" {
        return Err("has a specversion other than 1.0".into());
    }
    let named = |value: &str| !value.is_empty() && value.len() <= 255 && !value.contains('\0');
    if ![&event.id, &event.source, &event.kind].into_iter().all(|value| named(value)) {
        return Err("needs an id, a source and a type of 1 to 255 bytes".into());
    }
    if event.subject.contains('\0') || event.aggregatetype.contains('\0') {
        return Err("has a NUL in its subject".into());
    }
    Ok(Received {
        id: event.id,
        source: event.source,
        event_type: event.kind,
        subject: event.subject,
        aggregate_type: event.aggregatetype,
        sequence: event.sequence.parse().unwrap_or(0),
        // Whatever else stands there is of no use, and no reason to refuse an event.
        trace: event.traceparent.as_ref().and_then(Value::as_str).and_then(Trace::parse),
        data: event.data.map_or_else(|| "null".into(), |data| data.get().to_owned()),
    })
}

fn rfc3339(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.as_millis())
        .map_or_else(|_| String::from("1970-01-01T00:00:00Z"), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::{open, seal};
    use crate::Timestamp;
    use crate::outbox::{Message, MessageId};
    use crate::trace::Trace;

    fn message(payload: &str) -> Message {
        Message {
            id: MessageId::parse("0190f5e0-1111-7000-8000-000000000001").unwrap(),
            aggregate_type: "EVENT".into(),
            aggregate_id: "drop_1".into(),
            event_type: "EVENT_OPENED".into(),
            sequence: 2,
            payload: payload.into(),
            created_at: Timestamp::from_millis(1_700_000_000_123),
            attempts: 0,
            trace: None,
        }
    }

    #[test]
    fn an_envelope_is_what_others_expect_of_one() {
        let sealed = seal(&message(r#"{"amount":12345678901234567890.10}"#), "/guerdon").unwrap();
        assert_eq!(
            sealed,
            concat!(
                r#"{"specversion":"1.0","id":"0190f5e0-1111-7000-8000-000000000001","source":"/guerdon","#,
                r#""type":"EVENT_OPENED","subject":"drop_1","time":"2023-11-14T22:13:20.123Z","#,
                r#""datacontenttype":"application/json","aggregatetype":"EVENT","partitionkey":"drop_1","#,
                r#""sequence":"00000000000000000002","data":{"amount":12345678901234567890.10}}"#
            )
        );
        let opened = open(sealed.as_bytes()).unwrap();
        assert_eq!((opened.id.as_str(), opened.sequence), ("0190f5e0-1111-7000-8000-000000000001", 2));
        assert_eq!(opened.data, r#"{"amount":12345678901234567890.10}"#);
        assert_eq!(opened.trace, None);
        let trace = Trace::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        let followed = seal(&Message { trace, ..message("null") }, "/guerdon").unwrap();
        assert!(
            followed.contains(r#""traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01""#)
        );
        assert_eq!(open(followed.as_bytes()).unwrap().trace, trace);
        assert_eq!(open(followed.replace("\"00-0af", "\"xx-0af").as_bytes()).unwrap().trace, None);
    }

    #[test]
    fn what_is_no_envelope_is_not_opened() {
        let table: &[(&[u8], &str)] = &[
            (b"", "CloudEvents"),
            (b"\xff\xfe", "CloudEvents"),
            (br#"["1.0","1","/x","T","s","a","1",null,null]"#, "no object"),
            (br#"{"specversion":"0.3","id":"1","source":"/x","type":"T"}"#, "specversion"),
            (br#"{"specversion":"1.0","id":"","source":"/x","type":"T"}"#, "id"),
            (br#"{"specversion":"1.0","id":"1","source":"/x"}"#, "type"),
            (br#"{"specversion":"1.0","id":"a\u0000b","source":"/x","type":"T"}"#, "id"),
        ];
        for (bytes, reason) in table {
            let refused = open(bytes).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
        assert!(open(br#"{"specversion":"1.0","id":"1","source":"/x","type":"T"}"#).is_ok());
    }
}
