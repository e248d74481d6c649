// The outbox against a web server that is away, refuses or is gone for good: what the console shows, and what it mends.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { axe, openPage, signIn, stage, until } from "./start.mjs";

/** Somebody's web server that is told of events. */
class Receiver {
  status = 204;
  calls = [];
  #server = createServer((request, response) => {
    let body = "";
    request.on("data", (text) => { body += text; });
    request.on("end", () => {
      this.calls.push({ id: request.headers["webhook-id"], status: this.status, type: JSON.parse(body).type });
      response.writeHead(this.status).end();
    });
  });

  listen(port = 0) {
    return new Promise((done) => { this.#server.listen(port, "127.0.0.1", () => done(this.#server.address().port)); });
  }

  leave() {
    return new Promise((done) => {
      this.#server.close(done);
      this.#server.closeAllConnections();
    });
  }

  taken = () => this.calls.filter((call) => call.status < 300).map((call) => call.id);
}

const receiver = new Receiver();
let port;
const here = stage({
  async settings({ ending }) {
    port = await receiver.listen();
    ending.push(() => receiver.leave());
    return { GUERDON_OUTBOX__SINK: "webhook", GUERDON_OUTBOX__URL: `http://127.0.0.1:${port}/hook`, GUERDON_OUTBOX__MAX_ATTEMPTS: "1" };
  },
});

/** Something that others are told of: an event that opens. */
async function openEvent(eventId) {
  await here.operator.post("/v1/admin/events", { eventId, name: eventId, type: "FIRST_COME", capacityTotal: 1, startsAt: 0, endsAt: 4_000_000_000_000 });
  await here.operator.post(`/v1/admin/events/${eventId}/open`);
}

const messages = async (status) => (await here.operator.get(`/v1/admin/outbox?status=${status}`)).items;

/** The console's outbox, as an operator who has just come sees it. */
async function outbox(user = "ops", role = "OPERATOR") {
  const opened = await openPage(here);
  await signIn(opened.page, "/console", user, role);
  await opened.page.waitForSelector("#content h1");
  await opened.page.click("nav >> text=Outbox");
  await opened.page.waitForSelector(".list-count, .empty");
  return opened;
}

/** Looks again until something is there: the list is as it was when it was read. */
async function seen(page, selector) {
  await until(async () => {
    await page.click("button:has-text('Refresh')");
    await page.waitForSelector("#content .list .table, #content .list .empty");
    return page.locator(selector).count();
  });
}

test("a refused message is dead, is sent again, and arrives", { timeout: 60_000 }, async () => {
  receiver.status = 500;
  await openEvent("refused_one");
  await openEvent("refused_two");
  await until(async () => (await messages("DEAD")).length === 2);
  const { page, context, complaints } = await outbox();
  await page.selectOption("select[name=status]", "DEAD");
  await page.waitForSelector(".list-count:has-text('2 in all')");
  assert.match(await page.textContent("#content .table"), /500/, "with what the receiver said");
  assert.deepEqual(await axe(page), []);
  // One by itself, from its own page.
  receiver.status = 204;
  const [second, first] = await messages("DEAD");
  await page.click(`.table a[href$='${first.eventId}']`);
  await page.click("[data-action=replay]");
  await page.click("dialog button:has-text('Send again')");
  await until(() => receiver.taken().includes(first.eventId));
  assert.ok(!receiver.taken().includes(second.eventId), "the other is left as it is");
  // And all that are left, from the list.
  await page.click("nav >> text=Outbox");
  await page.click("[data-action=replay-dead]");
  await page.click("dialog .button.primary");
  await page.waitForSelector(".notice:has-text('1')");
  await until(() => receiver.taken().includes(second.eventId));
  await seen(page, ".table tbody tr:has-text('Sent') >> nth=1");
  assert.deepEqual(await messages("DEAD"), []);
  assert.deepEqual(complaints, []);
  await context.close();
});

test("what a receiver that is away has missed waits, and arrives when it is back", { timeout: 60_000 }, async () => {
  await receiver.leave();
  await openEvent("missed");
  const { page, context, complaints } = await outbox("watcher", "AUDITOR");
  await page.selectOption("select[name=status]", "NEW");
  await page.waitForSelector(".table >> text=missed");
  assert.equal(await page.locator("#content [data-action]").count(), 0, "an auditor only looks");
  const [waiting] = await messages("NEW");
  assert.equal(waiting.attempts, 0, "an outage uses up no attempt");
  receiver.status = 204;
  await receiver.listen(port);
  await until(() => receiver.taken().includes(waiting.eventId));
  await seen(page, "#content .list .empty");
  assert.deepEqual(complaints, []);
  await context.close();
});

test("an address that is gone is left alone until an operator enables it", { timeout: 60_000 }, async () => {
  receiver.status = 410;
  await openEvent("gone");
  await until(async () => (await here.operator.get("/v1/admin/outbox/sink")).enabled === false);
  const { page, context, complaints } = await outbox();
  await page.waitForSelector("[data-action=enable]");
  assert.match(await page.textContent("#content"), /410/, "why it was stopped");
  assert.deepEqual(await axe(page), []);
  const [waiting] = await messages("NEW");
  receiver.status = 204;
  await page.click("[data-action=enable]");
  await page.click("dialog .button.primary");
  await until(() => receiver.taken().includes(waiting.eventId));
  await page.waitForSelector("[data-action=enable]", { state: "detached" });
  assert.deepEqual(complaints, []);
  await context.close();
});
