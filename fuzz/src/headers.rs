//! What people say in headers: `Prefer`, `Idempotency-Key`, `Authorization`.

use crate::says_why;
use guerdon_server::untrusted;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::time::Duration;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(crate) fn hold(data: &[u8]) {
    let values = data.split(|byte| *byte == b'\n').take(8);
    let values: Vec<_> = values.filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
    prefer(&values);
    idempotency_key(&values);
    authorization(&values);
}

fn headers(name: &HeaderName, values: &[HeaderValue]) -> HeaderMap {
    values.iter().map(|value| (name.clone(), value.clone())).collect()
}

fn prefer(values: &[HeaderValue]) {
    let patience = untrusted::patience(&headers(&PREFER, values));
    assert!(patience.is_none_or(|wait| wait <= Duration::from_mins(1)), "nobody waits longer");
    let Some(texts) = values.iter().map(|value| value.to_str().ok()).collect::<Option<Vec<_>>>() else {
        return;
    };
    let joined = texts.join(",");
    for same in [joined.clone(), joined.to_uppercase(), format!("other;{joined}")] {
        let same = HeaderValue::from_str(&same).unwrap();
        assert_eq!(untrusted::patience(&headers(&PREFER, &[same])), patience, "{joined:?}");
    }
    let lower = joined.to_lowercase();
    assert!(patience.is_none() || lower.contains("wait") || lower.contains("respond-async"), "{joined:?}");
    let mut first = texts;
    first.insert(0, "wait=7");
    let first = HeaderValue::from_str(&first.join(", ")).unwrap();
    assert_eq!(untrusted::patience(&headers(&PREFER, &[first])), Some(Duration::from_secs(7)), "{joined:?}");
}

fn idempotency_key(values: &[HeaderValue]) {
    match untrusted::idempotency_key(headers(&KEY, values)) {
        Err(reason) => says_why(&reason),
        Ok(key) => {
            let [value] = values else { panic!("one of {} was taken", values.len()) };
            let text = value.to_str().unwrap();
            assert!(text == key.as_str() || text == format!("\"{key}\""), "{text:?} was read as {key}");
            let quoted = HeaderValue::from_str(&format!("\"{key}\"")).unwrap();
            assert_eq!(untrusted::idempotency_key(headers(&KEY, &[quoted])), Ok(key), "quotes mean nothing");
        }
    }
}

fn authorization(values: &[HeaderValue]) {
    match untrusted::bearer(&headers(&header::AUTHORIZATION, values)) {
        Err(reason) => says_why(&reason),
        Ok(token) => {
            let [value] = values else { panic!("one of {} was taken", values.len()) };
            let (scheme, rest) = value.to_str().unwrap().split_once(' ').unwrap();
            assert!(scheme.eq_ignore_ascii_case("bearer"), "{scheme:?}");
            assert!(!token.is_empty() && rest.trim() == token, "{token:?} of {rest:?}");
        }
    }
}
