// Events without a line, live: how fast people check in, play or claim, and what comes of it.

import { api } from "/assets/base/api.js";
import { lineChart, shareBar } from "/assets/base/chart.js";
import { h } from "/assets/base/dom.js";
import { number } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { follow } from "/assets/base/stream.js";
import { badge, card, emptyState, toneOf } from "/assets/base/ui.js";
import { figure } from "/assets/console/marks.js";

const SECOND_MS = 1_000;
const TONES = { NOTHING: "quiet", FIRST_DAY: "accent", IN_A_ROW: "good" };
/** Prizes side by side are told apart. */
const PRIZE_TONES = ["good", "accent", "warn", "bad"];

/** What came of something, in words: a prize by its name, a claim by its status. */
function nameOf({ result, rewardId }, event) {
  if (rewardId) return rewardId;
  return event.type === "CLAIM" ? named("claimStatus", result) : t(`pace.${result}`);
}

/** The same prize has the same colour, however many of it are won. */
function toneOfResult({ result, rewardId }, event) {
  const prize = event.rewards.findIndex((reward) => reward.rewardId === rewardId);
  if (prize >= 0) return PRIZE_TONES[prize % PRIZE_TONES.length];
  return TONES[result] ?? toneOf(result);
}

export function livePace(event, path, signal) {
  const what = t(`pace.${event.type}`);
  const rate = figure(what, "rate");
  const minute = figure(t("pace.minute"), "minute");
  const peak = figure(t("pace.peak"), "peak");
  const state = badge(t("live.connecting"), "quiet");
  state.dataset.stream = "connecting";
  const chart = lineChart({ label: what, tone: "accent" });
  const results = shareBar({ label: t("live.results") });
  const none = emptyState(t("pace.none"), t("pace.none.text"));
  let drawnUpTo = null;

  function show(pace) {
    // Seconds that are on the chart already are left as they are drawn; those that a lost connection missed come now.
    const missing = drawnUpTo === null ? pace.perSecond.length : Math.min(pace.perSecond.length, (pace.at - drawnUpTo) / SECOND_MS);
    for (let back = missing; back > 0; back -= 1) chart.push(pace.perSecond.at(-back), pace.at - (back - 1) * SECOND_MS);
    drawnUpTo = pace.at;
    rate.set(number(pace.lastSecond), t("live.perSecond"));
    minute.set(number(pace.lastMinute));
    peak.set(number(Math.max(0, ...pace.perSecond)), t("live.perSecond"));
    const parts = [...pace.results].sort((one, other) => other.count - one.count);
    results.set(parts.map((one) => ({ name: nameOf(one, event), value: one.count, tone: toneOfResult(one, event) })));
    results.element.hidden = parts.length === 0;
    none.hidden = parts.length > 0;
  }

  results.element.hidden = true;
  follow(`${path}/pace/stream`, {
    signal, on: { pace: show }, whileHidden: false,
    // Perhaps the session has ended: a call tells, and leads to signing in.
    failed: (times) => times % 4 === 3 && api.get("/v1/session").catch(() => {}),
    state: (name) => {
      state.dataset.stream = name;
      state.textContent = t(`live.${name}`);
      state.className = `badge tone-${name === "live" ? "good" : "warn"}`;
    },
  });
  return h("section", { class: "stack", "aria-label": t("live.title") },
    h("div", { class: "row apart" }, h("h2", {}, t("live.title")), state),
    h("dl", { class: "figures" }, rate.element, minute.element, peak.element),
    h("div", { class: "columns" },
      card(t("pace.chart", { what }), chart.element),
      card(t("pace.results"), results.element, none)));
}
