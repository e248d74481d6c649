// What I took part in, what became of it, and what I was given.

import { api } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { named, t } from "/assets/base/i18n.js";
import { link } from "/assets/base/router.js";
import { badge, button, emptyState, loading } from "/assets/base/ui.js";
import { knownEvent } from "/assets/play/calls.js";
import { at } from "/assets/play/pieces.js";
import { rewardChip, rewardOf } from "/assets/play/rewards.js";
import { troublePanel } from "/assets/play/trouble.js";

const TONES = { SUCCESS: "good", PENDING: "accent", REJECTED: "quiet", FAILED: "bad" };

function eventName(id) {
  const name = h("a", { href: link`/events/${id}` }, id);
  knownEvent(id).then((event) => { name.textContent = event.name; }, () => {});
  return name;
}

function requestLine(request) {
  return h("li", { class: "line", data: { request: request.requestId } },
    h("div", { class: "line-main" }, eventName(request.eventId), h("span", { class: "muted small-text" }, t(`type.${request.eventType}`), " · ", t("place.number", { position: request.position }), " · ", at(request.requestedAt))),
    badge(request.uiResult === "PENDING" ? t("result.PENDING") : named("result", request.resultCode), TONES[request.uiResult]));
}

function claimLine(claim) {
  const granted = /^SUCCESS|PARTIALLY/.test(claim.status);
  const pending = !granted && !claim.failureReason;
  return h("li", { class: "line" },
    h("div", { class: "line-main" }, eventName(claim.eventId), h("span", { class: "muted small-text" }, t("type.CLAIM"), " · ", at(claim.createdAt))),
    badge(named("claimStep", claim.status), granted ? "good" : pending ? "accent" : "quiet"));
}

function allocationLine(row) {
  const reward = h("span", {}, row.rewardId);
  knownEvent(row.eventId).then((event) => replace(reward, rewardChip(rewardOf(event, row.rewardId))), () => {});
  return h("li", { class: "line" },
    h("div", { class: "line-main" }, reward, h("span", { class: "muted small-text" }, eventName(row.eventId), row.processedAt ? " · " : "", row.processedAt ? at(row.processedAt) : "")),
    badge(named("delivery", row.rewardStatus), row.rewardStatus === "SUCCESS" ? "good" : row.rewardStatus === "CANCELLED" ? "quiet" : "warn"));
}

/** A list that grows by a button. */
export function growing({ path, query, line, empty, signal }) {
  const list = h("ul", { class: "lines" });
  const place = h("div", {});
  async function more(cursor) {
    replace(place, loading());
    try {
      const page = await api.page(path, { limit: 20, ...query }, cursor, { signal });
      list.append(...page.items.map(line));
      replace(place, list.childElementCount === 0 ? empty : page.nextCursor && h("div", { class: "more" }, button(t("action.more"), { click: () => more(page.nextCursor) })));
    } catch (error) {
      if (error.name !== "AbortError") replace(place, troublePanel(error, { retry: () => more(cursor) }));
    }
  }
  return { element: h("div", { class: "card flat" }, list, place), ready: more() };
}

export async function historyPage({ signal }) {
  const parts = [["requests", "/v1/me/requests", requestLine], ["claims", "/v1/me/claims", claimLine], ["rewards", "/v1/me/allocations", allocationLine]];
  const lists = parts.map(([name, path, line]) => [name, growing({ path, line, signal, empty: emptyState(t(`history.${name}.empty`)) })]);
  await Promise.all(lists.map(([, list]) => list.ready));
  return h("div", { class: "stack" }, h("h1", {}, t("history.title")),
    lists.map(([name, list]) => h("section", { class: "stack tight", "aria-label": t(`history.${name}`) }, h("h2", {}, t(`history.${name}`)), list.element)));
}
