// The console in a real browser: each page, the main actions, a phone, the keyboard, what each role may do.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { axe, openPage, overflow, signIn, startBrowser, startServer, until } from "./start.mjs";

const DAY = 86_400_000;
const LONG = "추석맞이 선착순 포인트 드롭 — 한가위 감사 대잔치, 전 회원 대상 특별 이벤트 (온라인 스토어 단독)";
const MARKUP = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>";
const POINTS = [{ rewardId: "points", kind: "POINT", amount: 1000, currency: "POINT" }];

let server;
let browser;
let operator;
const ids = {};

function event(eventId, type, more) {
  return { eventId, name: eventId, type, startsAt: Date.now() - 1_000, endsAt: Date.now() + 5 * DAY, rewards: POINTS, ...more };
}

async function open(body) {
  await operator.post("/v1/admin/events", body);
  await operator.post(`/v1/admin/events/${body.eventId}/open`);
}

before(async () => {
  server = await startServer();
  browser = await startBrowser();
  operator = server.api("ops", "OPERATOR");
  await operator.post("/v1/admin/coupons", { couponId: "ten_off", name: "Ten off", totalQuantity: 5, validFrom: 0, validUntil: 4_000_000_000_000, benefit: { percent: 10 } });
  await open(event("drop", "FIRST_COME", { name: LONG, capacityTotal: 2, rewards: [...POINTS, { rewardId: "gift", kind: "ITEM" }] }));
  await open(event("raffle", "LOTTERY", { capacityTotal: 1, lotteryCutoffAt: Date.now() + DAY }));
  await open(event("level", "CLAIM", { conditions: "activity.LEVEL >= 10" }));
  await open(event("daily", "ATTENDANCE", { attendance: { timeZone: "Asia/Seoul", daily: "points" } }));
  await open(event("wheel", "RANDOM", { random: { prizes: [{ rewardId: "points", weight: 1 }, { rewardId: null, weight: 1 }] } }));
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
  ids.transfer = (await operator.post(`/v1/admin/accounts/${ids.account}/deposit`, { amount: 500 }, { "idempotency-key": "ann-s-deposit-1" })).transferId;
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const go = (page, hash) => page.evaluate((next) => { location.hash = next; }, hash);

/** Every page, with something that is only there once it has been read. */
const pages = () => [
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
  ["/outbox", "text=Nothing is sent"],
  [`/outbox/${ids.message}`, "pre"],
  ["/accounts", ".table >> text=KRW"],
  [`/accounts/${ids.account}`, "text=Statement"],
  [`/transfers/${ids.transfer}`, "text=Booked"],
  ["/coupons", "text=Ten off"],
  ["/coupons/ten_off", ".table >> text=ann"],
  [`/user-coupons/${ids.coupon}`, "text=Asked for"],
  ["/users", "text=banned"],
  ["/users/ann", "text=not in the registry"],
  ["/audit", "text=Not run yet"],
  ["/audit-log", "text=Event opened"],
  ["/search?q=ann", ".table >> text=User"],
  ["/search?q=no-such-id", "text=Nothing has this id"],
  ["/nowhere", "text=The address leads nowhere"],
];

test("every page shows itself, without complaint, and is accessible", { timeout: 300_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("h1");
  for (const [hash, sign] of pages()) {
    await go(page, hash);
    await page.waitForSelector(`#content ${sign.startsWith("text=") ? `>> ${sign}` : sign}`);
    assert.deepEqual(await axe(page), [], hash);
    assert.deepEqual(complaints.splice(0), [], hash);
  }
  await context.close();
});

test("every page fits a phone, in Korean and in the dark", { timeout: 300_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, { width: 360, height: 740, language: "ko-KR", dark: true });
  await signIn(page, "/console", "ops", "OPERATOR", { name: "남궁민수 플랫폼 운영 본부 이벤트 기획 담당자" });
  await page.waitForSelector("h1");
  for (const [hash] of pages()) {
    await go(page, hash);
    await page.waitForFunction((path) => location.hash === `#${path}` && document.querySelector("#content h1") && !document.querySelector("#content .loading"), hash);
    assert.deepEqual(await overflow(page), [], hash);
  }
  assert.equal(await page.getAttribute("html", "lang"), "ko");
  await page.click("button:has-text('메뉴')");
  await page.click("nav >> text=감사 로그");
  await page.waitForSelector("h1:has-text('감사 로그')");
  assert.deepEqual(await axe(page), []);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("an event is created, opened, watched while people apply, and closed", { timeout: 120_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.click("a:has-text('New event')");
  await page.fill("[name=name]", "From the form");
  await page.fill("[name=eventId]", "with-hyphen");
  await page.fill("[name=capacityTotal]", "3");
  await page.click("button:has-text('Create draft')");
  assert.equal(await page.evaluate(() => document.querySelector("[name=eventId]").validity.patternMismatch), true);
  await page.fill("[name=eventId]", "drop");
  await page.click("button:has-text('Create draft')");
  await page.waitForSelector(".problem >> text=EVENT_EXISTS");
  assert.match(await page.textContent(".problem"), /Trace id/);
  // The server refused it, which the browser notes as an error; nothing else did.
  assert.equal(complaints.splice(0).filter((one) => !one.includes("409")).length, 0);
  await page.fill("[name=eventId]", "formed");
  await page.click("button:has-text('Create draft')");
  await page.waitForSelector("h1:has-text('From the form')");
  await page.click("[data-action=open]");
  await page.click("dialog button:has-text('Open')");
  await page.waitForSelector("[data-stream=live]");
  await page.waitForSelector("[data-figure=remaining]:has-text('3')");
  for (const name of ["u1", "u2", "u3", "u4"]) await server.api(name, "USER").post("/v1/events/formed/requests");
  await page.waitForSelector("[data-figure=remaining]:has-text('0')");
  await page.waitForSelector("[data-figure=decided]:has-text('4')");
  await page.waitForFunction(() => [...document.querySelectorAll(".chart-box")].every((chart) => Number(chart.dataset.points) >= 2));
  await page.click("button:has-text('Refresh')");
  await page.waitForSelector(".table >> text=Places were gone");
  await page.click("[data-action=close]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  assert.equal((await operator.get("/v1/admin/events/formed")).status, "OPEN", "called off");
  await page.click("[data-action=close]");
  await page.click("dialog button:has-text('Close')");
  await page.waitForSelector(".marks >> text=Closed");
  assert.equal((await operator.get("/v1/admin/events/formed")).status, "CLOSED");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a delivery is cancelled alone, and others in bulk with a reason", { timeout: 120_000 }, async () => {
  await open(event("parcels", "FIRST_COME", { capacityTotal: 3, rewards: [{ rewardId: "box", kind: "ITEM", totalStock: 3 }] }));
  for (const name of ["p1", "p2", "p3"]) await server.api(name, "USER").post("/v1/events/parcels/requests");
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("h1");
  const [first] = (await operator.get("/v1/admin/allocations?eventId=parcels")).items;
  await go(page, `/allocations/${first.allocationId}`);
  await page.click("[data-action=cancel]");
  await page.click("dialog button:has-text('Cancel delivery')");
  await page.waitForSelector(".marks >> text=Cancelled");
  // There is no provider here: the others wait, or have failed once.
  const status = await until(async () => {
    const [one, other] = (await operator.get("/v1/admin/allocations?eventId=parcels")).items.map((row) => row.rewardStatus).filter((name) => name !== "CANCELLED");
    return one === other && one !== "PROCESSING" ? one : null;
  });
  await go(page, `/allocations?eventId=parcels&status=${status}`);
  await page.waitForSelector("[data-action=bulk-cancel]");
  await page.click("[data-action=bulk-cancel]");
  await page.waitForSelector("dialog >> text=2 deliveries fit.");
  await page.fill("dialog [name=note]", `wrong address ${MARKUP}`);
  await page.click("dialog button:has-text('Cancel many')");
  await page.waitForSelector("[data-progress=DONE]");
  assert.match(await page.textContent("#content"), /2 changed of 2/);
  assert.ok((await page.textContent("#content")).includes(MARKUP), "a note with markup is text");
  const left = (await operator.get("/v1/admin/allocations?eventId=parcels")).items.map((row) => row.rewardStatus);
  assert.deepEqual(left, ["CANCELLED", "CANCELLED", "CANCELLED"]);
  assert.equal((await operator.get("/v1/admin/events/parcels")).rewards[0].remainingStock, 3, "the stock is back");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a lottery is drawn with the public value that it waited for", { timeout: 60_000 }, async () => {
  await open(event("beacon", "LOTTERY", { capacityTotal: 1, lotteryCutoffAt: Date.now() + 1_500, publicNonceSource: "a beacon's next round" }));
  for (const name of ["l1", "l2"]) await server.api(name, "USER").post("/v1/events/beacon/requests");
  await until(async () => (await operator.get("/v1/events/beacon/draw")).status === "ROOTED");
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  await go(page, "/events/beacon");
  await page.click("[data-action=draw]");
  assert.match(await page.textContent("dialog"), /a beacon's next round/);
  await page.fill("dialog [name=publicNonce]", "8f14e45fceea167a");
  await page.click("dialog button:has-text('Draw now')");
  await until(async () => (await operator.get("/v1/events/beacon/draw")).status === "ANNOUNCED");
  await page.reload();
  await page.waitForSelector(".facts >> text=Announced");
  await until(async () => (await operator.get("/v1/admin/events/beacon/requests?resultCode=SUCCESS")).items.length === 1);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("money, users, coupons and the audit", { timeout: 120_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("h1");
  await go(page, `/accounts/${ids.account}`);
  await page.click("[data-action=deposit]");
  await page.fill("dialog [name=amount]", "250");
  await page.click("dialog button:has-text('Deposit')");
  await page.waitForSelector("[data-figure=balance]:has-text('750')");
  await go(page, "/users/dora");
  await page.click("[data-action=status]");
  await page.selectOption("dialog select", "BANNED");
  await page.click("dialog button:has-text('Save')");
  await page.waitForSelector(".marks >> text=Banned");
  assert.equal((await server.api("dora", "USER").call("GET", "/v1/me/requests")).json.code, "USER_NOT_ACTIVE");
  await go(page, "/events/drop/users/dora");
  await page.waitForSelector("[data-reason=USER_NOT_ACTIVE]");
  await go(page, `/user-coupons/${ids.coupon}`);
  await page.click("[data-action=revoke]");
  await page.fill("dialog [name=note]", "a mistake");
  await page.click("dialog button:has-text('Revoke')");
  await page.waitForSelector(".marks >> text=Revoked");
  await go(page, "/audit");
  await page.click("[data-action=audit]");
  await page.waitForSelector("[data-audit=true]");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("markup in names and ids stays text", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR", { name: MARKUP });
  await page.waitForSelector("h1");
  await go(page, "/events/markup");
  await page.waitForSelector("h1:has-text('onerror')");
  assert.equal(await page.textContent("h1"), MARKUP);
  await go(page, `/search?q=${encodeURIComponent(MARKUP)}`);
  await page.waitForSelector("h1:has-text('Search')");
  await go(page, `/users/${encodeURIComponent("\"><svg,onload=1>")}`);
  await page.waitForSelector("#content h1, #content .problem");
  assert.equal(await page.locator("#content img, #content script, #content svg[onload]").count(), 0);
  assert.notEqual(await page.title(), "broken");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("from the keyboard alone", { timeout: 60_000 }, async () => {
  await operator.post("/v1/admin/events", event("keys", "FIRST_COME", { capacityTotal: 1 }));
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  const press = async (key, times = 1) => { for (let count = 0; count < times; count += 1) await page.keyboard.press(key); };
  const focused = () => page.evaluate(() => document.activeElement?.textContent || document.activeElement?.getAttribute("aria-label") || "");
  await press("Tab");
  assert.match(await focused(), /Skip to the content/);
  await press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "content");
  await page.focus("[type=search][name=q]");
  await page.keyboard.type("keys");
  await press("Enter");
  await page.waitForSelector("h1:has-text('Search: keys')");
  assert.match(await focused(), /Search: keys/, "the new page's title has the focus");
  await press("Tab");
  assert.equal(await focused(), "keys");
  await press("Enter");
  await page.waitForSelector("[data-action=open]");
  for (let count = 0; count < 10 && (await focused()) !== "Open"; count += 1) await press("Tab");
  await press("Enter");
  await page.waitForSelector("dialog");
  assert.equal(await focused(), "Back", "the harmless answer has the focus");
  await press("Tab");
  await press("Enter");
  await page.waitForSelector("[data-stream=live]");
  assert.equal((await operator.get("/v1/admin/events/keys")).status, "OPEN");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("an auditor sees everything and can change nothing", { timeout: 180_000 }, async () => {
  const { page, context } = await openPage(browser, server);
  await signIn(page, "/console", "watcher", "AUDITOR");
  await page.waitForSelector("#content h1");
  for (const [hash] of pages()) {
    await go(page, hash);
    await page.waitForFunction((path) => location.hash === `#${path}` && document.querySelector("#content h1, #content .problem") && !document.querySelector("#content .loading"), hash);
    const actions = await page.$$eval("#content [data-action]", (found) => found.map((one) => one.dataset.action).filter((name) => name !== "audit"));
    assert.deepEqual(actions, [], hash);
    assert.equal(await page.locator("a:has-text('New event')").count(), 0, hash);
  }
  // And the server would not have it either.
  const refused = await page.evaluate(async () => {
    const { csrfToken } = await (await fetch("/v1/session")).json();
    const answer = await fetch("/v1/admin/events/drop/close", { method: "POST", headers: { "x-csrf-token": csrfToken } });
    return [answer.status, (await answer.json()).code];
  });
  assert.deepEqual(refused, [403, "FORBIDDEN"]);
  await context.close();
});

test("whoever is not signed in is asked to, and nothing complains", { timeout: 60_000 }, async () => {
  for (const width of [1280, 360]) {
    const { page, context, complaints } = await openPage(browser, server, { width });
    await page.goto("/console#/events/drop");
    await page.waitForSelector("h1:has-text('Sign in')");
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(await overflow(page), []);
    assert.deepEqual(complaints, []);
    await context.close();
  }
});

test("a user is refused, and signs out", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ann", "USER");
  await page.waitForSelector("h1:has-text('This page is not for you')");
  assert.equal(await page.locator("nav").count(), 0);
  assert.ok(!page.url().includes("token="), "the token has left the address bar");
  assert.deepEqual(await axe(page), []);
  assert.deepEqual(complaints, []);
  await page.click("button:has-text('Sign out')");
  await page.waitForSelector("h1:has-text('Sign in')");
  assert.deepEqual(await context.cookies(), []);
  await page.fill("[name=token]", "not.a.token");
  await page.click("button:has-text('Sign in')");
  await page.waitForSelector(".problem >> text=TOKEN_INVALID");
  await context.close();
});

test("what a page of another origin can send is refused", { timeout: 60_000 }, async () => {
  const { page, context } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  const [cookie] = await context.cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["guerdon_session", true, "Strict"]);
  assert.equal(await page.evaluate(() => document.cookie), "", "no script can read it");
  const codes = await page.evaluate(async () => {
    const send = async (headers) => (await (await fetch("/v1/admin/events/drop/close", { method: "POST", headers })).json()).code;
    return [await send({}), await send({ "x-csrf-token": "guessed" })];
  });
  assert.deepEqual(codes, ["CSRF_REFUSED", "CSRF_REFUSED"]);
  // The same server by another name is another site: its pages have no session, and their calls none either.
  const other = await context.newPage();
  await other.goto(server.address.replace("127.0.0.1", "localhost") + "/docs");
  const answered = await other.evaluate(async (address) => {
    try {
      const answer = await fetch(`${address}/v1/admin/events/drop/close`, { method: "POST", credentials: "include", mode: "no-cors" });
      return answer.type;
    } catch (error) {
      return error.name;
    }
  }, server.address);
  assert.ok(["opaque", "TypeError"].includes(answered), answered);
  assert.equal((await operator.get("/v1/admin/events/drop")).status, "OPEN");
  await context.close();
});

test("language and appearance are switched and remembered", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, { language: "ko-KR" });
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("h1:has-text('이벤트')");
  await page.selectOption("select[aria-label='언어']", "en");
  await page.waitForSelector("h1:has-text('Events')");
  await page.selectOption("select[aria-label=Appearance]", "dark");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.reload();
  await page.waitForSelector("h1:has-text('Events')");
  assert.equal(await ground(), dark);
  assert.equal(await page.getAttribute("html", "lang"), "en");
  await page.selectOption("select[aria-label=Appearance]", "light");
  assert.notEqual(await ground(), dark);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a long line comes page by page, in its order", { timeout: 120_000 }, async () => {
  await open(event("crowd", "FIRST_COME", { capacityTotal: 5, rewards: [] }));
  const users = Array.from({ length: 130 }, (_, index) => `crowd-${index}`);
  await Promise.all(users.map((name) => server.api(name, "USER").post("/v1/events/crowd/requests")));
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  await go(page, "/events/crowd");
  for (let shown = 10; shown < 130; shown += 10) {
    await page.waitForSelector(`.list-count:has-text('${shown} shown')`);
    await page.click(".card .more button");
  }
  await page.waitForSelector(".list-count:has-text('130 in all')");
  const places = await page.$$eval(".table tbody tr th", (cells) => cells.map((cell) => Number(cell.textContent)));
  assert.deepEqual(places, Array.from({ length: 130 }, (_, index) => index + 1));
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a stream that breaks comes back by itself, and an ended session asks for a new one", { timeout: 60_000 }, async () => {
  const { page, context } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  // The first is cut after a frame, the second never comes about, the third is the server's own.
  let tries = 0;
  const figures = { byStatus: {}, byResultCode: {}, queueDepth: 0, capacityTotal: 77, capacityRemaining: 77, latencyMs: { p50: null, p99: null }, deadLetterCandidates: 0 };
  await page.route("**/v1/admin/events/drop/stream", (route) => {
    tries += 1;
    if (tries === 1) return route.fulfill({ contentType: "text/event-stream", body: `event: summary\ndata: ${JSON.stringify(figures)}\n\n` });
    return tries === 2 ? route.abort() : route.continue();
  });
  await go(page, "/events/drop");
  await page.waitForSelector("[data-figure=remaining]:has-text('77')");
  await page.waitForSelector("[data-figure=remaining]:text-is('0')");
  await page.waitForSelector("[data-stream=live]");
  assert.equal(tries, 3);
  await context.clearCookies();
  await go(page, "/users");
  await page.waitForSelector("h1:has-text('Sign in')");
  await context.close();
});
