// The page when things go wrong: a connection that drops, an answer that is lost, a server that has too much to do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openEvent, points, visit } from "./play.mjs";
import { stage } from "./start.mjs";

const here = stage();

const summary = (event) => here.server.api("operator", "OPERATOR").get(`/v1/admin/events/${event.eventId}/summary`);

test("a click without a connection is carried out once it is back", async () => {
  const event = await openEvent(here, "FIRST_COME", { capacityTotal: 5 });
  const one = await visit(here, "ann", `/events/${event.eventId}`);
  await one.button("Take a place").waitFor();
  await one.context.setOffline(true);
  await one.button("Take a place").click();
  await one.seen("The connection is lost");
  await one.seen("Trying again; your place is taken only once");
  await one.context.setOffline(false);
  await one.seen("You made it!");
  await one.page.waitForFunction(() => document.getElementById("connection").textContent === "");
  assert.deepEqual((await summary(event)).byResultCode, { SUCCESS: 1 });
  one.quiet({ refusals: true });
});

test("an answer that is lost is asked for again under the same key", async () => {
  const event = await openEvent(here, "RANDOM", { rewards: [points("prize", 50)], random: { perDay: 5, prizes: [{ rewardId: "prize", weight: 1 }] } });
  const one = await visit(here, "bob", `/events/${event.eventId}`);
  const keys = [];
  await one.page.route("**/plays", async (route) => {
    if (route.request().method() !== "POST") return route.fallback();
    keys.push(route.request().headers()["idempotency-key"]);
    if (keys.length > 2) return route.fallback();
    // It arrives, and the answer does not.
    await route.fetch();
    return route.abort("connectionreset");
  });
  await one.button("Spin").click();
  await one.page.locator(".outcome").waitFor();
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  assert.equal((await here.server.api("bob", "USER").get(`/v1/events/${event.eventId}/plays`)).total, 1);
  one.quiet({ refusals: true });
});

test("a reload in the middle of it does not do it twice", async () => {
  const event = await openEvent(here, "RANDOM", { rewards: [points("prize", 50)], random: { perDay: 5, prizes: [{ rewardId: "prize", weight: 1 }] } });
  const one = await visit(here, "cat", `/events/${event.eventId}`);
  const lost = async (route) => {
    if (route.request().method() !== "POST") return route.fallback();
    await route.fetch();
    return route.abort("connectionreset");
  };
  await one.page.route("**/plays", lost);
  await one.button("Spin").click();
  await one.seen("Trying again");
  await one.page.unroute("**/plays", lost);
  await one.page.reload();
  await one.button("Spin").click();
  await one.page.locator(".outcome").waitFor();
  assert.equal((await here.server.api("cat", "USER").get(`/v1/events/${event.eventId}/plays`)).total, 1);
  one.quiet({ refusals: true });
});

test("a server that is too busy is tried again with pauses that grow", async () => {
  const event = await openEvent(here, "FIRST_COME", { capacityTotal: 5 });
  const one = await visit(here, "dan", `/events/${event.eventId}`);
  const times = [];
  await one.page.route("**/requests", async (route) => {
    if (route.request().method() !== "POST") return route.fallback();
    times.push(performance.now());
    if (times.length > 3) return route.fallback();
    return route.fulfill({ status: 503, contentType: "application/problem+json", headers: { "retry-after": "1" }, body: JSON.stringify({ code: "OVERLOADED", title: "Overloaded", status: 503 }) });
  });
  await one.button("Take a place").click();
  await one.seen("You made it!");
  const pauses = times.slice(1).map((time, index) => time - times[index]);
  assert.equal(pauses.length, 3);
  assert.ok(pauses[0] >= 250 && pauses[1] >= 550 && pauses[2] >= 1_100, `${pauses}`);
  one.quiet({ refusals: true });
});

test("a page that only waits asks for little", async () => {
  const event = await openEvent(here, "LOTTERY", { capacityTotal: 1, lotteryCutoffAt: (now) => now + 3_000_000 });
  const one = await visit(here, "eve", `/events/${event.eventId}`);
  await one.button("Enter the draw").click();
  await one.seen("You are in the draw");
  const asked = [];
  one.page.on("request", (request) => asked.push(request.url()));
  const stream = await one.page.evaluate(() => performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => name.endsWith("/stream")).length);
  // Six seconds of a page that is looked at, by its own clock.
  await one.page.waitForFunction((until) => performance.now() > until, await one.page.evaluate(() => performance.now() + 6_000));
  assert.ok(asked.length <= 6, `${asked.length} calls in six seconds: ${asked}`);
  assert.ok(stream <= 1);
  one.quiet();
});
