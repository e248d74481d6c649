// What every test of a page stands on: the built binary on a store of its own, and a real browser.

import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { isCall, readDescription } from "./described.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const BINARY = resolve(process.env.GUERDON_BINARY ?? join(HERE, "../../target/debug/guerdon"));
const SECRET = "a-secret-of-the-browser-tests-that-is-long-enough";
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

const base64url = (value) => Buffer.from(value).toString("base64url");

/** A token with exactly these claims; an hour long unless they say otherwise. */
export function token(user, roles, more = {}) {
  const claims = { sub: user, roles: [roles].flat(), exp: Math.floor(Date.now() / 1_000) + 3_600, ...more };
  const signed = `${base64url(JSON.stringify({ alg: "HS256", typ: "JWT" }))}.${base64url(JSON.stringify(claims))}`;
  return `${signed}.${createHmac("sha256", SECRET).update(signed).digest("base64url")}`;
}

/** Starts the binary and waits for the line that says where it listens. */
async function start(command, options) {
  const child = spawn(BINARY, command, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  child.stderr.on("data", (text) => { log = (log + text).slice(-20_000); });
  const ended = new Promise((done) => { child.on("exit", done); });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => (await Promise.race([lines.next(), ended.then(() => ({}))])).value;
  const address = /^listening on (\S+)$/.exec((await next()) ?? "")?.[1];
  if (!address) throw new Error(`${command[0]} did not start: ${log}`);
  return {
    address,
    /** The next line that it says; none once it has ended. */
    next,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}

/** Starts the server; `settings` are environment variables. */
export async function startServer(settings = {}) {
  const folder = await mkdtemp(join(tmpdir(), "guerdon-browser-"));
  const env = { PATH: process.env.PATH, GUERDON_LISTEN: "127.0.0.1:0", GUERDON_DATABASE: `sqlite:${join(folder, "test.db")}`, GUERDON_AUTH__SECRET: SECRET, ...settings };
  const server = await start(["serve"], { cwd: folder, env });
  return {
    ...server,
    undescribed: await readDescription(server.address),
    api: (user, roles) => api(server.address, token(user, roles)),
    async stop() {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The demonstration, and the links that it prints. */
export async function startDemo(more = []) {
  const folder = await mkdtemp(join(tmpdir(), "guerdon-browser-"));
  const demo = await start(["demo", "--listen", "127.0.0.1:0", ...more], { cwd: folder });
  const links = {};
  let visitor = null;
  for (let line = await demo.next(); line !== undefined && !line.includes("Ctrl-C"); line = await demo.next()) {
    const [, page, link] = /^ +(play|console) +(\S+)$/.exec(line) ?? [];
    if (page) links[page] = link;
    visitor ??= /as the participant (\w+)/.exec(line)?.[1] ?? null;
  }
  return {
    ...demo,
    undescribed: await readDescription(demo.address),
    links,
    visitor,
    async stop() {
      await demo.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** The product's own simulator of a provider; `faults` tells it how to fail from now on. */
export async function startPartners() {
  const partners = await start(["dev", "partners", "--listen", "127.0.0.1:0"], {});
  return {
    ...partners,
    async faults(faults) {
      const answer = await fetch(`${partners.address}/faults`, { method: "PUT", headers: { "content-type": "application/json" }, body: JSON.stringify(faults) });
      if (!answer.ok) throw new Error(await answer.text());
    },
  };
}

/** Calls of the API as a program makes them. */
function api(address, bearer) {
  async function call(method, path, body, headers = {}) {
    const response = await fetch(address + path, {
      method,
      headers: { authorization: `Bearer ${bearer}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    let json = null;
    try { json = JSON.parse(text); } catch { /* not everything is JSON */ }
    return { status: response.status, json, text };
  }
  async function good(method, path, body, headers) {
    const answer = await call(method, path, body, headers);
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    return answer.json;
  }
  return {
    call,
    get: (path) => good("GET", path),
    post: (path, body = {}, headers = {}) => good("POST", path, body, headers),
    put: (path, body) => good("PUT", path, body),
  };
}

/** As root it has no sandbox of its own. */
export function startBrowser() {
  return chromium.launch({
    executablePath: CHROMIUM,
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/**
 * What the tests of a file stand on: a server and a browser, there before the first of them and gone after the last.
 *   settings(here): the server's, once what it needs is there; fill(here): what the tests find; whatever they return is kept
 *   `here.ending` takes what else has to be stopped
 */
export function stage({ settings = () => ({}), fill = () => ({}) } = {}) {
  const here = { ending: [] };
  before(async () => {
    here.server = await startServer(await settings(here));
    here.browser = await startBrowser();
    here.operator = here.server.api("ops", "OPERATOR");
    Object.assign(here, await fill(here));
  });
  after(async () => {
    await here.browser?.close();
    await here.server?.stop();
    for (const end of here.ending) await end();
  });
  return here;
}

/**
 * A page in a browser of its own kind (language, width, colours). Whatever it complains about is kept in `complaints`:
 * errors on the console, exceptions, violations of the content security policy, calls of other servers, and calls that
 * /openapi.json does not describe.
 */
export async function openPage({ browser, server }, { language = "en-GB", width = 1280, height = 900, dark = false } = {}) {
  const context = await browser.newContext({
    baseURL: server.address, locale: language, timezoneId: "Asia/Seoul", viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const complaints = [];
  const byOtherName = server.address.replace("127.0.0.1", "localhost");
  page.on("pageerror", (error) => complaints.push(`exception: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(`console: ${message.text()} ${message.location().url ?? ""}`);
  });
  page.on("request", (request) => {
    if (![server.address, byOtherName].some((ours) => request.url().startsWith(ours)) && !request.url().startsWith("data:")) complaints.push(`outside: ${request.url()}`);
    else if (isCall(request)) {
      const missing = server.undescribed(request.method(), request.url());
      if (missing) complaints.push(`not in /openapi.json: ${missing}`);
    }
  });
  return { page, context, complaints };
}

/** Signs in as a person does who clicks on a link. */
export async function signIn(page, path, user, roles, more) {
  await page.goto(`${path}#token=${token(user, roles, more)}`);
}

/** Nothing on the page is wider than the screen. */
export async function overflow(page) {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const wide = [...document.body.querySelectorAll("*")].filter((element) => element.getBoundingClientRect().right > width + 1);
    return wide.slice(0, 5).map((element) => `${element.tagName.toLowerCase()}.${element.className}`);
  });
}

const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** What axe-core finds that is serious or critical. */
export async function axe(page) {
  // By the debugger's way, which the page's policy does not concern.
  await page.evaluate(`${AXE}; undefined`);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  return found.violations
    .filter((violation) => violation.impact === "serious" || violation.impact === "critical")
    .map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.target.join(" ")).slice(0, 4).join(" | ")}`);
}

/** The ways in which every page is looked at. */
export const VARIANTS = {
  "a desk, in English": { width: 1280, height: 900, language: "en-GB" },
  "a desk, in Korean, in the dark": { width: 1280, height: 900, language: "ko-KR", dark: true },
  "a phone, in English": { width: 360, height: 740, language: "en-GB" },
  "a phone, in Korean, in the dark": { width: 360, height: 740, language: "ko-KR", dark: true },
};

/** What can be pressed or written to, and what the Tab key does not lead to, or leads to without a mark of the focus. */
export async function outOfReach(page) {
  const count = await page.evaluate(() => {
    const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
    const wanted = all.filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.disabled && one.tabIndex >= 0);
    window.reach = { wanted, reached: new Set(), unmarked: new Set() };
    document.addEventListener("focusin", window.reach.seen = ({ target }) => {
      const { outlineStyle, boxShadow } = getComputedStyle(target);
      window.reach.reached.add(target);
      if (outlineStyle === "none" && boxShadow === "none") window.reach.unmarked.add(target);
    });
    return wanted.length;
  });
  for (let presses = 0; presses < 2 * count + 10; presses += 10) {
    for (let some = 0; some < 10; some += 1) await page.keyboard.press("Tab");
    if (await page.evaluate(() => window.reach.wanted.every((one) => !one.isConnected || window.reach.reached.has(one)))) break;
  }
  return page.evaluate(() => {
    const { wanted, reached, unmarked, seen } = window.reach;
    document.removeEventListener("focusin", seen);
    const name = (one) => `${one.tagName.toLowerCase()} ${one.textContent.slice(0, 30) || one.getAttribute("aria-label") || one.name || ""}`;
    const missed = wanted.filter((one) => one.isConnected && !reached.has(one)).map((one) => `not reached: ${name(one)}`);
    return [...missed, ...[...unmarked].map((one) => `without a mark: ${name(one)}`)].slice(0, 8);
  });
}

/** Waits for a look to find something, with a deadline. */
export async function until(look, limit = 20_000) {
  const deadline = Date.now() + limit;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`it did not come about: ${look}`);
    await new Promise((next) => { setImmediate(next); });
  }
}
