// What the bench measures with a browser: `node scale.mjs pages|watch|demo {…}` says what it saw as JSON, in its last line.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { isCall, readDescription } from "./described.mjs";
import { openPage, startBrowser } from "./start.mjs";

const [what, text] = process.argv.slice(2);
const told = JSON.parse(text);
/** How often a page is opened after the first time. */
const AGAIN = 3;
const SLOW_MAX = 60_000;

const median = (values) => [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
const rounded = (value) => Math.round(value * 10) / 10;
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function get(address, token, path) {
  const answer = await fetch(address + path, { headers: { authorization: `Bearer ${token}` } });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

/** A browser's page that keeps account of its calls. */
async function visit(browser, address, start, token) {
  const opened = await openPage({ browser, server: { address, undescribed: await readDescription(address) } });
  const { page } = opened;
  page.setDefaultTimeout(SLOW_MAX);
  const pending = new Set();
  const calls = [];
  const shown = (request) => `${request.method()} ${request.url().slice(address.length).replace(/cursor=[^&]+/, "cursor=…")}`;
  page.on("request", (request) => { if (isCall(request) && request.resourceType() !== "eventsource") pending.add(request); });
  page.on("requestfailed", (request) => pending.delete(request));
  page.on("requestfinished", (request) => {
    pending.delete(request);
    const { requestStart, responseEnd } = request.timing();
    if (isCall(request)) calls.push({ ms: responseEnd - requestStart, call: shown(request) });
  });
  await page.goto(`${address}${start}#token=${token}`);
  await page.waitForSelector("main h1");
  return { ...opened, pending, calls };
}

/** Waits until nothing is being read any more. */
async function settled({ page, pending }) {
  await page.waitForFunction(() => document.querySelector("main h1") && !document.querySelector("main .loading"));
  const deadline = Date.now() + SLOW_MAX;
  while (pending.size > 0) {
    if (Date.now() > deadline) throw new Error(`still pending: ${[...pending].map((one) => one.url())}`);
    await new Promise((next) => { setTimeout(next, 1); });
  }
  await page.waitForFunction(() => !document.querySelector("main .loading"));
}

async function go(visitor, hash) {
  const before = await visitor.page.locator("main h1").elementHandle();
  const began = performance.now();
  await visitor.page.evaluate((next) => { location.hash = next; }, hash);
  await visitor.page.waitForFunction((old) => !old.isConnected && document.querySelector("main h1"), before);
  await settled(visitor);
  return performance.now() - began;
}

/** Tells whoever waits what is done. */
function noted(figure) {
  console.error(`  ${figure.page}: ${figure.first_ms} ms, then ${figure.again_ms} ms; ${figure.calls} calls, the slowest ${figure.slowest_ms} ms`);
  return figure;
}

async function measure(visitor, part, hash) {
  const { page, calls } = visitor;
  const times = [];
  const before = calls.length;
  let most = 0;
  for (let turn = 0; turn <= AGAIN; turn += 1) {
    await go(visitor, "/nowhere");
    const first = calls.length;
    times.push(await go(visitor, hash));
    most = Math.max(most, calls.length - first);
  }
  const trouble = await page.$$eval("main .problem, main .trouble", (panels) => panels.map((panel) => panel.textContent));
  if (trouble.length > 0) throw new Error(`${part}${hash}: ${trouble}`);
  const slowest = calls.slice(before).reduce((one, other) => (other.ms > one.ms ? other : one), { ms: 0, call: "–" });
  const rows = await page.locator("main tbody tr").count();
  const [first, ...again] = times;
  return noted({ page: `${part} ${hash}`, first_ms: rounded(first), again_ms: rounded(median(again)), calls: most, slowest_ms: rounded(slowest.ms), slowest: slowest.call, rows });
}

/** Pages on, as somebody does who looks for something. */
async function measureMore(visitor, hash, times) {
  const { page, calls } = visitor;
  await go(visitor, hash);
  const before = calls.length;
  const clicks = [];
  for (let turn = 0; turn < times; turn += 1) {
    const began = performance.now();
    const rows = await page.locator("main tbody tr").count();
    await page.locator("main .more button").first().click();
    await page.waitForFunction((old) => document.querySelectorAll("main tbody tr").length > old, rows);
    await settled(visitor);
    clicks.push(performance.now() - began);
  }
  const slowest = calls.slice(before).reduce((one, other) => (other.ms > one.ms ? other : one), { ms: 0, call: "–" });
  return noted({ page: `console ${hash}, ${times} times more`, first_ms: rounded(clicks[0]), again_ms: rounded(median(clicks)), calls: times, slowest_ms: rounded(slowest.ms), slowest: slowest.call, rows: await page.locator("main tbody tr").count() });
}

async function consolePages(address, operator, userId) {
  const list = async (path) => (await get(address, operator, path)).items;
  const [request] = await list(`/v1/admin/users/${userId}/requests?limit=1`);
  const [claim] = await list(`/v1/admin/claims?userId=${userId}&limit=1`);
  const [allocation] = await list(`/v1/admin/allocations?memberId=${userId}&eventId=drop&limit=1`);
  const [message] = await list("/v1/admin/outbox?limit=1");
  const [account] = await list(`/v1/admin/accounts?ownerId=${userId}`);
  // The house opens its own with the first group of those that it pays into.
  const [issue] = (await list("/v1/admin/accounts?limit=200")).filter((one) => one.ownerId.includes("#"));
  const [entry] = await list(`/v1/accounts/${account.accountId}/entries?limit=1`);
  const [coupon] = await list(`/v1/admin/users/${userId}/coupons?limit=1`);
  const of = (path, names) => names.map((name) => `${path}${path.includes("?") ? "&" : "?"}status=${name}`);
  return [
    "/events", ...of("/events", ["DRAFT", "OPEN", "CANCELLED"]), "/events?type=LOTTERY", "/events?status=DRAFT&type=CLAIM", "/events/new",
    ...["drop", "parcels", "raffle", "gift", "hard", "daily", "wheel", "draft_1"].map((id) => `/events/${id}`),
    ...["drop", "raffle", "gift", "daily", "wheel"].map((id) => `/events/${id}/users/${userId}`), "/events/hard/users/rare-0", "/events/drop/users/nobody",
    `/requests/${request.requestId}`,
    "/claims", ...of("/claims", ["ALL", "SUCCESS_ALL_GRANTED", "CONDITION_NOT_MET", "INVENTORY_ALLOCATION_FAILED_OUT_OF_STOCK", "PENDING_CONDITION_CHECK"]),
    "/claims?status=ALL&eventId=gift", "/claims?status=CONDITION_NOT_MET&eventId=gift", `/claims?status=ALL&userId=${userId}`, `/claims/${claim.requestId}`,
    "/allocations", ...of("/allocations", ["PENDING", "PROCESSING", "SUCCESS", "FAILED", "CANCELLED"]),
    "/allocations?eventId=drop", ...of("/allocations?eventId=drop", ["PENDING", "CANCELLED"]), ...of("/allocations?eventId=parcels", ["FAILED", "CANCELLED"]),
    `/allocations?memberId=${userId}`, `/allocations/${allocation.allocationId}`,
    "/outbox", ...of("/outbox", ["NEW", "SENDING", "SENT", "DEAD"]), `/outbox/${message.eventId}`,
    "/accounts", `/accounts?ownerId=${userId}`, `/accounts/${account.accountId}`, `/accounts/${issue.accountId}`, `/transfers/${entry.transferId}`,
    "/coupons", "/coupons/ten", ...of("/coupons/ten", ["CONFIRMED", "REVOKED", "REJECTED"]), `/user-coupons/${coupon.userCouponId}`,
    "/users", ...of("/users", ["ACTIVE", "INACTIVE", "BANNED", "WITHDRAWN"]), `/users/${userId}`, "/users/known-0000001",
    "/audit-log", "/audit-log?eventId=drop", "/audit-log?userId=known-0000001", "/audit",
    ...[userId, "drop", request.requestId, allocation.allocationId, entry.transferId, "coupons-00000007", "no-such-id"].map((id) => `/search?q=${id}`),
  ];
}

const PLAY = ["/", ...["drop", "parcels", "raffle", "gift", "hard", "daily", "wheel"].map((id) => `/events/${id}`), "/history", "/coupons", "/coupons/ten", "/points"];

async function pages(browser) {
  const { address, operator, user, userId } = told;
  const figures = [];
  const complaints = [];
  const operators = await visit(browser, address, "/console", operator);
  for (const hash of await consolePages(address, operator, userId)) figures.push(await measure(operators, "console", hash));
  for (const hash of ["/events/drop", "/allocations", "/audit-log"]) figures.push(await measureMore(operators, hash, 20));
  complaints.push(...operators.complaints);
  await operators.context.close();
  const player = await visit(browser, address, "/play", user);
  for (const hash of PLAY) figures.push(await measure(player, "play", hash));
  complaints.push(...player.complaints);
  if (complaints.length > 0) throw new Error(`the pages complain: ${complaints.slice(0, 5).join(" | ")}`);
  return figures;
}

/** Notes in the page when a figure changes, and how long nothing else could run. */
function observe(selector) {
  const seen = { began: performance.now(), changes: [], busy: 0, last: performance.now() };
  new MutationObserver(() => seen.changes.push(performance.now())).observe(document.querySelector(selector), { childList: true, characterData: true, subtree: true });
  setInterval(() => {
    const now = performance.now();
    seen.busy = Math.max(seen.busy, now - seen.last - 20);
    seen.last = now;
  }, 20);
  window.seen = seen;
}

async function seen(page) {
  const { began, ended, changes, busy } = await page.evaluate(() => ({ ...window.seen, ended: performance.now() }));
  const moments = [began, ...changes];
  const still = moments.slice(1).map((moment, index) => moment - moments[index]);
  return { seconds: rounded((ended - began) / 1_000), changes: changes.length, longest_still_ms: rounded(Math.max(0, ...still)), longest_busy_ms: rounded(busy) };
}

const pause = (ms) => new Promise((next) => { setTimeout(next, ms); });

async function watch(browser) {
  const { page, complaints, ...rest } = await visit(browser, told.address, "/console", told.operator);
  await go({ page, complaints, ...rest }, `/events/${told.event}`);
  await page.waitForSelector("[data-stream=live]");
  await page.evaluate(observe, "[data-figure=decided]");
  process.stdout.write("ready\n");
  await pause(told.ms);
  const figures = await seen(page);
  if (complaints.length > 0) throw new Error(`the page complains: ${complaints.slice(0, 5).join(" | ")}`);
  return figures;
}

/** The demonstration as a newcomer starts it; its links are what it prints. */
async function startDemo() {
  const child = spawn(told.guerdon, ["demo", "--crowd", String(told.crowd), "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  for await (const line of createInterface({ input: child.stdout })) {
    const [, address, token] = /^ +console +(http:[^/]*\/\/[^/]+)\/console#token=(\S+)$/.exec(line) ?? [];
    if (address) {
      child.stdout.resume();
      return { child, address, token };
    }
  }
  throw new Error("the demonstration printed no link");
}

/** How long the crowd has before it is looked at, how long a live page is, and how often every link is clicked. */
const WARM_UP = 10_000;
const LOOKED_AT = 30_000;
const TURNS = 5;

async function demo(browser) {
  const { child, address, token } = await startDemo();
  try {
    await pause(WARM_UP);
    const visitor = await visit(browser, address, "/console", token);
    const { page, complaints } = visitor;
    // What is not over soon, and moves all the time, is the drop that comes next.
    const { items } = await get(address, token, "/v1/admin/events?status=OPEN&limit=200");
    const drop = items.filter((event) => event.type === "FIRST_COME").sort((one, other) => other.startsAt - one.startsAt)[0];
    await pause(Math.max(0, drop.startsAt - Date.now() - 3_000));
    await go(visitor, `/events/${drop.eventId}`);
    await page.waitForSelector("[data-stream=live]");
    await page.evaluate(observe, "[data-figure=decided]");
    await pause(LOOKED_AT);
    const live = await seen(page);
    const clicks = [];
    for (let turn = 0; turn < TURNS; turn += 1) {
      for (const hash of ["/events", `/events/${drop.eventId}`, "/claims", "/allocations", "/outbox", "/users", "/coupons", "/accounts", "/audit-log"]) clicks.push({ hash, ms: await go(visitor, hash) });
    }
    if (complaints.length > 0) throw new Error(`the pages complain: ${complaints.slice(0, 5).join(" | ")}`);
    const slowest = clicks.reduce((one, other) => (other.ms > one.ms ? other : one));
    return { crowd: told.crowd, live, clicks: clicks.length, click_p50_ms: rounded(median(clicks.map((click) => click.ms))), slowest_click_ms: rounded(slowest.ms), slowest_click: slowest.hash };
  } finally {
    child.kill("SIGTERM");
  }
}

const browser = await startBrowser();
try {
  say(await { pages, watch, demo }[what](browser));
} finally {
  await browser.close();
}
