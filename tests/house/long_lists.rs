//! Lists in which what is looked for lies behind more rows than the store looks through at once.

use crate::support::{Cluster, on_every_setup, token};
use guerdon_harness::Api;
use guerdon_harness::database::Sql;
use serde_json::{Value, json};

on_every_setup! {
    what_lies_far_behind_is_found
}

/// More than one look goes through, and less than two.
const COPIES: i64 = 30_000;

/// An id that comes after all real ones, or the value of another column, for the copy with the number `n`.
enum Of {
    Id,
    Text,
    Is(&'static str),
}

/// Writes many copies of the rows that `real` names, which differ in some columns.
fn copy(sql: &mut Sql, table: &str, real: &str, columns: &[(&str, Of)]) {
    let (names, id) = match sql {
        Sql::Sqlite(_) => {
            let named = table.replace('.', "_");
            (format!("SELECT name FROM pragma_table_info('{named}')"), "unhex('ff' || printf('%030x', n))")
        }
        Sql::Postgres(_) => {
            let (schema, name) = table.split_once('.').unwrap_or(("public", table));
            (
                format!(
                    "SELECT CAST(column_name AS TEXT) FROM information_schema.columns
                     WHERE table_schema = '{schema}' AND table_name = '{name}' ORDER BY ordinal_position"
                ),
                "decode('ff' || lpad(to_hex(n), 30, '0'), 'hex')",
            )
        }
    };
    let names = sql.texts(&names);
    let values: Vec<_> = names
        .iter()
        .map(|name| match columns.iter().find(|(changed, _)| changed == name) {
            None => name.as_str(),
            Some((_, Of::Id)) => id,
            Some((_, Of::Text)) => "'copy-' || n",
            Some((_, Of::Is(value))) => value,
        })
        .collect();
    let table = sql.table(table);
    sql.run(&format!(
        "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {COPIES})
         INSERT INTO {table} ({}) SELECT {} FROM {table}, numbers WHERE {real}",
        names.join(", "),
        values.join(", ")
    ));
}

/// Reads a filtered list to its end: what was on it, and how many pages came before the first of them.
fn read(api: &Api, path: &str, name: &str) -> (Vec<String>, usize) {
    let (mut found, mut empty, mut cursor) = (Vec::new(), 0, String::new());
    for _ in 0..20 {
        let page = api.get(&format!("{path}&limit=100{cursor}")).expect(200).json();
        let items = page["items"].as_array().unwrap();
        empty += usize::from(found.is_empty() && items.is_empty());
        found.extend(items.iter().map(|item| item[name].as_str().unwrap().to_owned()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (found, empty),
        }
    }
    panic!("{path} has no end");
}

fn what_lies_far_behind_is_found(cluster: &Cluster) {
    let api = cluster.operator(0);
    let mut sql = cluster.database.sql();
    let user = |name: &str| cluster.servers[0].api().with_token(&token(name, "USER"));
    let text = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
    let open = |id: &str, kind: &str, more: Value| {
        let mut body =
            json!({"eventId": id, "name": id, "type": kind, "startsAt": 0, "endsAt": 4_000_000_000_000_i64});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        api.post("/v1/admin/events", &body).expect(201);
        api.post(&format!("/v1/admin/events/{id}/open"), &json!({})).expect(200);
    };

    for (name, status) in [("a", "INACTIVE"), ("zz", "BANNED"), ("b", "ACTIVE"), ("zzz", "ACTIVE")] {
        let body = json!({"status": status}).to_string();
        api.send("PUT", &format!("/v1/admin/users/{name}"), &[], Some(&body)).expect(200);
    }
    copy(&mut sql, "users", "user_id = 'a'", &[("user_id", Of::Text)]);
    assert_eq!(read(&api, "/v1/admin/users?status=BANNED", "userId"), (vec!["zz".into()], 1));
    assert_eq!(read(&api, "/v1/admin/users?status=ACTIVE", "userId"), (vec!["b".into(), "zzz".into()], 0));

    open(
        "parcel",
        "FIRST_COME",
        json!({"capacityTotal": 1, "rewards": [{"rewardId": "box", "kind": "ITEM"}]}),
    );
    for name in ["ann", "bob"] {
        user(name).post("/v1/events/parcel/requests", &json!({})).expect(202);
    }
    let won = api.get("/v1/admin/allocations?eventId=parcel").expect(200).json();
    let allocation = text(&won["items"][0], "allocationId");
    api.post(&format!("/v1/admin/allocations/{allocation}/cancel"), &json!({})).expect(200);
    let changed = [
        ("allocation_id", Of::Id),
        ("idempotency_key", Of::Text),
        ("member_id", Of::Text),
        ("reward_status", Of::Is("'SUCCESS'")),
    ];
    copy(&mut sql, "event_reward_allocation", "event_id = 'parcel'", &changed);
    for path in
        ["/v1/admin/allocations?status=CANCELLED", "/v1/admin/allocations?status=CANCELLED&eventId=parcel"]
    {
        assert_eq!(read(&api, path, "allocationId"), (vec![allocation.clone()], 1), "{path}");
    }

    // A line of many who came too late, and two who did not: the first, and the last but one.
    let late = [("line", Of::Is("line + n")), ("request_id", Of::Id), ("user_id", Of::Text)];
    copy(&mut sql, "requests", "user_id = 'bob'", &late);
    sql.run(&format!(
        "UPDATE event_lines SET last_position = {0}, decided_position = {0} WHERE event_id = 'parcel'",
        COPIES + 2
    ));
    sql.run(&format!(
        "UPDATE requests SET result = (SELECT result FROM requests WHERE user_id = 'ann') WHERE user_id = 'copy-{}'",
        COPIES - 1
    ));
    let (won, empty) = read(&api, "/v1/admin/events/parcel/requests?resultCode=SUCCESS", "userId");
    assert_eq!((won, empty), (vec!["ann".into(), format!("copy-{}", COPIES - 1)], 0));
    assert_eq!(read(&api, "/v1/admin/events/parcel/requests?status=QUEUED", "userId"), (vec![], 2));

    open(
        "gift",
        "CLAIM",
        json!({"conditions": "size(activity) > 9", "rewards": [{"rewardId": "box", "kind": "ITEM"}]}),
    );
    let key = [("idempotency-key", "ann-s-claim")];
    user("ann").send("POST", "/v1/event-claims/gift/claim", &key, Some("{}")).expect(422);
    let claims = api.get("/v1/admin/claims?status=CONDITION_NOT_MET").expect(200).json();
    let claim = text(&claims["items"][0], "requestId");
    let changed = [
        ("claim_id", Of::Id),
        ("request_id", Of::Text),
        ("user_id", Of::Text),
        ("status", Of::Is("'SUCCESS_ALL_GRANTED'")),
    ];
    copy(&mut sql, "user_reward_requests", "user_id = 'ann'", &changed);
    for path in [
        "/v1/admin/claims?status=CONDITION_NOT_MET",
        "/v1/admin/claims?status=CONDITION_NOT_MET&eventId=gift",
    ] {
        assert_eq!(read(&api, path, "requestId"), (vec![claim.clone()], 1), "{path}");
    }

    let coupon = json!({"couponId": "ten", "name": "Ten", "totalQuantity": 5, "validFrom": 0, "validUntil": 4_000_000_000_000_i64, "benefit": {}});
    api.post("/v1/admin/coupons", &coupon).expect(201);
    let key = [("idempotency-key", "ann-s-coupon")];
    let held = user("ann").send("POST", "/v1/coupons/ten/issue", &key, Some("{}")).json();
    let held = text(&held, "userCouponId");
    let changed = [("user_coupon_id", Of::Id), ("user_id", Of::Text)];
    copy(&mut sql, "user_coupon", "user_id = 'ann'", &changed);
    api.post(&format!("/v1/admin/user-coupons/{held}/revoke"), &json!({"note": "rare"})).expect(200);
    let path = "/v1/admin/coupons/ten/user-coupons?status=REVOKED";
    assert_eq!(read(&api, path, "userCouponId"), (vec![held], 1));

    let outbox = sql.table("integration.outbox_events");
    for (rare, common) in [("SENT", "'DEAD'"), ("SENDING", "'NEW'")] {
        open(
            &format!("told_{}", rare.to_lowercase()),
            "CLAIM",
            json!({"rewards": [{"rewardId": "box", "kind": "ITEM"}]}),
        );
        sql.run(&format!("DELETE FROM {outbox} WHERE aggregate_id <> 'told_{}'", rare.to_lowercase()));
        sql.run(&format!("UPDATE {outbox} SET status = '{rare}'"));
        let real = sql.number(&format!("SELECT COUNT(*) FROM {outbox}"));
        let changed = [("event_id", Of::Id), ("status", Of::Is(common))];
        copy(&mut sql, "integration.outbox_events", "1 = 1", &changed);
        let (found, empty) = read(&api, &format!("/v1/admin/outbox?status={rare}"), "status");
        assert_eq!((found, empty), (vec![rare.to_owned()], 1), "{real} {rare}");
    }
}
