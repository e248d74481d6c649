// Pieces that several of these pages share.

import { h, replace, svg } from "/assets/base/dom.js";
import { precise } from "/assets/base/format.js";
import { language, named, t } from "/assets/base/i18n.js";
import { button, timeline } from "/assets/base/ui.js";
import { api } from "/assets/base/api.js";
import { picture } from "/assets/play/pictures.js";
import { rewardChip, rewardOf } from "/assets/play/rewards.js";

/** A moment as one would say it: the day and the time, without seconds. */
export function shortTime(millis) {
  const year = new Date(millis).getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return new Intl.DateTimeFormat(language(), { year, month: "short", day: "numeric", hour: "numeric", minute: "2-digit" }).format(millis);
}

export function at(millis) {
  return h("time", { datetime: new Date(millis).toISOString() }, shortTime(millis));
}

/** How much is left of something. */
export function bar(part, whole, label) {
  const share = whole > 0 ? Math.max(0, Math.min(1, part / whole)) : 0;
  return svg("svg", { class: "bar", viewBox: "0 0 1000 8", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("rect", { class: "bar-ground", x: 0, y: 0, width: 1000, height: 8 }),
    svg("rect", { class: "bar-part", x: 0, y: 0, width: share * 1000, height: 8 }));
}

/** The one button of a page: large, and pressed only once at a time. It stays where the keyboard is, also while it is off. */
export function actionButton(label, run) {
  const text = h("span", {}, label);
  let enabled = true;
  let busy = false;
  const show = () => {
    element.setAttribute("aria-disabled", String(!enabled || busy));
    element.classList.toggle("busy", busy);
  };
  const element = button(text, { kind: "primary big", click: async () => {
    if (!enabled || busy) return;
    busy = true;
    show();
    try {
      await run();
    } finally {
      busy = false;
      show();
    }
  } });
  return {
    element,
    /** Whether it can be pressed, and what it says. */
    set(next, words) {
      enabled = next;
      if (text.textContent !== words) text.textContent = words;
      show();
    },
  };
}

/** A result: what it is, in large letters, and what follows from it. tone: good | bad | accent | quiet */
export function outcome({ tone, mark, title, text, children = [] }) {
  return h("div", { class: `outcome tone-${tone}` },
    h("span", { class: "outcome-mark" }, picture(mark, 34)), h("div", { class: "outcome-text" }, h("p", { class: "outcome-title" }, title), text && h("p", {}, text), children));
}

const STEP_TONES = { SUCCEEDED: "good", REJECTED: "quiet", FAILED_FINAL: "bad" };

export function requestTimeline(request) {
  return timeline(request.timeline.map((step) => ({ title: named("step", step.to), at: precise(step.at), tone: STEP_TONES[step.to] ?? "accent" })));
}

/** What an event gave, and whether it has arrived; looked at again a few times while it is on its way. */
export function deliveries(event, ids, signal) {
  const element = h("ul", { class: "deliveries", "aria-label": t("delivery.title") });
  const wanted = (row) => row.eventId === event.eventId && (!ids || ids.includes(row.allocationId));
  async function look(times) {
    let rows = [];
    try {
      rows = (await api.get("/v1/me/allocations", { limit: 50 }, { signal })).items.filter(wanted);
    } catch {
      return;
    }
    replace(element, rows.map((row) => h("li", { data: { status: row.rewardStatus } },
      rewardChip(rewardOf(event, row.rewardId)), h("span", { class: `delivery tone-${row.rewardStatus === "SUCCESS" ? "good" : "warn"}` }, named("delivery", row.rewardStatus)))));
    const done = rows.length > 0 && rows.every((row) => ["SUCCESS", "CANCELLED"].includes(row.rewardStatus));
    if (!done && times > 0 && !signal.aborted) setTimeout(() => look(times - 1), 1_500 + Math.random() * 1_500);
  }
  look(8);
  return element;
}

/** Text that can be copied. */
export function copyable(label, value) {
  const copy = button(t("action.copy"), { kind: "quiet small", "aria-label": `${t("action.copy")}: ${label}`, click: async () => {
    await navigator.clipboard?.writeText(value).catch(() => {});
    copy.textContent = t("action.copied");
    setTimeout(() => { copy.textContent = t("action.copy"); }, 2_000);
  } });
  return h("div", { class: "copyable" }, h("div", { class: "row apart" }, h("span", { class: "muted small-text" }, label), copy), h("code", {}, value));
}
