//! What is on: the bodies of events and coupons, as an operator would send them.

use guerdon_core::Timestamp;
use serde_json::{Value, json};

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Drops take turns with what they give away.
const DROPS: [(&str, &str); 4] = [
    ("한정판 피규어 드롭 · Limited figure drop", "limited_figure"),
    ("콘서트 앞자리 · Front-row tickets", "front_row_ticket"),
    ("새벽 스니커즈 · Midnight sneakers", "midnight_sneakers"),
    ("사인 앨범 · Signed album", "signed_album"),
];
const LOTTERIES: [&str; 3] =
    ["여름 휴가 추첨 · Summer trip draw", "노트북 추첨 · Laptop draw", "VIP 초대권 추첨 · VIP pass draw"];

fn turn<T: Copy, const N: usize>(of: [T; N], number: u64) -> T {
    of[usize::try_from(number).unwrap_or(0) % N]
}

fn points(reward_id: &str, amount: i64) -> Value {
    json!({"rewardId": reward_id, "kind": "POINT", "amount": amount, "currency": "POINT"})
}

fn event(id: &str, name: &str, kind: &str, starts_at: Timestamp, ends_at: Timestamp) -> Value {
    json!({
        "eventId": id, "name": name, "type": kind,
        "startsAt": starts_at.as_millis(), "endsAt": ends_at.as_millis(),
    })
}

/// The first come win an item and points.
pub(super) fn drop(number: u64, capacity: i64, starts_at: Timestamp) -> Value {
    let (name, item) = turn(DROPS, number - 1);
    let ends_at = starts_at.plus_millis(HOUR_MS);
    let mut body =
        event(&format!("drop_{number}"), &format!("{name} #{number}"), "FIRST_COME", starts_at, ends_at);
    body["capacityTotal"] = json!(capacity);
    body["rewards"] =
        json!([{"rewardId": item, "kind": "ITEM", "totalStock": capacity}, points("points", 1_000)]);
    body
}

/// Whoever is drawn gets a coupon and points.
pub(super) fn lottery(number: u64, capacity: i64, now: Timestamp, cutoff_at: Timestamp) -> Value {
    let name = format!("{} #{number}", turn(LOTTERIES, number - 1));
    let mut body = event(&format!("lottery_{number}"), &name, "LOTTERY", now, cutoff_at.plus_millis(DAY_MS));
    body["capacityTotal"] = json!(capacity);
    body["lotteryCutoffAt"] = json!(cutoff_at.as_millis());
    body["rewards"] = json!([points("jackpot", 50_000), {"rewardId": "voucher", "kind": "COUPON", "couponId": PRIZE_COUPON}]);
    body
}

/// For those who came on seven days or more, as long as there are boxes.
pub(super) fn gift(number: u64, stock: i64, now: Timestamp) -> Value {
    let name = format!("출석왕 선물 상자 · Gift for regulars #{number}");
    let mut body = event(&format!("gift_{number}"), &name, "CLAIM", now, now.plus_millis(DAY_MS));
    body["conditions"] = json!("activity.LOGIN_COUNT >= 7");
    body["rewards"] =
        json!([points("points", 500), {"rewardId": "gift_box", "kind": "ITEM", "totalStock": stock}]);
    body
}

pub(super) fn daily(now: Timestamp) -> Value {
    let name = "매일 출석 체크 · Daily check-in";
    let mut body = event("daily", name, "ATTENDANCE", now, now.plus_millis(60 * DAY_MS));
    body["rewards"] = json!([
        points("daily_points", 10),
        points("three_days", 100),
        {"rewardId": "week_coupon", "kind": "COUPON", "couponId": PRIZE_COUPON},
    ]);
    body["attendance"] = json!({
        "timeZone": "Asia/Seoul", "count": "STREAK", "daily": "daily_points",
        "bonus": [{"days": 3, "rewardId": "three_days"}, {"days": 7, "rewardId": "week_coupon"}],
    });
    body
}

pub(super) fn wheel(now: Timestamp) -> Value {
    let name = "행운의 룰렛 · Lucky wheel";
    let mut body = event("wheel", name, "RANDOM", now, now.plus_millis(60 * DAY_MS));
    let mut grand = points("grand_prize", 10_000);
    grand["totalStock"] = json!(100);
    body["rewards"] = json!([
        grand,
        {"rewardId": "voucher", "kind": "COUPON", "couponId": PRIZE_COUPON},
        points("points_500", 500),
        points("points_50", 50),
    ]);
    body["random"] = json!({
        "perDay": 5,
        "prizes": [
            {"rewardId": "grand_prize", "weight": 1},
            {"rewardId": "voucher", "weight": 9},
            {"rewardId": "points_500", "weight": 20},
            {"rewardId": "points_50", "weight": 40},
            {"rewardId": null, "weight": 30},
        ],
        "fallback": "points_500",
    });
    body
}

/// What draws, streaks and the wheel give away.
pub(super) const PRIZE_COUPON: &str = "voucher_5000";
/// There is one for everybody.
pub(super) const WELCOME_COUPON: &str = "WELCOME";

pub(super) fn coupon(id: &str, name: &str, quantity: i64, benefit: &Value, now: Timestamp) -> Value {
    json!({
        "couponId": id, "name": name, "totalQuantity": quantity, "perUserLimit": 1,
        "validFrom": now.as_millis(), "validUntil": now.plus_millis(30 * DAY_MS).as_millis(), "benefit": benefit,
    })
}

pub(super) fn prize_coupon(now: Timestamp) -> Value {
    let name = "5,000원 상품권 · ₩5,000 voucher";
    let mut body = coupon(PRIZE_COUPON, name, 1_000_000, &json!({"amount": 5_000, "currency": "KRW"}), now);
    // One can win more than once.
    body["perUserLimit"] = json!(100);
    body
}

pub(super) fn welcome_coupon(now: Timestamp) -> Value {
    let name = "첫 만남 10% 할인 · Welcome, 10% off";
    coupon(WELCOME_COUPON, name, 1_000_000, &json!({"percent": 10}), now)
}

/// A few, first come first served.
pub(super) fn flash_coupon(number: u64, quantity: i64, now: Timestamp) -> Value {
    let name = format!("반짝 30% 쿠폰 · Flash sale, 30% off #{number}");
    coupon(&format!("FLASH_{number}"), &name, quantity, &json!({"percent": 30}), now)
}
