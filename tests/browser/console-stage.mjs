// What the tests of the console share: events of every type, people who took part, and the list of pages.

import { stage } from "./start.mjs";

export const DAY = 86_400_000;
const LONG = "추석맞이 선착순 포인트 드롭 — 한가위 감사 대잔치, 전 회원 대상 특별 이벤트 (온라인 스토어 단독)";
export const MARKUP = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>";
const POINTS = [{ rewardId: "points", kind: "POINT", amount: 1000, currency: "POINT" }];

export function event(eventId, type, more) {
  return { eventId, name: eventId, type, startsAt: Date.now() - 1_000, endsAt: Date.now() + 5 * DAY, rewards: POINTS, ...more };
}

export async function open(operator, body) {
  await operator.post("/v1/admin/events", body);
  await operator.post(`/v1/admin/events/${body.eventId}/open`);
}

/** A server and a browser, and people who took part in an event of every type. */
export const setStage = () => stage({ fill });

export async function fill({ server, operator }) {
  const ids = {};
  await operator.post("/v1/admin/coupons", { couponId: "ten_off", name: "Ten off", totalQuantity: 5, validFrom: 0, validUntil: 4_000_000_000_000, benefit: { percent: 10 } });
  await open(operator, event("drop", "FIRST_COME", { name: LONG, capacityTotal: 2, rewards: [...POINTS, { rewardId: "gift", kind: "ITEM" }] }));
  await open(operator, event("raffle", "LOTTERY", { capacityTotal: 1, lotteryCutoffAt: Date.now() + DAY }));
  await open(operator, event("level", "CLAIM", { conditions: "activity.LEVEL >= 10" }));
  await open(operator, event("daily", "ATTENDANCE", { attendance: { timeZone: "Asia/Seoul", daily: "points" } }));
  await open(operator, event("wheel", "RANDOM", { random: { prizes: [{ rewardId: "points", weight: 1 }, { rewardId: null, weight: 1 }] } }));
  await operator.post("/v1/admin/events", event("markup", "FIRST_COME", { name: MARKUP, capacityTotal: 5 }));
  await operator.put("/v1/admin/users/ann/activity", { LEVEL: 12 });
  await operator.put("/v1/admin/users/banned", { status: "BANNED" });
  for (const name of ["ann", "bob", "cid"]) {
    const user = server.api(name, "USER");
    ids[name] = (await user.post("/v1/events/drop/requests")).requestId;
  }
  const ann = server.api("ann", "USER");
  await ann.post("/v1/events/raffle/requests");
  await ann.post("/v1/events/daily/attendance");
  ids.claim = (await ann.post("/v1/event-claims/level/claim", {}, { "x-idempotency-key": "ann-s-claim-1" })).requestId;
  ids.coupon = (await ann.post("/v1/coupons/ten_off/issue", {}, { "idempotency-key": "ann-s-coupon-1" })).userCouponId;
  const item = (await operator.get("/v1/admin/allocations?memberId=ann&eventId=drop")).items.find((row) => row.rewardId === "gift");
  ids.allocation = item.allocationId;
  const account = await operator.post("/v1/admin/accounts", { ownerId: "ann", currency: "KRW", scale: 0 });
  ids.account = account.accountId;
  ids.message = (await operator.get("/v1/admin/outbox")).items[0].eventId;
  ids.bulk = (await operator.post("/v1/admin/allocations/retry", { status: "FAILED", note: "이유를 적은 긴 메모: 배송사 장애로 실패한 건을 다시 시도합니다" })).retryId;
  ids.transfer = (await operator.post(`/v1/admin/accounts/${ids.account}/deposit`, { amount: 500 }, { "idempotency-key": "ann-s-deposit-1" })).transferId;
  return { ids };
}

export const go = (page, hash) => page.evaluate((next) => { location.hash = next; }, hash);

/** Every page, with something that is only there once it has been read. */
export const pages = (ids) => [
  ["/events", "text=drop"],
  ["/events?status=DRAFT", "text=markup"],
  ["/events/new", "button:has-text('Create draft')"],
  ["/events/drop", "[data-figure=remaining]:has-text('0')"],
  ["/events/raffle", "text=Collecting entries"],
  ["/events/level", "text=activity.LEVEL >= 10"],
  ["/events/daily", "text=Asia/Seoul"],
  ["/events/wheel", "text=50%"],
  ["/events/markup", "text=Not open yet"],
  ["/events/drop/users/ann", "[data-verdict]"],
  ["/events/drop/users/cid", "[data-reason=CAPACITY_FULL]"],
  ["/events/drop/users/nobody", "[data-verdict=NEVER_ASKED]"],
  [`/requests/${ids.ann}`, ".timeline >> text=Won"],
  ["/claims?status=ALL", "text=ann-s-claim-1"],
  ["/claims", "text=No claim fits"],
  [`/claims/${ids.claim}`, "text=Nothing had to be undone."],
  ["/allocations", ".table >> text=gift"],
  [`/allocations/${ids.allocation}`, "text=Timeline"],
  [`/allocations/bulk/${ids.bulk}`, "[data-progress]"],
  ["/outbox", "text=Nothing is sent"],
  [`/outbox/${ids.message}`, "pre"],
  ["/accounts", ".table >> text=KRW"],
  [`/accounts/${ids.account}`, "text=Statement"],
  [`/transfers/${ids.transfer}`, "text=Booked"],
  ["/coupons", "text=Ten off"],
  ["/coupons/ten_off", ".table >> text=ann"],
  [`/user-coupons/${ids.coupon}`, "text=Asked for"],
  ["/users", ".table >> text=banned"],
  ["/users/ann", "text=not in the registry"],
  ["/audit", "text=Not run yet"],
  ["/audit-log", "text=Event opened"],
  ["/search?q=ann", ".table >> text=User"],
  ["/search?q=no-such-id", "text=Nothing has this id"],
  ["/nowhere", "text=The address leads nowhere"],
];
