// What a participant does on the page, from the button to the reward.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fresh, go, openEvent, points, visit } from "./play.mjs";
import { openPage, stage, token } from "./start.mjs";

const here = stage();

test("somebody applies, wins, and is given the reward", async () => {
  const event = await openEvent(here, "FIRST_COME", { name: "Morning drop", capacityTotal: 5 });
  const one = await visit(here, "ann");
  await one.page.getByRole("link", { name: /Morning drop/ }).click();
  await one.button("Take a place").click();
  await one.seen("You made it!");
  await one.seen("You were no. 1 in line");
  await one.seen("arrived");
  await one.seen("In line");
  await one.button("Already applied").waitFor();
  assert.equal(await one.button("Already applied").getAttribute("aria-disabled"), "true");
  assert.match(await one.page.locator(".result").getAttribute("aria-live"), /polite/);

  await one.page.reload();
  await one.button("Already applied").waitFor();
  await one.seen("You made it!");

  await go(one.page, "/history");
  await one.seen("Morning drop");
  await one.seen("You won");
  await go(one.page, "/points");
  await one.seen("1,000 points");
  await one.seen("Received");
  await go(one.page, "/");
  await one.page.locator(`[data-event="${event.eventId}"]`).getByText("Applied").waitFor();
  one.quiet();
});

test("whoever comes too late is told so, with the place they had", async () => {
  const event = await openEvent(here, "FIRST_COME", { capacityTotal: 1 });
  const late = await visit(here, "late", `/events/${event.eventId}`);
  await late.button("Take a place").waitFor();
  await here.server.api("early", "USER").post(`/v1/events/${event.eventId}/requests`);
  await late.button("Take a place").click();
  await late.seen("All places were taken");
  await late.seen("You were no. 2; the first 1 won");
  late.quiet();
});

test("a place in line is followed until it is decided", async () => {
  // On one database a place is decided as it is taken; where it is not, this is what the page is told.
  const event = await openEvent(here, "FIRST_COME", { capacityTotal: 20 });
  const request = (more) => ({ requestId: "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0001", eventId: event.eventId, eventType: "FIRST_COME", status: "QUEUED", uiResult: "PENDING", position: 17, ahead: 3, requestedAt: 1_700_000_000_000, duplicate: false, timeline: [{ from: null, to: "RECEIVED", at: 1_700_000_000_000 }, { from: "RECEIVED", to: "QUEUED", at: 1_700_000_000_001 }], ...more });
  const one = await visit(here, "queue", `/events/${event.eventId}`);
  await one.page.route("**/requests", (route) => (route.request().method() === "POST" ? route.fulfill({ status: 202, json: request() }) : route.fallback()));
  let decide;
  const frame = (data) => `event: request\ndata: ${JSON.stringify(data)}\n\n`;
  const decided = new Promise((done) => { decide = done; });
  let streams = 0;
  await one.page.route("**/stream", async (route) => {
    streams += 1;
    if (streams > 1) await decided;
    const last = request({ status: "SUCCEEDED", uiResult: "SUCCESS", resultCode: "SUCCESS", ahead: 0 });
    await route.fulfill({ contentType: "text/event-stream", body: frame(streams > 1 ? last : request({ ahead: 1 })) });
  });
  await one.button("Take a place").click();
  await one.seen("No. 17");
  await one.seen("1 person");
  await one.button("Already applied").waitFor();
  decide();
  await one.seen("You made it!");
  one.quiet();
});

test("the button opens by the server's clock, whatever the browser's says", async () => {
  const event = await openEvent(here, "FIRST_COME", { capacityTotal: 5, startsAt: (now) => now + 4_000 });
  const prepare = (page) => page.addInitScript(() => {
    const { now } = Date;
    Date.now = () => now.call(Date) + 7_200_000;
  });
  const one = await visit(here, "bob", `/events/${event.eventId}`, { prepare });
  await one.seen("Starts in");
  assert.match(await one.page.locator(".clock").textContent(), /^00:0[1-5]$/);
  assert.equal(await one.button("Not open yet").getAttribute("aria-disabled"), "true");
  await one.button("Take a place").click();
  await one.seen("You made it!");
  one.quiet();
});

test("a click twice applies once", async () => {
  const event = await openEvent(here, "FIRST_COME", { capacityTotal: 5 });
  const one = await visit(here, "cat", `/events/${event.eventId}`);
  await one.button("Take a place").dblclick();
  await one.seen("You made it!");
  const summary = await here.server.api("operator", "OPERATOR").get(`/v1/admin/events/${event.eventId}/summary`);
  assert.deepEqual(summary.byResultCode, { SUCCESS: 1 });
  assert.equal(await one.page.locator(".problem").count(), 0);
  one.quiet();
});

test("a lottery: the place, the receipt, the result by itself, and the proof", async () => {
  const event = await openEvent(here, "LOTTERY", { capacityTotal: 3, lotteryCutoffAt: (now) => now + 6_000 });
  await here.server.api("before", "USER").post(`/v1/events/${event.eventId}/requests`);
  const one = await visit(here, "dan", `/events/${event.eventId}`);
  await one.seen("Entries close in");
  await one.seen("Commitment to the seed");
  await one.button("Enter the draw").click();
  await one.seen("No. 2");
  await one.seen("You are in the draw");
  await one.seen("Your receipt");
  await one.page.reload();
  await one.button("Already applied").waitFor();
  await one.seen("You were drawn!");
  await one.seen("arrived");
  await one.seen("2 of 2 entries were drawn");
  const proof = one.page.getByRole("link", { name: "Proof of my entry" });
  const shown = await one.page.evaluate(async (address) => (await fetch(address)).json(), await proof.getAttribute("href"));
  assert.equal(shown.eventId ?? shown.leaf ? true : false, true);
  await one.page.getByRole("link", { name: "Document of the draw" }).waitFor();
  one.quiet();
});

test("checking in, once a day", async () => {
  const event = await openEvent(here, "ATTENDANCE", { rewards: [points("daily", 10), points("week", 100)], attendance: { count: "STREAK", daily: "daily", bonus: [{ days: 7, rewardId: "week" }] } });
  const one = await visit(here, "eve", `/events/${event.eventId}`);
  await one.seen("0 days in a row");
  await one.button("Check in today").click();
  await one.seen("Checked in!");
  await one.seen("1 day in a row");
  await one.seen("1 of 7");
  await one.page.locator(".month .done.today").waitFor();
  await one.page.reload();
  await one.button("Checked in today").waitFor();
  await one.page.locator(".month .done.today").waitFor();
  one.quiet();
});

test("a game: the odds are there, and a play is counted", async () => {
  const event = await openEvent(here, "RANDOM", { rewards: [points("prize", 50)], random: { perDay: 2, prizes: [{ rewardId: "prize", weight: 1 }] } });
  const one = await visit(here, "fay", `/events/${event.eventId}`);
  await one.seen("100%");
  await one.seen("2 plays left");
  await one.button("Spin").click();
  await one.page.locator(".outcome").getByText("50 points").first().waitFor();
  await one.seen("1 play left");
  await one.button("Spin").click();
  await one.button("No plays left today").waitFor();
  assert.equal(await one.page.locator(".past li").count(), 2);
  await one.page.reload();
  await one.button("No plays left today").waitFor();
  one.quiet();
});

test("a claim: not yet, and then all of it", async () => {
  const event = await openEvent(here, "CLAIM", { conditions: "activity.LOGIN_COUNT >= 7", rewards: [points("gift", 500)] });
  await here.server.api("operator", "OPERATOR").put("/v1/admin/users/gus/activity", { LOGIN_COUNT: 3 });
  const one = await visit(here, "gus", `/events/${event.eventId}`);
  await one.seen("activity.LOGIN_COUNT >= 7");
  await one.button("Claim the rewards").click();
  await one.seen("the condition is not met");
  await one.page.locator(".facts").getByText("3", { exact: true }).waitFor();
  await here.server.api("operator", "OPERATOR").put("/v1/admin/users/gus/activity", { LOGIN_COUNT: 9 });
  await one.button("Try once more").click();
  await one.seen("The rewards are yours!");
  await one.page.reload();
  await one.button("Already claimed").waitFor();
  await go(one.page, "/points");
  await one.seen("500 points");
  one.quiet({ refusals: true });
});

test("a coupon by its code: got, used, and given back", async () => {
  const couponId = fresh("SAVE");
  await here.server.api("operator", "OPERATOR").post("/v1/admin/coupons", { couponId, name: "Ten off", totalQuantity: 2, benefit: { percent: 10 } });
  const one = await visit(here, "hal", "/coupons");
  await one.seen("No coupons yet");
  await one.page.getByLabel("Coupon code").fill(couponId);
  await one.button("Look it up").click();
  await one.seen("10% off");
  await one.seen("2 of 2 left");
  await one.button("Get the coupon").click();
  await one.seen("The coupon is yours!");
  await one.button("You have it").waitFor();
  await go(one.page, "/coupons");
  await one.button("Use").click();
  await one.page.getByLabel("Order number").fill("order-1");
  await one.page.getByRole("dialog").getByRole("button", { name: "Use" }).click();
  await one.seen("Used for the order order-1");
  await one.button("Undo the use").click();
  await one.page.getByRole("dialog").getByRole("button", { name: "Undo the use" }).click();
  await one.seen("Ready to use");
  await go(one.page, "/coupons/NO_SUCH_CODE");
  await one.seen("There is no coupon with the code NO_SUCH_CODE");
  one.quiet({ refusals: true });
});

test("signing in by a pasted token, and out", async () => {
  const { page, complaints } = await openPage(here);
  await page.goto("/play");
  await page.getByLabel("Token").fill("nonsense");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("TOKEN_INVALID").waitFor();
  await page.getByLabel("Token").fill(token("ivy", "USER"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Signed in as ivy").waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "", "no script can read the token");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("Good to see you").waitFor();
  await page.reload();
  await page.getByText("Good to see you").waitFor();
  assert.deepEqual(complaints.filter((one) => !/Failed to load resource/.test(one)), []);
});
