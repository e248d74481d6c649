// Claims: those that need a hand first, and each with its steps, its calls and what was undone.

import { api, part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { number, precise } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { mayOperate } from "/assets/base/session.js";
import { ask, badge, button, card, emptyState, facts, field, idText, moment, pagedTable, say, table, timeline } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { claimLink, eventLink, raw, statusMark, userLink } from "/assets/console/marks.js";
import { filters } from "/assets/console/pages/events.js";
import { moves } from "/assets/console/pages/request.js";

const HAND = "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED";
const STATUSES = [HAND, "SUCCESS_ALL_GRANTED", "REWARD_PARTIALLY_GRANTED", "PENDING_VALIDATION", "PENDING_CONDITION_CHECK", "PENDING_INVENTORY_ALLOCATION", "CONDITION_NOT_MET", "INVENTORY_ALLOCATION_FAILED_OUT_OF_STOCK"];

export function claimsPage({ query, signal }) {
  const values = { status: query.status ?? HAND, eventId: query.eventId ?? "", userId: query.userId ?? "" };
  if (query.status === "ALL") values.status = "";
  const list = pagedTable({
    label: t("nav.claims"),
    columns: [
      { title: t("claim.id"), cell: (claim) => claimLink(claim.requestId) },
      { title: t("event.title"), cell: (claim) => eventLink(claim.eventId) },
      { title: t("request.user"), cell: (claim) => userLink(claim.userId) },
      { title: t("event.status"), cell: (claim) => statusMark("claimStatus", claim.status) },
      { title: t("claim.reason"), cell: (claim) => claim.failureMessage ?? claim.failureReason ?? "–" },
      { title: t("claim.updatedAt"), cell: (claim) => moment(claim.updatedAt) },
    ],
    load: (cursor) => api.page("/v1/admin/claims", values, cursor, { signal }),
    empty: emptyState(t("claims.none"), t("claims.none.text")),
  });
  return page({ title: t("nav.claims"), text: t("claims.text") },
    filters([
      { name: "status", label: t("event.status"), options: STATUSES.map((one) => [one, named("claimStatus", one)]) },
      { name: "eventId", label: t("event.id") },
      { name: "userId", label: t("user.id") },
    ], values, () => list.reload()),
    list.element);
}

/** A reward of which there is no end takes none from a stock before it is granted. */
function stockOf({ inventoryStatus, grantStatus }) {
  const needless = inventoryStatus === "PENDING" && grantStatus !== "PENDING";
  return needless ? t("event.unlimited") : statusMark("inventoryStatus", inventoryStatus);
}

export async function claimPage({ parameters, signal }) {
  const path = `/v1/admin/claims/${part(parameters.requestId)}`;
  const place = h("div", {});
  const draw = (claim) => replace(place, show(claim, path, draw));
  draw(await api.get(path, {}, { signal }));
  return place;
}

function show(claim, path, draw) {
  return page({ title: t("claim.title"), back: ["#/claims", t("nav.claims")], marks: [statusMark("claimStatus", claim.status), h("code", {}, claim.requestId)], actions: mayOperate() && claim.needsHand ? actionsOf(path, draw) : null },
    claim.needsHand && handCard(claim.needsHand),
    h("div", { class: "columns" },
      card(t("request.facts"), facts([
        [t("event.title"), eventLink(claim.eventId)],
        [t("request.user"), userLink(claim.userId)],
        [t("claim.step"), named("sagaStep", claim.currentSagaStep)],
        claim.failureReason && [t("claim.reason"), [h("code", {}, claim.failureReason), claim.failureMessage && h("div", {}, claim.failureMessage)]],
        claim.rewardsGrantedAt && [t("claim.grantedAt"), moment(claim.rewardsGrantedAt)],
        [t("claim.createdAt"), moment(claim.createdAt)],
        [t("claim.updatedAt"), moment(claim.updatedAt)],
      ])),
      card(t("timeline.title"), moves(claim.timeline, "claimStatus"))),
    card(t("claim.calls"), h("div", { class: "list" }, table([
      { title: t("event.reward"), cell: (reward) => h("strong", {}, reward.rewardId) },
      { title: t("claim.quantity"), align: "end", cell: (reward) => number(reward.quantity) },
      { title: t("reward.provider"), cell: (reward) => reward.provider ?? "–" },
      { title: t("claim.stock"), cell: stockOf },
      { title: t("claim.grant"), cell: (reward) => [statusMark("grantStatus", reward.grantStatus), reward.failureReason && h("div", { class: "under" }, reward.failureReason)] },
      { title: t("claim.transaction"), cell: (reward) => idText(reward.transactionIdFromProvider) },
      { title: t("key.title"), cell: (reward) => idText(reward.idempotencyKeyForGrant) },
    ], claim.rewardsToProcess, { label: t("claim.calls") }).element)),
    card(t("claim.undo"), claim.compensatingActionsLog.length === 0 ? h("p", { class: "muted" }, t("claim.undo.none")) : timeline(claim.compensatingActionsLog.map((line) => ({
      title: `${named("undoAction", line.action)} – ${named("undoPhase", line.phase)}`, at: precise(line.at),
      tone: { DONE: "good", FAILED: "bad" }[line.phase] ?? "warn", text: [line.rewardId, line.detail].filter(Boolean).join(": "),
    })))),
    raw(claim));
}

function handCard({ reason, left }) {
  return h("section", { class: "card attention" }, h("div", { class: "row" }, badge(t("claim.hand"), "bad")), h("p", {}, reason),
    left.length > 0 && h("ul", { class: "bullets" }, left.map((one) => h("li", {}, `${named("undoAction", one.action)}: ${one.rewardId} (${one.provider}) `, h("code", {}, one.idempotencyKeyForGrant)))));
}

function actionsOf(path, draw) {
  const retry = button(t("claim.retry"), { kind: "primary", data: { action: "retry" }, click: async () => {
    const done = await ask({ title: t("claim.retry"), text: t("claim.retry.text"), confirm: t("claim.retry"), run: () => api.post(`${path}/retry`) });
    if (!done) return;
    say(t("claim.retry.done"));
    draw(done.answer);
  } });
  const resolve = button(t("claim.resolve"), { kind: "danger", data: { action: "resolve" }, click: async () => {
    const note = h("textarea", { name: "note", required: true, maxlength: 1000 });
    const back = h("input", { type: "checkbox", name: "returnStock", value: "yes" });
    const done = await ask({
      title: t("claim.resolve"), text: t("claim.resolve.text"), confirm: t("claim.resolve"), kind: "danger strong",
      fields: [field(t("action.note"), note, { name: "note", hint: t("claim.note.hint") }), h("label", { class: "check" }, back, t("claim.returnStock"))],
      run: (values) => api.post(`${path}/resolve`, { note: values.note, returnStock: values.returnStock === "yes" }),
    });
    if (!done) return;
    say(t("claim.resolve.done"));
    draw(done.answer);
  } });
  return [retry, resolve];
}
