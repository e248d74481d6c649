// How the page looks and sounds: on a phone, with a keyboard, in both languages, to assistive technology, and to strangers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { NASTY, go, openAll, openEvent, pagesOf, takePartInAll, visit } from "./play.mjs";
import { VARIANTS, axe, openPage, outOfReach, overflow, stage } from "./start.mjs";

const here = stage({ fill: async (there) => ({ events: await openAll(there) }) });
const takePart = (user) => takePartInAll(here, user);
const pages = () => pagesOf(here.events);

for (const [name, options] of Object.entries(VARIANTS)) {
  test(`every page on ${name}: nothing sticks out, nothing is out of reach`, async () => {
    const user = `look-${options.width}-${options.language}-${options.dark ?? false}`;
    await takePart(user);
    const one = await visit(here, user, "/", options);
    for (const page of pages()) {
      await go(one.page, page);
      await one.page.waitForLoadState("networkidle").catch(() => {});
      assert.deepEqual(await overflow(one.page), [], page);
      assert.deepEqual(await axe(one.page), [], page);
      assert.equal(await one.page.evaluate(() => document.documentElement.lang), options.language.slice(0, 2));
    }
    assert.equal(await one.page.evaluate(() => window.hacked), undefined);
    one.quiet();
    await one.context.close();
  });
}

test("whatever can be pressed on any page is reached by the keyboard alone, and is seen to be", async () => {
  await takePart("reach");
  const one = await visit(here, "reach", "/", { language: "ko-KR" });
  for (const page of pages()) {
    await go(one.page, page);
    await one.page.waitForLoadState("networkidle").catch(() => {});
    assert.deepEqual(await outOfReach(one.page), [], page);
  }
  one.quiet();
  await one.context.close();
});

test("what cannot be shown is said in the page's language, on a page with a title", async () => {
  const one = await visit(here, "lost", "/", { language: "ko-KR", width: 360 });
  await one.page.evaluate(() => { location.hash = "/events/none_such"; });
  await one.page.getByRole("heading", { name: "없는 이벤트예요" }).waitFor();
  assert.match(await one.page.locator(".problem").textContent(), /EVENT_NOT_FOUND/);
  assert.deepEqual(await axe(one.page), []);
  assert.deepEqual(await overflow(one.page), []);
  one.quiet({ refusals: true });
  await one.context.close();
});

test("a name is text, whatever is in it", async () => {
  const user = "xss";
  await takePart(user);
  const one = await visit(here, user, `/events/${here.events.nasty.eventId}`);
  assert.equal(await one.page.locator("h1").textContent(), NASTY);
  for (const page of ["/", "/history", "/coupons", "/coupons/NASTY"]) {
    await go(one.page, page);
    await one.seen(NASTY);
    assert.equal(await one.page.locator("main img, main script").count(), 0);
  }
  assert.equal(await one.page.evaluate(() => window.hacked), undefined);
  one.quiet();
});

test("with a keyboard alone", async () => {
  const event = await openEvent(here, "FIRST_COME", { name: "By keyboard", capacityTotal: 5 });
  const one = await visit(here, "keys");
  const focused = () => one.page.evaluate(() => (document.activeElement.matches("a, button, input, select") ? document.activeElement.textContent : ""));
  const tabTo = async (text) => {
    for (let presses = 0; presses < 60; presses += 1) {
      await one.page.keyboard.press("Tab");
      if ((await focused()).includes(text)) return;
    }
    assert.fail(`${text} cannot be reached`);
  };
  await one.page.evaluate(() => document.activeElement.blur());
  await tabTo("Skip to the content");
  await tabTo("By keyboard");
  await one.page.keyboard.press("Enter");
  await one.button("Take a place").waitFor();
  await tabTo("Take a place");
  await one.page.keyboard.press("Enter");
  await one.seen("You made it!");
  assert.match(await focused(), /Already applied/, "the focus stays");
  await tabTo("History");
  await one.page.keyboard.press("Enter");
  await one.page.getByRole("heading", { name: "My history" }).waitFor();
  assert.match(await one.page.title(), /My history/);
  assert.ok(event.eventId);
  one.quiet();
});

test("the language is the browser's, and can be changed", async () => {
  const one = await visit(here, "words", "/", { language: "ko-KR" });
  await one.page.getByRole("heading", { name: "진행 중인 이벤트" }).waitFor();
  await one.page.getByLabel("언어").selectOption("en");
  await one.page.getByRole("heading", { name: "What’s on" }).waitFor();
  await one.page.reload();
  await one.page.getByRole("heading", { name: "What’s on" }).waitFor();
  assert.equal(await one.page.evaluate(() => document.documentElement.lang), "en");
  await one.page.getByLabel("Appearance").selectOption("dark");
  assert.equal(await one.page.evaluate(() => document.documentElement.dataset.theme), "dark");
  one.quiet();
});

test("nobody sees anything of somebody else", async () => {
  const owner = await takePart("owner-of-it-all");
  const theirs = (await owner.get("/v1/me/requests")).items.map((request) => request.requestId);
  const one = await visit(here, "stranger");
  const answers = [];
  one.page.on("response", async (response) => {
    if (response.url().includes("/v1/")) answers.push(await response.text().catch(() => ""));
  });
  for (const page of pages()) await go(one.page, page);
  await go(one.page, "/history");
  await one.seen("You have not applied to anything yet");
  await go(one.page, "/points");
  await one.seen("No points yet");
  await go(one.page, "/coupons");
  await one.seen("No coupons yet");
  const told = answers.join("\n") + await one.page.content();
  assert.ok(answers.length > 10);
  for (const secret of ["owner-of-it-all", ...theirs]) assert.ok(!told.includes(secret), secret);
  one.quiet();
});

test("a session that has ended leads back to the door", async () => {
  const { page } = await openPage(here);
  await page.goto("/play");
  await page.getByText("Good to see you").waitFor();
  const one = await visit(here, "gone");
  await one.context.clearCookies();
  await one.page.evaluate(() => { location.hash = "/history"; });
  await one.seen("Your session has ended");
});
