// Claims that need a hand: found, tried again, or resolved with a note.

import assert from "node:assert/strict";
import { test } from "node:test";
import { axe, openPage, overflow, signIn, stage, startPartners } from "./start.mjs";

const here = stage({
  async settings(begun) {
    begun.partners = await startPartners();
    begun.ending.push(() => begun.partners.stop());
    return { GUERDON_PROVIDERS__DEFAULT__URL: begun.partners.address, GUERDON_CLAIMS__LEASE: "1s", GUERDON_CLAIMS__RETRY_DELAY: "30ms", GUERDON_CLAIMS__RETRIES: "1" };
  },
  async fill({ server, operator, partners }) {
    const rewards = ["sword", "shield"].map((rewardId) => ({ rewardId, kind: "ITEM", totalStock: 5 }));
    await operator.post("/v1/admin/events", { eventId: "gift", name: "Gift", type: "CLAIM", startsAt: 0, endsAt: 4_000_000_000_000, rewards });
    await operator.post("/v1/admin/events/gift/open");
    await partners.faults({ byReward: { shield: [{ status: 422 }, { status: 422 }] }, revokeStatus: 500 });
    for (const name of ["ann", "bob"]) {
      const failed = await server.api(name, "USER").call("POST", "/v1/event-claims/gift/claim", {}, { "x-idempotency-key": `claim-of-${name}`, prefer: "wait=30" });
      assert.equal(failed.json.code, "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED", failed.text);
    }
    await partners.faults({});
  },
});

test("claims that need a hand are retried, and resolved with a note", { timeout: 120_000 }, async () => {
  const { page, context, complaints } = await openPage(here);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  await page.click("nav >> text=Claims");
  await page.waitForSelector(".table >> text=claim-of-bob");
  await page.click("text=claim-of-ann");
  await page.waitForSelector(".attention");
  assert.match(await page.textContent(".attention"), /Take reward back: sword/);
  assert.match(await page.textContent("#content"), /Take reward back – failed/, "the log of what was undone");
  assert.deepEqual(await axe(page), []);
  await page.click("[data-action=retry]");
  await page.click("dialog button:has-text('Try again')");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.evaluate(() => { location.hash = "/events/gift/users/ann"; });
  await page.waitForSelector("[data-verdict]");
  await page.evaluate(() => { location.hash = "/claims/claim-of-bob"; });
  await page.click("[data-action=resolve]");
  await page.click("dialog button:has-text('Mark as resolved')");
  assert.equal(await page.evaluate(() => document.querySelector("dialog [name=note]").validity.valueMissing), true, "not without a note");
  await page.fill("dialog [name=note]", "Taken back by hand <b>today</b>");
  await page.check("dialog [name=returnStock]");
  await page.click("dialog button:has-text('Mark as resolved')");
  await page.waitForSelector(".marks >> text=Failed and undone");
  assert.equal(await page.locator("[data-action]").count(), 0, "nothing is left to do");
  assert.ok((await page.textContent("#content")).includes("<b>today</b>"));
  assert.equal((await here.operator.get("/v1/admin/claims/claim-of-bob")).status, "FAILED_ROLLED_BACK");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a claim fits a phone", { timeout: 60_000 }, async () => {
  const { page, context } = await openPage(here, { width: 360, language: "ko-KR" });
  await signIn(page, "/console", "watcher", "AUDITOR");
  await page.waitForSelector("#content h1");
  await page.evaluate(() => { location.hash = "/claims/claim-of-bob"; });
  await page.waitForSelector(".timeline");
  assert.deepEqual(await overflow(page), []);
  await context.close();
});
