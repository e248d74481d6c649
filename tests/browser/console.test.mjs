// The console in a real browser: the main actions, by mouse and by keyboard.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MARKUP, event, go, open, setStage } from "./console-stage.mjs";
import { openPage, signIn, until } from "./start.mjs";

const here = setStage();

test("an event is created, opened, watched while people apply, and closed", { timeout: 120_000 }, async () => {
  const { page, context, complaints } = await openPage(here);
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
  for (const name of ["u1", "u2", "u3", "u4"]) await here.server.api(name, "USER").post("/v1/events/formed/requests");
  await page.waitForSelector("[data-figure=remaining]:has-text('0')");
  await page.waitForSelector("[data-figure=decided]:has-text('4')");
  await page.waitForFunction(() => [...document.querySelectorAll(".chart-box")].every((chart) => Number(chart.dataset.points) >= 2));
  await page.click("button:has-text('Refresh')");
  await page.waitForSelector(".table >> text=Places were gone");
  await page.click("[data-action=close]");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  assert.equal((await here.operator.get("/v1/admin/events/formed")).status, "OPEN", "called off");
  await page.click("[data-action=close]");
  await page.click("dialog button:has-text('Close')");
  await page.waitForSelector(".marks >> text=Closed");
  assert.equal((await here.operator.get("/v1/admin/events/formed")).status, "CLOSED");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("events without a line are watched while people take part", { timeout: 120_000 }, async () => {
  await open(here.operator, event("spins", "RANDOM", { random: { prizes: [{ rewardId: "points", weight: 1 }] } }));
  await open(here.operator, event("days", "ATTENDANCE", { attendance: { timeZone: "Asia/Seoul", daily: "points" } }));
  await open(here.operator, event("boxes", "CLAIM", {}));
  const { page, context, complaints } = await openPage(here);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  for (const [eventId, came, take] of [
    ["spins", "points", (user, key) => user.post("/v1/events/spins/plays", {}, { "idempotency-key": key })],
    ["days", "First day", (user) => user.post("/v1/events/days/attendance")],
    ["boxes", "All granted", (user, key) => user.post("/v1/event-claims/boxes/claim", {}, { "idempotency-key": key })],
  ]) {
    await go(page, `/events/${eventId}`);
    await page.waitForSelector("[data-stream=live]");
    // A minute is drawn at once; then it moves.
    await page.waitForSelector("[data-figure=minute]:text-is('0')");
    const drawn = await page.$eval(".chart-box", (chart) => Number(chart.dataset.points));
    for (const name of ["p1", "p2", "p3"]) await take(here.server.api(name, "USER"), `${eventId}-of-${name}`);
    await page.waitForSelector("[data-figure=minute]:text-is('3')");
    await page.waitForSelector(`.legend li:has-text('${came}'):has-text('3')`);
    await page.waitForFunction((before) => Number(document.querySelector(".chart-box").dataset.points) > before, drawn);
  }
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a delivery is cancelled alone, and others in bulk with a reason", { timeout: 120_000 }, async () => {
  await open(here.operator, event("parcels", "FIRST_COME", { capacityTotal: 3, rewards: [{ rewardId: "box", kind: "ITEM", totalStock: 3 }] }));
  for (const name of ["p1", "p2", "p3"]) await here.server.api(name, "USER").post("/v1/events/parcels/requests");
  const { page, context, complaints } = await openPage(here);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("h1");
  const [first] = (await here.operator.get("/v1/admin/allocations?eventId=parcels")).items;
  await go(page, `/allocations/${first.allocationId}`);
  await page.click("[data-action=cancel]");
  await page.click("dialog button:has-text('Cancel delivery')");
  await page.waitForSelector(".marks >> text=Cancelled");
  // There is no provider here: the others wait, or have failed once.
  const status = await until(async () => {
    const [one, other] = (await here.operator.get("/v1/admin/allocations?eventId=parcels")).items.map((row) => row.rewardStatus).filter((name) => name !== "CANCELLED");
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
  const left = (await here.operator.get("/v1/admin/allocations?eventId=parcels")).items.map((row) => row.rewardStatus);
  assert.deepEqual(left, ["CANCELLED", "CANCELLED", "CANCELLED"]);
  assert.equal((await here.operator.get("/v1/admin/events/parcels")).rewards[0].remainingStock, 3, "the stock is back");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a lottery is drawn with the public value that it waited for", { timeout: 60_000 }, async () => {
  await open(here.operator, event("beacon", "LOTTERY", { capacityTotal: 1, lotteryCutoffAt: Date.now() + 1_500, publicNonceSource: "a beacon's next round" }));
  for (const name of ["l1", "l2"]) await here.server.api(name, "USER").post("/v1/events/beacon/requests");
  await until(async () => (await here.operator.get("/v1/events/beacon/draw")).status === "ROOTED");
  const { page, context, complaints } = await openPage(here);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  await go(page, "/events/beacon");
  await page.click("[data-action=draw]");
  assert.match(await page.textContent("dialog"), /a beacon's next round/);
  await page.fill("dialog [name=publicNonce]", "8f14e45fceea167a");
  await page.click("dialog button:has-text('Draw now')");
  await until(async () => (await here.operator.get("/v1/events/beacon/draw")).status === "ANNOUNCED");
  await page.reload();
  await page.waitForSelector(".facts >> text=Announced");
  await until(async () => (await here.operator.get("/v1/admin/events/beacon/requests?resultCode=SUCCESS")).items.length === 1);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("money, users, coupons and the audit", { timeout: 120_000 }, async () => {
  const { page, context, complaints } = await openPage(here);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("h1");
  await go(page, `/accounts/${here.ids.account}`);
  await page.click("[data-action=deposit]");
  await page.fill("dialog [name=amount]", "250");
  await page.click("dialog button:has-text('Deposit')");
  await page.waitForSelector("[data-figure=balance]:has-text('750')");
  await go(page, "/users/dora");
  await page.click("[data-action=status]");
  await page.selectOption("dialog select", "BANNED");
  await page.click("dialog button:has-text('Save')");
  await page.waitForSelector(".marks >> text=Banned");
  assert.equal((await here.server.api("dora", "USER").call("GET", "/v1/me/requests")).json.code, "USER_NOT_ACTIVE");
  await go(page, "/events/drop/users/dora");
  await page.waitForSelector("[data-reason=USER_NOT_ACTIVE]");
  await go(page, `/user-coupons/${here.ids.coupon}`);
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

test("from the keyboard alone", { timeout: 60_000 }, async () => {
  await here.operator.post("/v1/admin/events", event("keys", "FIRST_COME", { capacityTotal: 1 }));
  const { page, context, complaints } = await openPage(here);
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
  assert.equal((await here.operator.get("/v1/admin/events/keys")).status, "OPEN");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a long line comes page by page, in its order", { timeout: 120_000 }, async () => {
  await open(here.operator, event("crowd", "FIRST_COME", { capacityTotal: 5, rewards: [] }));
  const users = Array.from({ length: 130 }, (_, index) => `crowd-${index}`);
  await Promise.all(users.map((name) => here.server.api(name, "USER").post("/v1/events/crowd/requests")));
  const { page, context, complaints } = await openPage(here);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  await go(page, "/events/crowd");
  // A few to begin with, and more at a time for whoever wants more.
  for (const shown of [10, 110]) {
    await page.waitForSelector(`.list-count:has-text('${shown} shown')`);
    await page.click(".card .more button");
  }
  await page.waitForSelector(".list-count:has-text('130 in all')");
  const places = await page.$$eval(".table tbody tr th", (cells) => cells.map((cell) => Number(cell.textContent)));
  assert.deepEqual(places, Array.from({ length: 130 }, (_, index) => index + 1));
  assert.deepEqual(complaints, []);
  await context.close();
});

