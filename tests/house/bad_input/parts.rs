//! What can be wrong with the calls of each part.

use super::{Case, NOT_ACCEPTABLE, at, bodies, get, lists, missing, send};
use serde_json::{Value, json};

pub(super) fn entry_cases() -> Vec<Case> {
    let check_in = ("POST", "/v1/events/{eventId}/attendance");
    let play = ("POST", "/v1/events/{eventId}/plays");
    let mut cases = Vec::new();
    for (method, route) in
        [check_in, play, ("GET", check_in.1), ("GET", play.1), ("GET", "/v1/events/{eventId}/odds")]
    {
        cases.extend(missing(method, route, "EVENT_NOT_FOUND"));
        let at = |event: &str| route.replace("{eventId}", event);
        let wrong_type = |event: &str| match method {
            "GET" => get(route, &at(event), 409, "EVENT_WRONG_TYPE", None),
            _ => send((method, route), &at(event), "", (409, "EVENT_WRONG_TYPE"), None),
        };
        cases.extend(["open_1", "lottery"].map(wrong_type));
        if method == "POST" {
            cases.push(send((method, route), &at("there"), "", (404, "EVENT_NOT_FOUND"), None));
        }
    }
    cases.extend(lists(play.1, "/v1/events/future_game/plays"));
    cases.push(send(check_in, "/v1/events/future_daily/attendance", "", (409, "EVENT_NOT_OPEN"), None));
    cases.push(send(play, "/v1/events/future_daily/plays", "", (409, "EVENT_WRONG_TYPE"), None));
    cases.push(send(play, "/v1/events/open_1/plays", "", (400, "IDEMPOTENCY_KEY_MISSING"), None));
    cases
}

pub(super) fn allocation_cases() -> Vec<Case> {
    const UNKNOWN: &str = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    let list = "/v1/admin/allocations";
    let mut cases = lists(list, list);
    cases.extend(lists("/v1/me/allocations", "/v1/me/allocations"));
    for (filter, field) in
        [("status=LOST", "status"), ("eventId=a-b", "eventId"), ("memberId=a%2Fb", "memberId")]
    {
        cases.push(get(list, &format!("{list}?{filter}"), 422, "INVALID_FIELDS", Some(field)));
    }
    for (method, route, code) in [
        ("GET", "/v1/admin/allocations/{allocationId}", "ALLOCATION_NOT_FOUND"),
        ("POST", "/v1/admin/allocations/{allocationId}/retry", "ALLOCATION_NOT_FOUND"),
        ("POST", "/v1/admin/allocations/{allocationId}/cancel", "ALLOCATION_NOT_FOUND"),
        ("GET", "/v1/admin/allocations/retries/{retryId}", "RETRY_NOT_FOUND"),
        ("POST", "/v1/admin/allocations/retries/{retryId}/stop", "RETRY_NOT_FOUND"),
    ] {
        cases.extend(missing(method, route, code));
        let unknown = at(route, UNKNOWN);
        cases.push(match method {
            "GET" => get(route, &unknown, 404, code, None),
            _ => send((method, route), &unknown, "", (404, code), None),
        });
    }
    let retry = ("POST", "/v1/admin/allocations/retry");
    cases.extend(bodies(retry, retry.1));
    for (body, field) in [
        (json!({"status": "SUCCESS"}), "status"),
        (json!({"status": "LOST"}), "status"),
        (json!({"eventId": "a-b"}), "eventId"),
        (json!({"memberId": "a/b"}), "memberId"),
        (json!({"memberId": 5}), "memberId"),
    ] {
        cases.push(send(retry, retry.1, body, NOT_ACCEPTABLE, Some(field)));
    }
    cases
}

/// The key of a claim that was refused.
pub(super) const ENDED_CLAIM: &str = "ended-claim";

pub(super) fn claim_cases() -> Vec<Case> {
    const UNKNOWN: &str = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    let claim = ("POST", "/v1/event-claims/{eventId}/claim");
    let mut cases = missing(claim.0, claim.1, "EVENT_NOT_FOUND");
    cases.push(send(claim, &at(claim.1, "there"), "", (404, "EVENT_NOT_FOUND"), None));
    for event in ["open_1", "lottery", "future_daily"] {
        cases.push(send(claim, &at(claim.1, event), "", (409, "EVENT_WRONG_TYPE"), None));
    }
    cases.push(send(claim, &at(claim.1, "claims"), "", (400, "IDEMPOTENCY_KEY_MISSING"), None));
    let long = "x".repeat(129);
    for (key, field) in [
        ("", "Idempotency-Key"),
        ("short-1", "Idempotency-Key"),
        ("\"short-1\"", "Idempotency-Key"),
        ("with a space", "Idempotency-Key"),
        (long.as_str(), "Idempotency-Key"),
    ] {
        let case = send(claim, &at(claim.1, "claims"), "", NOT_ACCEPTABLE, Some(field));
        cases.push(Case { key: Some(key.into()), ..case });
    }
    let other_event = send(claim, &at(claim.1, "claims"), "", (409, "IDEMPOTENCY_HASH_MISMATCH"), None);
    cases.push(Case { key: Some(ENDED_CLAIM.into()), ..other_event });
    let list = "/v1/admin/claims";
    cases.extend(lists(list, list));
    cases.extend(lists("/v1/me/claims", "/v1/me/claims"));
    for route in ["/v1/me/claims", "/v1/me/requests"] {
        cases.push(get(route, &format!("{route}?eventId=a-b"), 422, "INVALID_FIELDS", Some("eventId")));
    }
    // A cursor of this list that names no claim: ["claims///","x"]
    cases.push(get(list, &format!("{list}?cursor=WyJjbGFpbXMvLy8iLCJ4Il0"), 400, "BAD_CURSOR", None));
    for (filter, field) in [("status=SOON", "status"), ("eventId=a-b", "eventId"), ("userId=a%2Fb", "userId")]
    {
        cases.push(get(list, &format!("{list}?{filter}"), 422, "INVALID_FIELDS", Some(field)));
    }
    for route in ["/v1/claims/{requestId}", "/v1/admin/claims/{requestId}"] {
        cases.extend(missing("GET", route, "CLAIM_NOT_FOUND"));
        cases.push(get(route, &at(route, UNKNOWN), 404, "CLAIM_NOT_FOUND", None));
    }
    let retry = ("POST", "/v1/admin/claims/{requestId}/retry");
    let resolve = ("POST", "/v1/admin/claims/{requestId}/resolve");
    let note = json!({"note": "paid by hand"});
    cases.extend(missing(retry.0, retry.1, "CLAIM_NOT_FOUND"));
    cases.extend(bodies(resolve, &at(resolve.1, ENDED_CLAIM)));
    for call in [retry, resolve] {
        for id in ["nope", "a%2Fb", "%00", UNKNOWN, &long] {
            cases.push(send(call, &at(call.1, id), &note, (404, "CLAIM_NOT_FOUND"), None));
        }
        cases.push(send(call, &at(call.1, "%FF%FE"), &note, (400, "BAD_REQUEST"), None));
        // It needs no hand.
        cases.push(send(call, &at(call.1, ENDED_CLAIM), &note, (409, "CLAIM_REFUSED"), None));
    }
    for (body, field) in [
        (json!({}), "note"),
        (json!({"note": null}), "note"),
        (json!({"note": 5}), "note"),
        (json!({"note": ""}), "note"),
        (json!({"note": " \n\t"}), "note"),
        (json!({"note": "a\u{0}b"}), "note"),
        (json!({"note": "x".repeat(1_001)}), "note"),
        (json!({"note": "done", "returnStock": "yes"}), "returnStock"),
        (json!({"note": "done", "returnStock": 1}), "returnStock"),
        (json!({"note": "done", "refund": true}), "refund"),
    ] {
        cases.push(send(resolve, &at(resolve.1, ENDED_CLAIM), body, NOT_ACCEPTABLE, Some(field)));
    }
    cases
}

pub(super) fn coupon_cases() -> Vec<Case> {
    const UNKNOWN: &str = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    let issue = ("POST", "/v1/coupons/{couponId}/issue");
    let mut cases = missing(issue.0, issue.1, "COUPON_NOT_FOUND");
    cases.push(send(issue, &at(issue.1, "c_1"), "", (400, "IDEMPOTENCY_KEY_MISSING"), None));
    cases.push(send(issue, &at(issue.1, "later"), "", (409, "COUPON_NOT_VALID"), None));
    for key in ["", "with a space", &"x".repeat(129)] {
        let case = send(issue, &at(issue.1, "c_1"), "", NOT_ACCEPTABLE, Some("Idempotency-Key"));
        cases.push(Case { key: Some(key.into()), ..case });
    }
    let (list, one) = ("/v1/admin/coupons", "/v1/admin/coupons/{couponId}");
    let holders = "/v1/admin/coupons/{couponId}/user-coupons";
    cases.extend(lists(list, list));
    cases.extend(lists(holders, &at(holders, "c_1")));
    cases.extend(lists("/v1/me/coupons", "/v1/me/coupons"));
    let status = format!("{}?status=LOST", at(holders, "c_1"));
    cases.push(get(holders, &status, 422, "INVALID_FIELDS", Some("status")));
    // A cursor of this list that names no user coupon: ["me/coupons","x"]
    let cursor = "/v1/me/coupons?cursor=WyJtZS9jb3Vwb25zIiwieCJd";
    cases.push(get("/v1/me/coupons", cursor, 400, "BAD_CURSOR", None));
    for route in [one, holders, "/v1/coupons/{couponId}"] {
        cases.extend(missing("GET", route, "COUPON_NOT_FOUND"));
    }
    let create = ("POST", list);
    cases.extend(bodies(create, list));
    let fine = json!({"couponId": "new", "name": "x", "totalQuantity": 1});
    for (field, odd) in [
        ("couponId", json!("with-hyphen")),
        ("couponId", Value::Null),
        ("name", json!(" ")),
        ("name", json!("x".repeat(201))),
        ("totalQuantity", json!(0)),
        ("totalQuantity", json!(1.5)),
        ("totalQuantity", json!(1_000_000_001)),
        ("perUserLimit", json!(0)),
        ("validFrom", json!("now")),
        ("validUntil", json!(1)),
        ("benefit", json!("x".repeat(5_000))),
        ("stock", json!(1)),
    ] {
        let mut body = fine.clone();
        body[field] = odd;
        cases.push(send(create, list, body, NOT_ACCEPTABLE, Some(field)));
    }
    let again = json!({"couponId": "c_1", "name": "x", "totalQuantity": 1});
    cases.push(send(create, list, again, (409, "COUPON_EXISTS"), None));
    for route in ["/v1/user-coupons/{userCouponId}", "/v1/user-coupons/{userCouponId}/stream"] {
        cases.extend(missing("GET", route, "USER_COUPON_NOT_FOUND"));
        cases.push(get(route, &at(route, UNKNOWN), 404, "USER_COUPON_NOT_FOUND", None));
    }
    for (route, field, fits) in [
        ("/v1/user-coupons/{userCouponId}/use", "orderId", json!({"orderId": "o-1"})),
        ("/v1/user-coupons/{userCouponId}/cancel-use", "orderId", json!({"orderId": "o-1"})),
        ("/v1/admin/user-coupons/{userCouponId}/revoke", "note", json!({"note": "why"})),
    ] {
        let call = ("POST", route);
        cases.extend(missing("POST", route, "USER_COUPON_NOT_FOUND"));
        cases.extend(bodies(call, &at(route, UNKNOWN)));
        cases.push(send(call, &at(route, UNKNOWN), fits, (404, "USER_COUPON_NOT_FOUND"), None));
        for odd in [json!({}), json!({field: ""}), json!({field: 5}), json!({field: "x".repeat(1_001)})] {
            cases.push(send(call, &at(route, UNKNOWN), odd, NOT_ACCEPTABLE, Some(field)));
        }
    }
    cases
}

pub(super) fn activity_cases() -> Vec<Case> {
    let put = ("PUT", "/v1/admin/users/{userId}/activity");
    let mut cases = bodies(put, &at(put.1, "u-1"));
    // Any name can be known of somebody.
    cases.retain(|case| case.field != Some("surprise"));
    let large = json!({"NAME": "x".repeat(64 << 10)});
    cases.push(send(put, &at(put.1, "u-1"), large, NOT_ACCEPTABLE, Some("body")));
    let deep = format!("{{\"QUESTS\":{}{}}}", "[".repeat(1_000), "]".repeat(1_000));
    cases.push(send(put, &at(put.1, "u-1"), deep, (400, "MALFORMED_JSON"), None));
    let reserved = json!({"$serde_json::private::Number": "1"});
    cases.push(send(put, &at(put.1, "u-1"), reserved, NOT_ACCEPTABLE, Some("body")));
    for user in ["a%23b", "a%2Fb", "%20", &"u".repeat(129)] {
        let address = at(put.1, user);
        cases.push(send(put, &address, json!({"LEVEL": 2}), (404, "USER_NOT_FOUND"), None));
        cases.push(get(put.1, &address, 404, "USER_NOT_FOUND", None));
    }
    let odd = at(put.1, "%FF%FE");
    cases.push(send(put, &odd, json!({"LEVEL": 2}), (400, "BAD_REQUEST"), None));
    cases.push(get(put.1, &odd, 400, "BAD_REQUEST", None));
    cases
}

pub(super) fn outbox_cases() -> Vec<Case> {
    let list = "/v1/admin/outbox";
    let mut cases = lists(list, list);
    cases.push(get(list, "/v1/admin/outbox?status=LOST", 422, "INVALID_FIELDS", Some("status")));
    cases.push(get("/v1/admin/outbox/sink", "/v1/admin/outbox/sink/", 404, "NOT_FOUND", None));
    let one = "/v1/admin/outbox/{eventId}/replay";
    cases.extend(missing("POST", one, "MESSAGE_NOT_FOUND"));
    let range = ("POST", "/v1/admin/outbox/replay");
    cases.extend(bodies(range, range.1));
    for (body, field) in [
        (json!({"from": "x"}), "from"),
        (json!({"from": 5}), "from"),
        (json!({"to": ""}), "to"),
        (json!({"status": "LOST"}), "status"),
        (json!({"status": "NEW"}), "status"),
        (
            json!({"from": "018bcfe5-6800-7001-8000-000000000001", "to": "00000000-0000-0000-0000-000000000000"}),
            "to",
        ),
    ] {
        cases.push(send(range, range.1, body, NOT_ACCEPTABLE, Some(field)));
    }
    // Nothing is published here.
    cases.push(send(range, range.1, json!({}), (409, "NO_SINK"), None));
    let enable = ("POST", "/v1/admin/outbox/sink/enable");
    cases.push(send(enable, enable.1, json!({}), (409, "NO_SINK"), None));
    cases
}

pub(super) fn wallet_cases() -> Vec<Case> {
    const TRANSFER: &str = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
    let keys = ("POST", "/v1/idempotency-keys");
    let create = ("POST", "/v1/transfers");
    let refund = ("POST", "/v1/transfers/{transferId}/refund");
    let open = ("POST", "/v1/admin/accounts");
    let deposit = ("POST", "/v1/admin/accounts/{accountId}/deposit");
    let mut cases = Vec::new();
    for call in [keys, create, refund, open, deposit] {
        let id = if call == refund { TRANSFER } else { "1" };
        cases.extend(bodies(call, &at(call.1, id)));
    }
    for body in [json!({}), json!({"scope": "DEPOSIT"}), json!({"scope": "LUCK"}), json!({"scope": null})] {
        cases.push(send(keys, keys.1, body, NOT_ACCEPTABLE, Some("scope")));
    }
    let order = json!({"fromAccountId": 1, "toAccountId": 2, "amount": 1});
    cases.push(send(create, create.1, &order, (400, "IDEMPOTENCY_KEY_MISSING"), None));
    cases.push(send(create, create.1, &order, (404, "IDEMPOTENCY_KEY_NOT_FOUND"), None));
    for (field, odd) in [
        ("fromAccountId", json!(0)),
        ("fromAccountId", json!(-1)),
        ("fromAccountId", json!("1")),
        ("fromAccountId", json!(1.5)),
        ("toAccountId", json!(1)),
        ("toAccountId", Value::Null),
        ("amount", json!(0)),
        ("amount", json!(-5)),
        ("amount", json!("5")),
        ("amount", json!(0.00001)),
        ("amount", json!(1e40)),
        ("amount", Value::Null),
        ("amount", json!([])),
    ] {
        let mut body = order.clone();
        body[field] = odd;
        cases.push(send(create, create.1, body, NOT_ACCEPTABLE, Some(field)));
    }
    for amount in [json!(0), json!(-1), json!("1"), json!(0.12345)] {
        let body = json!({"amount": amount});
        cases.push(send(deposit, &at(deposit.1, "1"), &body, NOT_ACCEPTABLE, Some("amount")));
        cases.push(send(refund, &at(refund.1, TRANSFER), &body, NOT_ACCEPTABLE, Some("amount")));
    }
    let one = json!({"amount": 1});
    for (call, id, code) in [(deposit, "9", "ACCOUNT_NOT_FOUND"), (refund, TRANSFER, "TRANSFER_NOT_FOUND")] {
        cases.push(send(call, &at(call.1, id), &one, (404, code), None));
        cases.push(send(call, &at(call.1, id), &one, (400, "IDEMPOTENCY_KEY_MISSING"), None));
        cases.extend(missing("POST", call.1, code));
    }
    for (body, field) in [
        (json!({"currency": "KRW"}), "ownerId"),
        (json!({"ownerId": "a/b", "currency": "KRW"}), "ownerId"),
        (json!({"ownerId": "ann"}), "currency"),
        (json!({"ownerId": "ann", "currency": "won"}), "currency"),
        (json!({"ownerId": "ann", "currency": "KRW", "scale": 5}), "scale"),
        (json!({"ownerId": "ann", "currency": "KRW", "scale": -1}), "scale"),
        (json!({"ownerId": "ann", "currency": "KRW", "scale": "2"}), "scale"),
    ] {
        cases.push(send(open, open.1, body, NOT_ACCEPTABLE, Some(field)));
    }
    for (route, code) in [
        ("/v1/accounts/{accountId}", "ACCOUNT_NOT_FOUND"),
        ("/v1/accounts/{accountId}/entries", "ACCOUNT_NOT_FOUND"),
        ("/v1/transfers/{transferId}", "TRANSFER_NOT_FOUND"),
    ] {
        cases.extend(missing("GET", route, code));
        for odd in ["0", "-1", "01", "9999999999999999999999"] {
            cases.push(get(route, &at(route, odd), 404, code, None));
        }
    }
    for route in ["/v1/accounts/{accountId}", "/v1/accounts/{accountId}/entries"] {
        for at_time in ["soon", "-1", "1.5", "99999999999999999"] {
            let path = format!("{}?at={at_time}", at(route, "1"));
            cases.push(get(route, &path, 422, "INVALID_FIELDS", Some("at")));
        }
    }
    cases.extend(lists("/v1/me/accounts", "/v1/me/accounts"));
    cases.extend(lists("/v1/accounts/{accountId}/entries", "/v1/accounts/1/entries"));
    cases
}

pub(super) fn session_cases() -> Vec<Case> {
    let begin = ("POST", "/v1/session");
    let mut cases = bodies(begin, begin.1);
    for odd in [json!({}), json!({"token": null}), json!({"token": 5}), json!({"token": ["a.b.c"]})] {
        cases.push(send(begin, begin.1, odd, NOT_ACCEPTABLE, Some("token")));
    }
    for odd in ["", "x", "x.y.z", "a.b.c; Path=/evil", "\r\nSet-Cookie: a=b", &"x".repeat(9_000)] {
        cases.push(send(begin, begin.1, json!({"token": odd}), (401, "TOKEN_INVALID"), None));
    }
    cases.push(get("/v1/session", "/v1/session/", 404, "NOT_FOUND", None));
    cases.push(send(("DELETE", "/v1/session"), "/v1/session/", "", (404, "NOT_FOUND"), None));
    cases
}

pub(super) fn console_cases() -> Vec<Case> {
    let search = "/v1/admin/search";
    let mut cases = Vec::new();
    for odd in ["", "?q=", "?q=%20", "?q=a%00b", &format!("?q={}", "x".repeat(256))] {
        cases.push(get(search, &format!("{search}{odd}"), 422, "INVALID_FIELDS", Some("q")));
    }
    for route in ["/v1/admin/users", "/v1/admin/accounts", "/v1/admin/allocations/retries"] {
        cases.extend(lists(route, route));
    }
    cases.push(get("/v1/admin/users", "/v1/admin/users?status=GONE", 422, "INVALID_FIELDS", Some("status")));
    let owner = "/v1/admin/accounts?ownerId=a%2Fb";
    cases.push(get("/v1/admin/accounts", owner, 422, "INVALID_FIELDS", Some("ownerId")));
    for route in ["/v1/admin/users/{userId}/requests", "/v1/admin/users/{userId}/coupons"] {
        cases.extend(lists(route, &at(route, "u-1")));
        cases.push(get(route, &at(route, "a%23b"), 404, "USER_NOT_FOUND", None));
        cases.push(get(route, &at(route, "%FF"), 400, "BAD_REQUEST", None));
    }
    let why = "/v1/admin/events/{eventId}/users/{userId}";
    for (event, user, status, code) in [
        ("nope", "u-1", 404, "EVENT_NOT_FOUND"),
        ("a-b", "u-1", 404, "EVENT_NOT_FOUND"),
        ("there", "a%23b", 404, "USER_NOT_FOUND"),
        ("%FF", "u-1", 400, "BAD_REQUEST"),
    ] {
        cases.push(get(why, &why.replace("{eventId}", event).replace("{userId}", user), status, code, None));
    }
    let count = "/v1/admin/allocations/count";
    for (query, field) in [
        ("status=LOST", "status"),
        ("status=SUCCESS", "status"),
        ("eventId=a-b", "eventId"),
        ("memberId=a%2Fb", "memberId"),
    ] {
        cases.push(get(count, &format!("{count}?{query}"), 422, "INVALID_FIELDS", Some(field)));
    }
    let message = "/v1/admin/outbox/{eventId}";
    for id in ["nope", "%00", "018bcfe5-6800-7001-8000-000000000001"] {
        cases.push(get(message, &message.replace("{eventId}", id), 404, "MESSAGE_NOT_FOUND", None));
    }
    cases.push(get(message, "/v1/admin/outbox/%FF", 400, "BAD_REQUEST", None));
    let cancel = ("POST", "/v1/admin/allocations/cancel");
    cases.extend(bodies(cancel, cancel.1));
    for (body, field) in [
        (json!({}), "note"),
        (json!({"note": " "}), "note"),
        (json!({"note": 5}), "note"),
        (json!({"note": "x".repeat(501)}), "note"),
        (json!({"note": "x", "status": "SUCCESS"}), "status"),
        (json!({"note": "x", "eventId": "a-b"}), "eventId"),
        (json!({"note": "x", "memberId": "a/b"}), "memberId"),
    ] {
        cases.push(send(cancel, cancel.1, body, NOT_ACCEPTABLE, Some(field)));
    }
    let events = "/v1/admin/events";
    cases.push(get(events, "/v1/admin/events?type=RAFFLE", 422, "INVALID_FIELDS", Some("type")));
    cases
}
