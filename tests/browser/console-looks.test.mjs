// Every page of the console: that it shows itself, on a desk and on a phone, in both languages and colours, and to a keyboard.

import assert from "node:assert/strict";
import { test } from "node:test";
import { go, pages, setStage } from "./console-stage.mjs";
import { VARIANTS, axe, openPage, outOfReach, overflow, signIn } from "./start.mjs";

const here = setStage();
const WHO = { "ko-KR": "남궁민수 플랫폼 운영 본부 이벤트 기획 담당자", "en-GB": "Operator" };

/** Goes to a page and waits until it has been read. */
async function visit(page, hash) {
  await go(page, hash);
  await page.waitForFunction((path) => location.hash === `#${path}` && document.querySelector("#content h1") && !document.querySelector("#content .loading"), hash);
}

async function enter(options) {
  const opened = await openPage(here, options);
  await signIn(opened.page, "/console", "ops", "OPERATOR", { name: WHO[options.language] });
  await opened.page.waitForSelector("#content h1");
  return opened;
}

/** Each of what axe-core looks at is in one of two: both languages, both colours, both widths. */
const HEARD = ["a desk, in English", "a phone, in Korean, in the dark"];

for (const [name, options] of Object.entries(VARIANTS)) {
  test(`every page on ${name}: it is there, fits, complains of nothing, and is accessible`, { timeout: 300_000 }, async () => {
    const { page, context, complaints } = await enter(options);
    assert.equal(await page.getAttribute("html", "lang"), options.language.slice(0, 2));
    for (const [hash, sign] of pages(here.ids)) {
      await visit(page, hash);
      // Signs are in English, and a phone has no heads above its tables.
      if (name === HEARD[0]) await page.waitForSelector(`#content ${sign.startsWith("text=") ? `>> ${sign}` : sign}`);
      assert.deepEqual(await overflow(page), [], hash);
      if (HEARD.includes(name)) assert.deepEqual(await axe(page), [], hash);
      assert.deepEqual(complaints.splice(0), [], hash);
    }
    await context.close();
  });
}

test("whatever can be pressed is reached by the keyboard alone, and is seen to be", { timeout: 300_000 }, async () => {
  const { page, context } = await enter({ language: "ko-KR" });
  for (const [hash] of pages(here.ids)) {
    await visit(page, hash);
    assert.deepEqual(await outOfReach(page), [], hash);
  }
  await context.close();
});

test("the menu of a phone opens, and leads on", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await enter({ width: 360, height: 740, language: "ko-KR", dark: true });
  await page.click("button:has-text('메뉴')");
  assert.deepEqual(await axe(page), []);
  assert.deepEqual(await overflow(page), []);
  await page.click("nav >> text=감사 로그");
  await page.waitForSelector("h1:has-text('감사 로그')");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("what cannot be shown is said in the page's language", { timeout: 60_000 }, async () => {
  const { page, context } = await enter({ language: "ko-KR", width: 360 });
  await go(page, "/events/none_such");
  await page.waitForSelector("h1:has-text('없는 이벤트입니다')");
  const problem = page.locator("#content .problem");
  assert.match(await problem.textContent(), /EVENT_NOT_FOUND/);
  // What the server itself says of it is English, and says so.
  assert.equal(await problem.locator("[lang=en]").count(), 1);
  assert.deepEqual(await axe(page), []);
  assert.deepEqual(await overflow(page), []);
  await context.close();
});
