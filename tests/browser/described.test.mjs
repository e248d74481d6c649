// The stage notices a call that /openapi.json does not describe: so no page can make one in any test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage, signIn, stage } from "./start.mjs";

const here = stage();

const CALLS = [
  ["GET", "/v1/admin/events?status=OPEN&limit=10", null],
  ["GET", "/v1/admin/events/drop/users/ann", null],
  ["GET", "/v1/me/requests", null],
  ["GET", "/v1/nowhere", "no path /v1/nowhere"],
  ["GET", "/v1/admin/events/drop/users/ann/more", "no path /v1/admin/events/drop/users/ann/more"],
  ["PUT", "/v1/admin/events", "no PUT /v1/admin/events"],
  // A path without a gap goes before one with a gap that would fit as well.
  ["PATCH", "/v1/admin/allocations/count", "no PATCH /v1/admin/allocations/count"],
  ["GET", "/v1/admin/events?colour=red", "no colour in the query of GET /v1/admin/events"],
];

test("a call that is not described is complained of", async () => {
  const { page, context, complaints } = await openPage(here);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  assert.deepEqual(complaints, []);
  for (const [method, path, missing] of CALLS) {
    complaints.length = 0;
    await page.evaluate(([name, address]) => fetch(address, { method: name }).then((answer) => answer.text()), [method, path]);
    const told = complaints.filter((one) => one.startsWith("not in /openapi.json"));
    assert.deepEqual(told, missing ? [`not in /openapi.json: ${missing}`] : [], path);
  }
  complaints.length = 0;
  await page.evaluate(() => new Promise((done) => {
    const source = new EventSource("/v1/nowhere/stream");
    source.addEventListener("error", () => { source.close(); done(); });
  }));
  assert.ok(complaints.includes("not in /openapi.json: no path /v1/nowhere/stream"), `${complaints}`);
  await context.close();
});
