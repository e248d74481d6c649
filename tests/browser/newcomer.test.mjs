// The path of somebody who has just come: one command, the participants' page, a win, and the operator sees it live. Timed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { openPage, startBrowser, startDemo } from "./start.mjs";

test("from the start of the demonstration to a win that the operator sees", { timeout: 90_000 }, async (context) => {
  const browser = await startBrowser();
  const began = performance.now();
  const since = () => `${((performance.now() - began) / 1_000).toFixed(1)} s`;
  const demo = await startDemo(["--crowd", "100"]);
  try {
    context.diagnostic(`${since()}: the links are there`);
    const { page: play, context: person, complaints } = await openPage({ browser, server: demo });
    await play.goto(demo.links.play);
    // The drop that is on: the other one counts down to its start.
    await play.waitForSelector("main h1");
    await play.goto(`${demo.links.play.split("#")[0]}#/events/drop_1`);
    await play.getByRole("button", { name: "Take a place", exact: true }).waitFor();
    // Both links in one browser, as anybody would: neither signs the other one out.
    const console = await person.newPage();
    await console.goto(demo.links.console);
    await console.click("#content a[href='#/events/drop_1']");
    await console.waitForSelector("[data-stream=live]");
    context.diagnostic(`${since()}: both pages are open`);
    await play.bringToFront();
    await play.getByRole("button", { name: "Take a place", exact: true }).click();
    await play.getByText("You made it!").waitFor();
    context.diagnostic(`${since()}: the place is won`);
    await console.bringToFront();
    await console.waitForFunction(() => Number(document.querySelector("[data-figure=decided]").textContent.replace(/\D/g, "")) > 0);
    await console.waitForFunction(() => Number(document.querySelector(".chart-box").dataset.points) >= 2);
    await console.fill("[name=userId]", demo.visitor);
    await console.click("button:has-text('Explain')");
    await console.waitForSelector("[data-reason=WON]");
    context.diagnostic(`${since()}: the operator has seen it`);
    await play.bringToFront();
    await play.goto(`${demo.links.play.split("#")[0]}#/history`);
    await play.getByText("You won").first().waitFor();
    assert.deepEqual(complaints, []);
  } finally {
    await browser.close();
    await demo.stop();
  }
});
