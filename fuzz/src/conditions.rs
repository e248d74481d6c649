//! Conditions in CEL: what is accepted can be judged, in bounded time, and judged again says the same.

use crate::{halves, says_why};
use guerdon_core::events::condition::{Condition, LENGTH_MAX, Verdict};
use serde_json::{Map, Value};

pub(crate) fn hold(data: &[u8]) {
    let Some((text, activity)) = halves(data) else { return };
    let condition = match Condition::parse(text) {
        Ok(condition) => condition,
        Err(reason) => return says_why(&reason),
    };
    assert!(text.len() <= LENGTH_MAX);
    assert_eq!(condition.as_str(), text);
    let stored: Condition = serde_json::from_value(Value::from(text)).unwrap();
    assert_eq!(stored, condition);
    let compiled = condition.compile().expect("what was accepted compiles");
    let activity: Map<String, Value> = serde_json::from_str(activity).unwrap_or_default();
    for activity in [&activity, &Map::new()] {
        let verdict = compiled.judge(activity);
        assert_eq!(compiled.judge(activity), verdict, "it depends on nothing else");
        if let Verdict::Failed(reason) = verdict {
            says_why(&reason);
        }
    }
}
