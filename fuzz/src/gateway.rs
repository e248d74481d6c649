//! The gateway's signature: good for what was signed, once, and for nothing else.

use crate::{lines, says_why};
use guerdon_core::identity::{Identity, Role};
use guerdon_core::{Timestamp, UserId};
use guerdon_server::untrusted::{sign, verify};
use guerdon_server::{GatewayKey, Trusted};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

const WINDOW_MS: i64 = 10_000;
const HEADERS: [&str; 4] = ["x-user-id", "x-user-roles", "x-user-name", "x-gateway-signature"];

fn server(secret: &str) -> Trusted {
    Trusted::new(GatewayKey::new(secret), WINDOW_MS)
}

pub(crate) fn hold(data: &[u8]) {
    let Some([method, address, user, roles, name, time, change, put]) = lines(data) else { return };
    let now = Timestamp::from_millis(time.parse::<i64>().unwrap_or(0).clamp(0, Timestamp::MAX.as_millis()));
    let Ok(method) = Method::from_bytes(method.as_bytes()) else { return };
    let Ok(user_id) = UserId::parse(user) else { return };
    let name = (!name.is_empty()).then(|| name.to_owned());
    let identity = Identity { user_id, name, roles: roles.split(',').filter_map(Role::parse).collect() };
    let mut headers = HeaderMap::new();
    let key = GatewayKey::new("a shared secret");
    sign(&key, &mut headers, (&method, address), &identity, (now, [7; 16])).expect("anybody can be named");

    let once = server("a shared secret");
    assert_eq!(verify(&once, &headers, (&method, address), now).as_deref(), Ok(&identity));
    refused(verify(&once, &headers, (&method, address), now), "used before");
    let later = now.plus_millis(WINDOW_MS + 1);
    refused(verify(&server("a shared secret"), &headers, (&method, address), later), "too late");
    refused(verify(&server("another secret"), &headers, (&method, address), now), "another secret");
    changed(&headers, (&method, address), now, (change, put));
}

/// Puts text in the place of one byte of one part, as the input says, and it is no longer what was signed.
fn changed(
    headers: &HeaderMap,
    (method, address): (&Method, &str),
    now: Timestamp,
    (change, put): (&str, &str),
) {
    let (part, place) = change.split_once(' ').unwrap_or((change, "0"));
    let (part, place) = (part.parse().unwrap_or(0_usize) % 6, place.parse().unwrap_or(0_usize));
    let other = |text: &str| -> Option<String> {
        let start = place % (text.len() + 1);
        let end = text.len().min(start + 1);
        Some(format!("{}{put}{}", text.get(..start)?, text.get(end..)?)).filter(|changed| changed != text)
    };
    let (mut headers, mut other_method, mut other_address) =
        (headers.clone(), method.clone(), address.to_owned());
    match part {
        4 => match other(method.as_str()).and_then(|text| Method::from_bytes(text.as_bytes()).ok()) {
            Some(changed) => other_method = changed,
            None => return,
        },
        5 => match other(address) {
            Some(changed) => other_address = changed,
            None => return,
        },
        part => {
            let header = HeaderName::from_static(HEADERS[part]);
            let text = headers[&header].to_str().unwrap().to_owned();
            match other(&text).and_then(|changed| HeaderValue::from_str(&changed).ok()) {
                Some(changed) => drop(headers.insert(header, changed)),
                None => return,
            }
        }
    }
    let found = verify(&server("a shared secret"), &headers, (&other_method, &other_address), now);
    refused(found, "changed");
}

#[track_caller]
fn refused<T>(found: Result<T, String>, why: &str) {
    match found {
        Ok(_) => panic!("taken although it was {why}"),
        Err(reason) => says_why(&reason),
    }
}
