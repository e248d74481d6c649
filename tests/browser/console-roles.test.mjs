// Who may see and do what in the console, and what nobody can make it do.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MARKUP, go, pages, setStage } from "./console-stage.mjs";
import { axe, openPage, overflow, signIn } from "./start.mjs";

const here = setStage();

/** Calls that change something, as the API describes them, each with something in the place of its names. */
async function changes() {
  const { paths } = await here.operator.get("/openapi.json");
  const all = Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => [method.toUpperCase(), path]));
  const changing = all.filter(([method, path]) => method !== "GET" && path !== "/v1/session");
  const names = { eventId: "drop", userId: "ann", allocationId: here.ids.allocation, requestId: here.ids.claim, couponId: "ten_off", userCouponId: here.ids.coupon, accountId: here.ids.account, messageId: here.ids.message, transferId: here.ids.transfer };
  return changing.map(([method, path]) => [method, path.replace(/\{(\w+)\}/g, (_, name) => names[name] ?? "1")]);
}

/** What is stored of all that somebody could have changed. */
async function everything() {
  const lists = ["events", "users", "coupons", "accounts", "allocations", "claims", "audit-log"];
  return Promise.all(lists.map((name) => here.operator.get(`/v1/admin/${name}?limit=100`)));
}

/** Makes calls as a script of the page would, and says how each was answered. */
function tryAll(page, calls, headers) {
  return page.evaluate(async ({ calls, headers }) => {
    const answers = [];
    for (const [method, path] of calls) {
      const answer = await fetch(path, { method, headers: { "content-type": "application/json", "idempotency-key": "tried-by-a-script", ...headers }, body: "{}" });
      answers.push(`${method} ${path}: ${answer.status} ${(await answer.json()).code}`);
    }
    return answers;
  }, { calls, headers });
}

test("markup in names and ids stays text", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(here);
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
  // What operators write, and where others read it.
  await here.operator.post("/v1/admin/coupons", { couponId: "nasty", name: MARKUP, totalQuantity: 1, validFrom: 0, validUntil: 4_000_000_000_000, benefit: { note: MARKUP } });
  const held = await here.server.api("bob", "USER").post("/v1/coupons/nasty/issue", {}, { "idempotency-key": "bob-s-coupon-1" });
  await here.operator.post(`/v1/admin/user-coupons/${held.userCouponId}/revoke`, { note: MARKUP });
  for (const hash of ["/coupons", "/coupons/nasty", `/user-coupons/${held.userCouponId}`, "/events", "/events?status=DRAFT", "/events/markup/users/ann", "/audit-log", "/search?q=nasty"]) {
    await go(page, hash);
    await page.waitForFunction((text) => document.querySelector("#content h1") && !document.querySelector("#content .loading") && document.getElementById("content").textContent.includes(text), MARKUP.slice(0, 20));
    assert.equal(await page.locator("#content img, #content script").count(), 0, hash);
  }
  assert.notEqual(await page.title(), "broken");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("an auditor sees everything and can change nothing", { timeout: 180_000 }, async () => {
  const { page, context } = await openPage(here);
  await signIn(page, "/console", "watcher", "AUDITOR");
  await page.waitForSelector("#content h1");
  for (const [hash] of pages(here.ids)) {
    await go(page, hash);
    await page.waitForFunction((path) => location.hash === `#${path}` && document.querySelector("#content h1, #content .problem") && !document.querySelector("#content .loading"), hash);
    const harmless = ["Refresh", "Show more", "Explain", "Show user", "Run the audit"];
    const buttons = await page.$$eval("#content button, #content a.button", (found) => found.map((one) => one.textContent));
    assert.deepEqual(buttons.filter((name) => !harmless.includes(name)), [], hash);
  }
  // And the server would not have any of it either, with the session's own proof.
  const before = await everything();
  const calls = (await changes()).filter(([, path]) => path.startsWith("/v1/admin/"));
  assert.ok(calls.length > 20, `${calls.length}`);
  const { csrfToken } = await page.evaluate(async () => (await fetch("/v1/session")).json());
  const answers = await tryAll(page, calls, { "x-csrf-token": csrfToken });
  assert.deepEqual(answers, calls.map(([method, path]) => `${method} ${path}: 403 FORBIDDEN`));
  assert.deepEqual(await everything(), before);
  await context.close();
});

test("whoever is not signed in is asked to, and nothing complains", { timeout: 60_000 }, async () => {
  for (const width of [1280, 360]) {
    const { page, context, complaints } = await openPage(here, { width });
    await page.goto("/console#/events/drop");
    await page.waitForSelector("h1:has-text('Sign in')");
    assert.deepEqual(await axe(page), []);
    assert.deepEqual(await overflow(page), []);
    assert.deepEqual(complaints, []);
    await context.close();
  }
});

test("a user is refused, and signs out", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(here);
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await signIn(page, "/console", "ann", "USER");
  await page.waitForSelector("h1:has-text('This page is not for you')");
  // Wherever a link leads, nothing of it is shown, or even asked for.
  for (const [hash] of pages(here.ids)) {
    await go(page, hash);
    await page.waitForFunction((path) => location.hash === `#${path}`, hash);
    assert.equal(await page.textContent("h1"), "This page is not for you", hash);
  }
  assert.deepEqual(asked.filter((path) => path.startsWith("/v1/admin")), []);
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
  const { page, context } = await openPage(here);
  await signIn(page, "/console", "ops", "OPERATOR");
  await page.waitForSelector("#content h1");
  const [cookie] = await context.cookies();
  assert.deepEqual([cookie.name, cookie.httpOnly, cookie.sameSite], ["guerdon_session", true, "Strict"]);
  assert.equal(await page.evaluate(() => document.cookie), "", "no script can read it");
  // Every call that changes something needs the proof, which no other page can read.
  const stored = await everything();
  const calls = await changes();
  const refused = calls.map(([method, path]) => `${method} ${path}: 403 CSRF_REFUSED`);
  assert.deepEqual(await tryAll(page, calls, {}), refused);
  assert.deepEqual(await tryAll(page, calls, { "x-csrf-token": "guessed" }), refused);
  assert.deepEqual(await everything(), stored);
  // The same server by another name is another site: its pages have no session, and their calls none either.
  const other = await context.newPage();
  await other.goto(here.server.address.replace("127.0.0.1", "localhost") + "/docs");
  const answered = await other.evaluate(async (address) => {
    try {
      const answer = await fetch(`${address}/v1/admin/events/drop/close`, { method: "POST", credentials: "include", mode: "no-cors" });
      return answer.type;
    } catch (error) {
      return error.name;
    }
  }, here.server.address);
  assert.ok(["opaque", "TypeError"].includes(answered), answered);
  assert.equal((await here.operator.get("/v1/admin/events/drop")).status, "OPEN");
  await context.close();
});

test("language and appearance are switched and remembered", { timeout: 60_000 }, async () => {
  const { page, context, complaints } = await openPage(here, { language: "ko-KR" });
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
  const { page, context } = await openPage(here);
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
