// Lists of ten thousand lines: read to their end, filtered to what lies far behind, and the page still follows its user.

import assert from "node:assert/strict";
import { test } from "node:test";
import { event, go, open } from "./console-stage.mjs";
import { openPage, overflow, signIn, stage } from "./start.mjs";

const PEOPLE = 10_000;
const WINNERS = 9_900;

const here = stage({ fill: manyPeople });

async function manyPeople({ server, operator }) {
  await open(operator, event("long", "FIRST_COME", { name: "아주 긴 줄이 서는 이벤트", capacityTotal: WINNERS, rewards: [{ rewardId: "parcel", kind: "ITEM" }] }));
  for (let first = 0; first < PEOPLE; first += 250) {
    await Promise.all(Array.from({ length: 250 }, (_, index) => server.api(`person-${first + index}`, "USER").post("/v1/events/long/requests")));
  }
}

/** Signs in and goes to a page. */
async function visit(hash, options) {
  const opened = await openPage(here, options);
  await signIn(opened.page, "/console", "ops", "OPERATOR");
  await opened.page.waitForSelector("#content h1");
  await go(opened.page, hash);
  return opened;
}

/** Presses the button until all lines are there. */
async function readAll(page, list, lines) {
  let shown = 0;
  while (shown < lines) {
    await page.waitForFunction(([where, before]) => {
      const count = document.querySelectorAll(`${where} tbody tr`).length;
      return count > before && !document.querySelector(`${where} .loading`);
    }, [list, shown]);
    shown = await page.locator(`${list} tbody tr`).count();
    if (shown < lines) await page.click(`${list} .more button`);
  }
  assert.equal(await page.locator(`${list} .more`).count(), 0, "there is no button behind the last line");
}

for (const [name, options] of [["at a desk", {}], ["on a phone, in Korean", { width: 360, height: 740, language: "ko-KR", dark: true }]]) {
  test(`ten thousand deliveries ${name}`, { timeout: 240_000 }, async () => {
    const { page, context, complaints } = await visit("/allocations", options);
    const list = "#content .page > .listing";
    await page.waitForSelector(`${list} tbody tr`);
    await readAll(page, list, WINNERS);
    const ids = await page.$$eval(`${list} tbody th a`, (links) => links.map((link) => link.getAttribute("href")));
    assert.equal(new Set(ids).size, WINNERS, "each is there once");
    assert.deepEqual(await overflow(page), []);
    if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/long-${options.width ?? 1280}.png` });
    // From its end to another page and back.
    await page.evaluate(() => window.scrollTo(0, document.documentElement.scrollHeight));
    assert.ok(await page.locator(`${list} tbody tr`).last().isVisible());
    assert.deepEqual(await overflow(page), []);
    if (process.env.SCREENSHOTS) await page.screenshot({ path: `${process.env.SCREENSHOTS}/long-${options.width ?? 1280}-end.png` });
    await go(page, "/events/long");
    await page.waitForSelector("[data-stream=live]");
    assert.deepEqual(complaints, []);
    await context.close();
  });
}

test("a line of ten thousand while it moves, and those at its end", { timeout: 240_000 }, async () => {
  const { page, context, complaints } = await visit("/events/long");
  const list = "#content section.card:has(.toolbar) .listing";
  await readAll(page, list, PEOPLE);
  assert.match(await page.textContent(`${list} .list-count`), /10,000 in all/);
  const places = await page.$$eval(`${list} tbody th`, (cells) => cells.map((cell) => cell.textContent));
  assert.deepEqual([places[0], places.at(-1)], ["1", "10,000"]);
  // Live figures go on beside it.
  await here.server.api("latecomer", "USER").post("/v1/events/long/requests");
  await page.waitForSelector("[data-figure=decided]:has-text('10,001')");
  // Those who came too late lie behind all who won.
  await page.selectOption("#content .toolbar select", "REJECTED_CAPACITY");
  await page.waitForSelector(`${list} tbody th:has-text('9,901')`);
  assert.equal(await page.locator(`${list} tbody tr`).count(), 10);
  assert.deepEqual(await overflow(page), []);
  assert.deepEqual(complaints, []);
  await context.close();
});
