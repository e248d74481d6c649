//! Every event that others can hear of: its schema from the type that is written, and an example.

use crate::allocations::view::AllocationNews;
use crate::claims::view::ClaimNews;
use crate::coupons::view::CouponNews;
use crate::entries::view::{CheckInNews, PlayNews};
use crate::events::view::EventView;
use crate::requests::view::RequestDecided;
use crate::wallet::view::TransferNews;
use serde_json::{Map, Value};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

/// An event that others can hear of.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub event_type: &'static str,
    pub aggregate_type: &'static str,
    pub about: &'static str,
    /// Of the envelope's `data`.
    pub schema: fn() -> Value,
    pub example: &'static str,
}

const EVENT: &str = r#"{"eventId":"drop_1","name":"Launch","type":"FIRST_COME","status":"OPEN","startsAt":1700000000000,"endsAt":1700086400000,"capacityTotal":100,"capacityRemaining":100,"rewards":[{"rewardId":"r-1","kind":"POINT","quantity":1,"amount":500,"currency":"PNT"}],"version":2,"createdAt":1700000000000,"updatedAt":1700000000500,"openedAt":1700000000500}"#;
const TRANSFER: &str = r#"{"transferId":"018bcfe5-6800-7000-8000-000000000003","kind":"TRANSFER","fromAccountId":3,"toAccountId":4,"amount":12.5,"currency":"PNT","createdAt":1700000000000}"#;
const REFUND: &str = r#"{"transferId":"018bcfe5-6800-7000-8000-000000000004","kind":"REFUND","fromAccountId":4,"toAccountId":3,"amount":12.5,"currency":"PNT","refundOf":"018bcfe5-6800-7000-8000-000000000003","createdAt":1700000001000}"#;
const REQUEST: &str = r#"{"requestId":"018bcfe5-6800-7000-8000-010000000001","eventId":"drop_1","userId":"u-1","status":"SUCCEEDED","resultCode":"SUCCESS","position":1,"requestedAt":1700000000000,"finishedAt":1700000000002}"#;

const ALLOCATION: &str = r#"{"allocationId":"018bcfe5-6800-7002-8000-010000000001","eventId":"drop_1","userId":"u-1","rewardId":"sword","rewardStatus":"SUCCESS","idempotencyKey":"req-drop_1-u-1-sword","externalTransactionId":"tx-1","retryCount":0,"at":1700000000900}"#;
const CHECK_IN: &str = r#"{"entryId":"018bcfe5-6800-7000-8000-020000000001","eventId":"daily","userId":"u-1","date":"2023-11-15","totalDays":7,"streak":3,"at":1700000000000}"#;
const PLAY: &str = r#"{"logId":"018bcfe5-6800-7000-8000-030000000001","eventId":"wheel","userId":"u-1","oddsVersion":1,"rewardId":"sword","at":1700000000000}"#;

const CLAIM: &str = r#"{"requestId":"5f0c2f6e-8d6b-4a57-9d0e-2a6d1f0b7c11","userId":"u-1","eventId":"gift","status":"SUCCESS_ALL_GRANTED","grantedRewards":["sword"],"at":1700000000900}"#;
const FAILED_CLAIM: &str = r#"{"requestId":"5f0c2f6e-8d6b-4a57-9d0e-2a6d1f0b7c12","userId":"u-2","eventId":"gift","status":"CONDITION_NOT_MET","failureReason":"CONDITION_NOT_MET","grantedRewards":[],"at":1700000000900}"#;
const STUCK_CLAIM: &str = r#"{"requestId":"5f0c2f6e-8d6b-4a57-9d0e-2a6d1f0b7c13","userId":"u-3","eventId":"gift","status":"COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED","failureReason":"REWARD_GRANT_FAILED","grantedRewards":["sword"],"at":1700000000900}"#;

const COUPON: &str = r#"{"userCouponId":"018bcfe5-6800-7abc-8000-0003810a2b3c","couponId":"ten_off","userId":"u-1","status":"CONFIRMED","resultCode":"ISSUED","at":1700000000900}"#;
const REJECTED_COUPON: &str = r#"{"userCouponId":"018bcfe5-6800-7abc-8000-0003810a2b3d","couponId":"ten_off","userId":"u-2","status":"REJECTED","resultCode":"OUT_OF_STOCK","at":1700000000900}"#;
const USED_COUPON: &str = r#"{"userCouponId":"018bcfe5-6800-7abc-8000-0003810a2b3c","couponId":"ten_off","userId":"u-1","status":"USED","resultCode":"ISSUED","orderId":"o-1","at":1700000001900}"#;
const UNUSED_COUPON: &str = r#"{"userCouponId":"018bcfe5-6800-7abc-8000-0003810a2b3c","couponId":"ten_off","userId":"u-1","status":"CONFIRMED","resultCode":"ISSUED","orderId":"o-1","at":1700000002900}"#;
const REVOKED_COUPON: &str = r#"{"userCouponId":"018bcfe5-6800-7abc-8000-0003810a2b3c","couponId":"ten_off","userId":"u-1","status":"REVOKED","resultCode":"ISSUED","at":1700000003900}"#;

pub const ALL: &[Entry] = &[
    Entry {
        event_type: "REQUEST_DECIDED",
        aggregate_type: "REQUEST",
        about: "A request in an event's line was decided: won, turned away, or ended with its event. Once for each request.",
        schema: schema_of::<RequestDecided<'static>>,
        example: REQUEST,
    },
    Entry {
        event_type: "EVENT_OPENED",
        aggregate_type: "EVENT",
        about: "People can take part from now on. The event as it is then.",
        schema: schema_of::<EventView>,
        example: EVENT,
    },
    Entry {
        event_type: "EVENT_CLOSED",
        aggregate_type: "EVENT",
        about: "Nobody can take part any more. The event as it is then.",
        schema: schema_of::<EventView>,
        example: EVENT,
    },
    Entry {
        event_type: "EVENT_CANCELLED",
        aggregate_type: "EVENT",
        about: "The event was called off; everybody who is still in line is turned away after it. The event as it is then.",
        schema: schema_of::<EventView>,
        example: EVENT,
    },
    Entry {
        event_type: "EVENT_ANNOUNCED",
        aggregate_type: "EVENT",
        about: "A lottery's winners are known; a message about each of its requests follows. The event as it is then.",
        schema: schema_of::<EventView>,
        example: EVENT,
    },
    Entry {
        event_type: "TRANSFER_COMPLETED",
        aggregate_type: "TRANSFER",
        about: "Money moved from one account to another, by a transfer, a deposit or a reward.",
        schema: schema_of::<TransferNews<'static>>,
        example: TRANSFER,
    },
    Entry {
        event_type: "TRANSFER_REFUNDED",
        aggregate_type: "TRANSFER",
        about: "Money went back, all of a transfer or a part of it.",
        schema: schema_of::<TransferNews<'static>>,
        example: REFUND,
    },
    Entry {
        event_type: "ATTENDANCE_CHECKED_IN",
        aggregate_type: "ENTRY",
        about: "Somebody checked in, for the first time on that day of the event's time zone.",
        schema: schema_of::<CheckInNews<'static>>,
        example: CHECK_IN,
    },
    Entry {
        event_type: "PLAY_DECIDED",
        aggregate_type: "ENTRY",
        about: "Somebody played a random game, and this is how it ended.",
        schema: schema_of::<PlayNews<'static>>,
        example: PLAY,
    },
    Entry {
        event_type: "ALLOCATION_SUCCEEDED",
        aggregate_type: "ALLOCATION",
        about: "A reward was delivered.",
        schema: schema_of::<AllocationNews<'static>>,
        example: ALLOCATION,
    },
    Entry {
        event_type: "ALLOCATION_FAILED",
        aggregate_type: "ALLOCATION",
        about: "A reward could not be delivered, and nothing more is tried unless an operator wants it.",
        schema: schema_of::<AllocationNews<'static>>,
        example: ALLOCATION,
    },
    Entry {
        event_type: "ALLOCATION_CANCELLED",
        aggregate_type: "ALLOCATION",
        about: "A reward will not be delivered: an operator or the end of its event called it off.",
        schema: schema_of::<AllocationNews<'static>>,
        example: ALLOCATION,
    },
    Entry {
        event_type: "CLAIM_SUCCEEDED",
        aggregate_type: "CLAIM",
        about: "A claim ended: all of its rewards were granted, or those that could be where its event allows that.",
        schema: schema_of::<ClaimNews<'static>>,
        example: CLAIM,
    },
    Entry {
        event_type: "CLAIM_FAILED",
        aggregate_type: "CLAIM",
        about: "A claim ended with nothing granted: it was refused, or it failed and was undone.",
        schema: schema_of::<ClaimNews<'static>>,
        example: FAILED_CLAIM,
    },
    Entry {
        event_type: "CLAIM_NEEDS_INTERVENTION",
        aggregate_type: "CLAIM",
        about: "A claim failed, and undoing it failed as well: an operator has to see to it now.",
        schema: schema_of::<ClaimNews<'static>>,
        example: STUCK_CLAIM,
    },
    Entry {
        event_type: "COUPON_CONFIRMED",
        aggregate_type: "USER_COUPON",
        about: "Somebody has a coupon.",
        schema: schema_of::<CouponNews<'static>>,
        example: COUPON,
    },
    Entry {
        event_type: "COUPON_REJECTED",
        aggregate_type: "USER_COUPON",
        about: "Somebody asked for a coupon that nothing was left of, or of which they have all that one can have.",
        schema: schema_of::<CouponNews<'static>>,
        example: REJECTED_COUPON,
    },
    Entry {
        event_type: "COUPON_USED",
        aggregate_type: "USER_COUPON",
        about: "A coupon was used for an order.",
        schema: schema_of::<CouponNews<'static>>,
        example: USED_COUPON,
    },
    Entry {
        event_type: "COUPON_USE_CANCELLED",
        aggregate_type: "USER_COUPON",
        about: "The order was called off, and the coupon can be used again.",
        schema: schema_of::<CouponNews<'static>>,
        example: UNUSED_COUPON,
    },
    Entry {
        event_type: "COUPON_REVOKED",
        aggregate_type: "USER_COUPON",
        about: "A coupon was taken back.",
        schema: schema_of::<CouponNews<'static>>,
        example: REVOKED_COUPON,
    },
];

/// A JSON schema that stands for itself.
fn schema_of<T: ToSchema + PartialSchema>() -> Value {
    let mut nested: Vec<(String, RefOr<Schema>)> = Vec::new();
    T::schemas(&mut nested);
    nested.sort_by(|a, b| a.0.cmp(&b.0));
    nested.dedup_by(|a, b| a.0 == b.0);
    let mut whole = serde_json::to_value(T::schema()).unwrap_or_default();
    if let (Some(whole), false) = (whole.as_object_mut(), nested.is_empty()) {
        let parts: Map<_, _> = nested
            .into_iter()
            .map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default()))
            .collect();
        whole.insert("$defs".into(), Value::Object(parts));
    }
    relocate(&mut whole);
    whole
}

/// Points at the parts where they are here, not where an API's description has them.
fn relocate(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(place) if name == "$ref" => {
                        *place = place.replace("#/components/schemas/", "#/$defs/");
                    }
                    value => relocate(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(relocate),
        _ => {}
    }
}

/// The catalogue to read, as `docs/events.md` has it.
pub fn markdown() -> String {
    use std::fmt::Write;
    let mut text = String::from(include_str!("catalogue.md"));
    // Writing to a string does not fail.
    for entry in ALL {
        let _ = writeln!(
            text,
            "| [{0}](#{1}) | `{2}` | {3} |",
            entry.event_type,
            entry.event_type.to_lowercase(),
            entry.aggregate_type,
            entry.about
        );
    }
    let mut shown: Vec<(Value, &str)> = Vec::new();
    for entry in ALL {
        let _ = writeln!(text, "\n## {}\n\n{}\n", entry.event_type, entry.about);
        let _ = writeln!(text, "About a `{}`; its id is the envelope's `subject`.\n", entry.aggregate_type);
        let _ = writeln!(text, "Example of `data`:\n\n```json\n{}\n```\n", entry.example);
        let schema = (entry.schema)();
        if let Some((_, same)) = shown.iter().find(|(shown, _)| *shown == schema) {
            let _ = writeln!(text, "The schema is that of [{same}](#{}).", same.to_lowercase());
        } else {
            let pretty = serde_json::to_string_pretty(&schema).unwrap_or_default();
            let _ = writeln!(text, "Schema of `data`:\n\n```json\n{pretty}\n```");
            shown.push((schema, entry.event_type));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use serde_json::Value;

    #[test]
    fn examples_are_what_their_schemas_say() {
        for entry in ALL {
            let (schema, example): (Value, Value) =
                ((entry.schema)(), serde_json::from_str(entry.example).unwrap());
            let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
            let properties = names(&schema["properties"]);
            let unknown: Vec<_> =
                names(&example).into_iter().filter(|name| !properties.contains(name)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", entry.event_type);
            for required in schema["required"].as_array().unwrap() {
                assert!(
                    example.get(required.as_str().unwrap()).is_some(),
                    "{}: {required}",
                    entry.event_type
                );
            }
        }
    }
}
