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
export async function openEvent(server, type, more = {}) {
  const operator = server.api("operator", "OPERATOR");
  const { now } = await operator.get("/v1/time");
  const body = { eventId: fresh(type.toLowerCase()), name: `${type} of a test`, type, startsAt: now - 1_000, endsAt: now + HOUR, rewards: [points()], ...more };
  for (const [field, value] of Object.entries(body)) if (typeof value === "function") body[field] = value(now);
  await operator.post("/v1/admin/events", body);
  await operator.post(`/v1/admin/events/${body.eventId}/open`);
  return body;
}

/** Somebody who is signed in and looks at a page. Whatever the browser complains of fails the test that asks for it. */
export async function visit(browser, server, user, hash = "/", options = {}) {
  const opened = await openPage(browser, server, options);
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
