// How the page looks and sounds: on a phone, with a keyboard, in both languages, to assistive technology, and to strangers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { go, openEvent, points, visit } from "./play.mjs";
import { axe, openPage, overflow, startBrowser, startServer } from "./start.mjs";

const NASTY = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script> "quotes' & {t}`;
const LONG = "아주아주긴이름의이벤트가한번도띄어쓰지않고계속이어집니다".repeat(3);

let server;
let browser;
let events;
before(async () => {
  server = await startServer();
  browser = await startBrowser();
  const operator = server.api("operator", "OPERATOR");
  await operator.post("/v1/admin/coupons", { couponId: "NASTY", name: NASTY, totalQuantity: 100, benefit: { note: NASTY } });
  const coupon = { rewardId: "coupon", kind: "COUPON", couponId: "NASTY" };
  events = {
    nasty: await openEvent(server, "FIRST_COME", { name: NASTY, capacityTotal: 50, rewards: [points(), coupon] }),
    lottery: await openEvent(server, "LOTTERY", { name: LONG, capacityTotal: 5, lotteryCutoffAt: (now) => now + 1_000_000 }),
    claim: await openEvent(server, "CLAIM", { conditions: `activity.A == "<b>x</b>" && activity.LONGLONGLONGLONGLONGLONGLONGLONGLONG > 3` }),
    daily: await openEvent(server, "ATTENDANCE", { rewards: [points("daily", 10), coupon], attendance: { daily: "daily", bonus: [{ days: 1, rewardId: "coupon" }, { days: 7, rewardId: "daily" }] } }),
    game: await openEvent(server, "RANDOM", { rewards: [points(), coupon], random: { perDay: 3, prizes: [{ rewardId: "points", weight: 1 }, { rewardId: "coupon", weight: 3 }, { rewardId: null, weight: 6 }] } }),
    soon: await openEvent(server, "FIRST_COME", { capacityTotal: 5, startsAt: (now) => now + 1_000_000, endsAt: (now) => now + 2_000_000 }),
  };
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

/** Takes part in everything, so that every page has something to show. */
async function takePart(user) {
  const api = server.api(user, "USER");
  await api.post(`/v1/events/${events.nasty.eventId}/requests`);
  await api.post(`/v1/events/${events.lottery.eventId}/requests`);
  await api.post(`/v1/events/${events.daily.eventId}/attendance`);
  await api.post(`/v1/events/${events.game.eventId}/plays`, {}, { "idempotency-key": `${user}-play` });
  await api.call("POST", `/v1/event-claims/${events.claim.eventId}/claim`, {}, { "idempotency-key": `${user}-claim` });
  return api;
}

const pages = () => ["/", ...Object.values(events).map((event) => `/events/${event.eventId}`), "/history", "/coupons", "/coupons/NASTY", "/points", "/nowhere"];

for (const [name, options] of Object.entries({
  "a phone, in Korean": { width: 360, height: 740, language: "ko-KR" },
  "a phone in the dark, in English": { width: 360, height: 740, language: "en-GB", dark: true },
  "a desk, in Korean, in the dark": { width: 1280, height: 900, language: "ko-KR", dark: true },
  "a desk, in English": { width: 1280, height: 900, language: "en-GB" },
})) {
  test(`every page on ${name}: nothing sticks out, nothing is out of reach`, async () => {
    const user = `look-${options.width}-${options.language}-${options.dark ?? false}`;
    await takePart(user);
    const one = await visit(browser, server, user, "/", options);
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

test("a name is text, whatever is in it", async () => {
  const user = "xss";
  await takePart(user);
  const one = await visit(browser, server, user, `/events/${events.nasty.eventId}`);
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
  const event = await openEvent(server, "FIRST_COME", { name: "By keyboard", capacityTotal: 5 });
  const one = await visit(browser, server, "keys");
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
  const one = await visit(browser, server, "words", "/", { language: "ko-KR" });
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
  const one = await visit(browser, server, "stranger");
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
  const { page } = await openPage(browser, server);
  await page.goto("/play");
  await page.getByText("Good to see you").waitFor();
  const one = await visit(browser, server, "gone");
  await one.context.clearCookies();
  await one.page.evaluate(() => { location.hash = "/history"; });
  await one.seen("Your session has ended");
});
