// What the tests of the participants' page share: events that are made for them, and a person who looks.

import assert from "node:assert/strict";
import { openPage, signIn } from "./start.mjs";

const HOUR = 3_600_000;
let number = 0;

/** An id that no other test has. */
export function fresh(prefix) {
  number += 1;
  return `${prefix}_${number}`;
}

export const points = (rewardId = "points", amount = 1_000) => ({ rewardId, kind: "POINT", amount, currency: "POINT" });

/** An open event of a type; `more` are its other fields. */
export async function openEvent({ server }, type, more = {}) {
  const operator = server.api("operator", "OPERATOR");
  const { now } = await operator.get("/v1/time");
  const body = { eventId: fresh(type.toLowerCase()), name: `${type} of a test`, type, startsAt: now - 1_000, endsAt: now + HOUR, rewards: [points()], ...more };
  for (const [field, value] of Object.entries(body)) if (typeof value === "function") body[field] = value(now);
  await operator.post("/v1/admin/events", body);
  await operator.post(`/v1/admin/events/${body.eventId}/open`);
  return body;
}

export const NASTY = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> "quotes' & {t}`;
const LONG = "아주아주긴이름의이벤트가한번도띄어쓰지않고계속이어집니다".repeat(3);

/** An event of every type, with names that are as bad as they can be. */
export async function openAll(here) {
  await here.operator.post("/v1/admin/coupons", { couponId: "NASTY", name: NASTY, totalQuantity: 100, benefit: { note: NASTY } });
  const coupon = { rewardId: "coupon", kind: "COUPON", couponId: "NASTY" };
  return {
    nasty: await openEvent(here, "FIRST_COME", { name: NASTY, capacityTotal: 50, rewards: [points(), coupon] }),
    lottery: await openEvent(here, "LOTTERY", { name: LONG, capacityTotal: 5, lotteryCutoffAt: (now) => now + 1_000_000 }),
    claim: await openEvent(here, "CLAIM", { conditions: `activity.A == "<b>x</b>" && activity.LONGLONGLONGLONGLONGLONGLONGLONGLONG > 3` }),
    daily: await openEvent(here, "ATTENDANCE", { rewards: [points("daily", 10), coupon], attendance: { daily: "daily", bonus: [{ days: 1, rewardId: "coupon" }, { days: 7, rewardId: "daily" }] } }),
    game: await openEvent(here, "RANDOM", { rewards: [points(), coupon], random: { perDay: 3, prizes: [{ rewardId: "points", weight: 1 }, { rewardId: "coupon", weight: 3 }, { rewardId: null, weight: 6 }] } }),
    soon: await openEvent(here, "FIRST_COME", { capacityTotal: 5, startsAt: (now) => now + 1_000_000, endsAt: (now) => now + 2_000_000 }),
  };
}

/** Takes part in everything, so that every page has something to show. */
export async function takePartInAll({ server, events }, user) {
  const api = server.api(user, "USER");
  await api.post(`/v1/events/${events.nasty.eventId}/requests`);
  await api.post(`/v1/events/${events.lottery.eventId}/requests`);
  await api.post(`/v1/events/${events.daily.eventId}/attendance`);
  await api.post(`/v1/events/${events.game.eventId}/plays`, {}, { "idempotency-key": `${user}-play` });
  await api.call("POST", `/v1/event-claims/${events.claim.eventId}/claim`, {}, { "idempotency-key": `${user}-claim` });
  return api;
}

/** Every page. */
export const pagesOf = (events) => ["/", ...Object.values(events).map((event) => `/events/${event.eventId}`), "/history", "/coupons", "/coupons/NASTY", "/points", "/nowhere"];

/** Somebody who is signed in and looks at a page. Whatever the browser complains of fails the test that asks for it. */
export async function visit(here, user, hash = "/", options = {}) {
  const opened = await openPage(here, options);
  const { page } = opened;
  if (options.prepare) await options.prepare(page);
  await signIn(page, "/play", user, "USER");
  await page.locator("main h1").waitFor();
  await go(page, hash);
  return {
    ...opened,
    button: (name) => page.getByRole("button", { name, exact: true }),
    seen: (text) => page.getByText(text).first().waitFor(),
    /** Nothing was complained of. A refusal that a test is about is one that the browser writes down. */
    quiet({ refusals = false } = {}) {
      const kept = opened.complaints.filter((one) => !refusals || !/Failed to load resource/.test(one));
      assert.deepEqual(kept, []);
    },
  };
}

/** Goes to a page as a link would, and waits until it is there. */
export async function go(page, hash) {
  const here = await page.evaluate(() => location.hash.replace(/^#/, "") || "/");
  if (here === hash) return;
  const before = await page.locator("main h1").elementHandle();
  await page.evaluate((next) => { location.hash = next; }, hash);
  await page.waitForFunction((old) => !old.isConnected && document.querySelector("main h1"), before);
}
