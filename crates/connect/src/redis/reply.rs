//! What the script answers.

use guerdon_core::coupons::{CouponResult, UserCouponId};
use guerdon_core::{Timestamp, UserId};
use guerdon_engine::{Counted, Counter, CounterAway as Away, Entry, Taken, Waiting};
use redis::Value;
use std::collections::HashMap;

fn odd() -> Away {
    Away("an answer that makes no sense".into())
}

fn list(value: &Value) -> Result<&[Value], Away> {
    match value {
        Value::Array(items) => Ok(items),
        Value::Nil => Ok(&[]),
        _ => Err(odd()),
    }
}

fn text(value: &Value) -> Result<String, Away> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).map_err(|_| odd()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Ok(text.clone()),
        Value::Okay => Ok("OK".into()),
        Value::Int(number) => Ok(number.to_string()),
        _ => Err(odd()),
    }
}

fn texts(value: &Value) -> Result<Vec<String>, Away> {
    list(value)?.iter().map(text).collect()
}

fn number(text: &str) -> Result<i64, Away> {
    text.parse().map_err(|_| odd())
}

fn id(text: &str) -> Result<UserCouponId, Away> {
    UserCouponId::parse(text).ok_or_else(odd)
}

/// What became of wishes: the epoch, then a result and an id for each.
pub(super) fn taken(value: &Value) -> Result<Taken, Away> {
    let told = texts(value)?;
    let (first, rest) = told.split_first().ok_or_else(odd)?;
    match first.as_str() {
        "EMPTY" => return Ok(Taken::Empty),
        "BUILDING" => return Ok(Taken::Building),
        _ => {}
    }
    let mut all = Vec::with_capacity(rest.len() / 2);
    for pair in rest.chunks(2) {
        let [result, of] = pair else { return Err(odd()) };
        all.push(Counted { result: CouponResult::parse(result).ok_or_else(odd)?, id: id(of)? });
    }
    Ok(Taken::Counted { epoch: number(first)?, all })
}

/// The run id, and what is done when memory runs short.
pub(super) fn instance(value: &Value) -> Result<(String, String), Away> {
    let told = texts(value)?.join("\n");
    let field = |name: &str| {
        let found = told.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        found.map(str::to_owned).ok_or_else(odd)
    };
    Ok((field("run_id")?, field("maxmemory_policy")?))
}

pub(super) fn counter(value: &Value) -> Result<Counter, Away> {
    let told = texts(value)?;
    let [text, left, unsettled] = told.as_slice() else { return Err(odd()) };
    // An epoch without a count is none.
    let missing = left.is_empty();
    let (left, unsettled) = (if missing { 0 } else { number(left)? }, number(unsettled)?);
    let (building, number_of) = match text.strip_prefix('b') {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let marked = if number_of.is_empty() { 0 } else { number(number_of)? };
    let epoch = Some(marked).filter(|_| !building && !missing && !text.is_empty());
    Ok(Counter { epoch, building, marked, left, unsettled })
}

/// Entries of a stream; what was deleted from it meanwhile is passed over.
pub(super) fn entries(value: &Value) -> Result<Vec<Entry>, Away> {
    let mut entries = Vec::new();
    for item in list(value)? {
        let [entry, fields] = list(item)? else { continue };
        let fields = texts(fields)?;
        let fields: HashMap<_, _> =
            fields.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let field = |name: &str| fields.get(name).copied().ok_or_else(odd);
        entries.push(Entry {
            entry: text(entry)?,
            epoch: number(field("epoch")?)?,
            id: id(field("id")?)?,
            user_id: UserId::parse(field("user")?).map_err(|_| odd())?,
            key: field("key")?.to_owned(),
            at: Timestamp::from_millis(number(field("at")?)?),
        });
    }
    Ok(entries)
}

/// `EPOCH#RESULT#AT#USER#KEY`: a user has no `#`, and a key may.
pub(super) fn waiting(value: &Value) -> Result<Option<Waiting>, Away> {
    let told = text(value)?;
    let fields: Vec<_> = told.splitn(5, '#').collect();
    match fields.as_slice() {
        [_, "ISSUED", at, user, key] => Ok(Some(Waiting {
            user_id: UserId::parse(*user).map_err(|_| odd())?,
            key: (*key).to_owned(),
            at: Timestamp::from_millis(number(at)?),
        })),
        _ => Ok(None),
    }
}

/// Whether a key is known; not to be told while it is counted anew.
pub(super) fn known(value: &Value) -> Result<Option<bool>, Away> {
    match texts(value)?.as_slice() {
        [_, id] => Ok(Some(!id.is_empty())),
        [_] => Ok(None),
        _ => Err(odd()),
    }
}

pub(super) fn ids(value: &Value) -> Result<Vec<UserCouponId>, Away> {
    texts(value)?.iter().map(|text| id(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::{counter, taken, waiting};
    use guerdon_engine::{Counter, Taken};
    use redis::Value;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn what_is_no_answer_is_no_count() {
        let list = |texts: &[&str]| Value::Array(texts.iter().map(|text| bulk(text)).collect());
        assert_eq!(taken(&list(&["EMPTY"])).unwrap(), Taken::Empty);
        assert_eq!(taken(&list(&["BUILDING"])).unwrap(), Taken::Building);
        let id = "018bcfe5-6800-7abc-8000-0003810a2b3c";
        let Taken::Counted { epoch, all } = taken(&list(&["7", "ISSUED", id, "DUPLICATE", id])).unwrap()
        else {
            panic!("counted")
        };
        assert_eq!((epoch, all.len()), (7, 2));
        for wrong in [list(&[]), list(&["7", "ISSUED"]), list(&["7", "WON", id]), list(&["x"]), Value::Int(1)]
        {
            assert!(taken(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn markers() {
        let of = |marker: &str| counter(&Value::Array(vec![bulk(marker), bulk("5"), bulk("2")])).unwrap();
        assert_eq!(of("3"), Counter { epoch: Some(3), building: false, marked: 3, left: 5, unsettled: 2 });
        assert_eq!(of("b4"), Counter { epoch: None, building: true, marked: 4, left: 5, unsettled: 2 });
        let missing = counter(&Value::Array(vec![bulk("3"), bulk(""), bulk("0")])).unwrap();
        assert_eq!((missing.epoch, missing.marked), (None, 3));
        assert_eq!(of(""), Counter { epoch: None, building: false, marked: 0, left: 5, unsettled: 2 });
    }

    #[test]
    fn keys_may_have_what_separates() {
        let found = waiting(&bulk("3#ISSUED#1700000000000#u-1#a#b##")).unwrap().unwrap();
        assert_eq!((found.user_id.as_str(), found.key.as_str()), ("u-1", "a#b##"));
        assert_eq!(waiting(&bulk("3#OUT_OF_STOCK#1#u-1#k")).unwrap(), None);
        assert_eq!(waiting(&bulk("")).unwrap(), None);
    }
}
