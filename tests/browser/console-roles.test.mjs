// Who may see and do what in the console, and what nobody can make it do.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { MARKUP, go, pages, setStage } from "./console-stage.mjs";
import { axe, openPage, overflow, signIn } from "./start.mjs";

let server;
let browser;
let operator;
let ids;
let strike;

before(async () => {
  ({ server, browser, operator, ids, strike } = await setStage());
});

after(() => strike?.());

test("markup in names and ids stays text", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR", { name: MARKUP });
  await page.waitForSelector("h1");
  await go(page, "/events/markup");
  await page.waitForSelector("h1:has-text('onerror')");
  assert.equal(await page.textContent("h1"), MARKUP);
  await go(page, `/search?q=${encodeURIComponent(MARKUP)}`);
  await page.waitForSelector("h1:has-text('Search')");
  await go(page, `/users/${encodeURIComponent("\"><svg,onload=1>")}`);
  await page.waitForSelector("#content h1, #content .problem");
  assert.equal(await page.locator("#content img, #content script, #content svg[onload]").count(), 0);
  assert.notEqual(await page.title(), "broken");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("an auditor sees everything and can change nothing", { timeout: 180_000 }, async () => {
  const { page, context } = await openPage(browser, server);
  await signIn(page, "/console", "watcher", "AUDITOR");
  await page.waitForSelector("#content h1");
  for (const [hash] of pages(ids)) {
    await go(page, hash);
    await page.waitForFunction((path) => location.hash === `#${path}` && document.querySelector("#content h1, #content .problem") && !document.querySelector("#content .loading"), hash);
    const actions = await page.$$eval("#content [data-action]", (found) => found.map((one) => one.dataset.action).filter((name) => name !== "audit"));
    assert.deepEqual(actions, [], hash);
    assert.equal(await page.locator("a:has-text('New event')").count(), 0, hash);
  }
  // And the server would not have it either.
  const refused = await page.evaluate(async () => {
    const { csrfToken } = await (await fetch("/v1/session")).json();
    const answer = await fetch("/v1/admin/events/drop/close", { method: "POST", headers: { "x-csrf-token": csrfToken } });
    return [answer.status, (await answer.json()).code];
  });
  assert.deepEqual(refused, [403, "FORBIDDEN"]);
  await context.close();
});

test("whoever is not signed in is asked to, and nothing complains", { timeout: 60_000 }, async () => {
  for (const width of [1280, 360]) {
    const { page, context, complaints } = await openPage(browser, server, { width });
    await page.goto("/console#/events/drop");
    await page.waitForSelector("h1:has-text('Sign in')");
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(await overflow(page), []);
    assert.deepEqual(complaints, []);
    await context.close();
  }
});

test("a user is refused, and signs out", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server);
  await signIn(page, "/console", "ann", "USER");
  await page.waitForSelector("h1:has-text('This page is not for you')");
  assert.equal(await page.locator("nav").count(), 0);
  assert.ok(!page.url().includes("token="), "the token has left the address bar");
  assert.deepEqual(await axe(page), []);
  assert.deepEqual(complaints, []);
  await page.click("button:has-text('Sign out')");
  await page.waitForSelector("h1:has-text('Sign in')");
  assert.deepEqual(await context.cookies(), []);
  await page.fill("[name=token]", "not.a.token");
  await page.click("button:has-text('Sign in')");
  await page.waitForSelector(".problem >> text=TOKEN_INVALID");
  await context.close();
});

test("what a page of another origin can send is refused", { timeout: 60_000 }, async () => {
  const { page, context } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  const [cookie] = await context.cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["guerdon_session", true, "Strict"]);
  assert.equal(await page.evaluate(() => document.cookie), "", "no script can read it");
  const codes = await page.evaluate(async () => {
    const send = async (headers) => (await (await fetch("/v1/admin/events/drop/close", { method: "POST", headers })).json()).code;
    return [await send({}), await send({ "x-csrf-token": "guessed" })];
  });
  assert.deepEqual(codes, ["CSRF_REFUSED", "CSRF_REFUSED"]);
  // The same server by another name is another site: its pages have no session, and their calls none either.
  const other = await context.newPage();
  await other.goto(server.address.replace("127.0.0.1", "localhost") + "/docs");
  const answered = await other.evaluate(async (address) => {
    try {
      const answer = await fetch(`${address}/v1/admin/events/drop/close`, { method: "POST", credentials: "include", mode: "no-cors" });
      return answer.type;
    } catch (error) {
      return error.name;
    }
  }, server.address);
  assert.ok(["opaque", "TypeError"].includes(answered), answered);
  assert.equal((await operator.get("/v1/admin/events/drop")).status, "OPEN");
  await context.close();
});

test("language and appearance are switched and remembered", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(browser, server, { language: "ko-KR" });
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("h1:has-text('이벤트')");
  await page.selectOption("select[aria-label='언어']", "en");
  await page.waitForSelector("h1:has-text('Events')");
  await page.selectOption("select[aria-label=Appearance]", "dark");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await ground();
  await page.reload();
  await page.waitForSelector("h1:has-text('Events')");
  assert.equal(await ground(), dark);
  assert.equal(await page.getAttribute("html", "lang"), "en");
  await page.selectOption("select[aria-label=Appearance]", "light");
  assert.notEqual(await ground(), dark);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("a stream that breaks comes back by itself, and an ended session asks for a new one", { timeout: 60_000 }, async () => {
  const { page, context } = await openPage(browser, server);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  // The first is cut after a frame, the second never comes about, the third is the server's own.
  let tries = 0;
  const figures = { byStatus: {}, byResultCode: {}, queueDepth: 0, capacityTotal: 77, capacityRemaining: 77, latencyMs: { p50: null, p99: null }, deadLetterCandidates: 0 };
  await page.route("**/v1/admin/events/drop/stream", (route) => {
    tries += 1;
    if (tries === 1) return route.fulfill({ contentType: "text/event-stream", body: `event: summary\ndata: ${JSON.stringify(figures)}\n\n` });
    return tries === 2 ? route.abort() : route.continue();
  });
  await go(page, "/events/drop");
  await page.waitForSelector("[data-figure=remaining]:has-text('77')");
  await page.waitForSelector("[data-figure=remaining]:text-is('0')");
  await page.waitForSelector("[data-stream=live]");
  assert.equal(tries, 3);
  await context.clearCookies();
  await go(page, "/users");
  await page.waitForSelector("h1:has-text('Sign in')");
  await context.close();
});
