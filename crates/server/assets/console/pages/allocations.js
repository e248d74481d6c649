// Deliveries of what was won: which stand where, one or many tried again or called off.

import { api, part } from "/assets/base/api.js";
import { meter } from "/assets/base/chart.js";
import { h, replace } from "/assets/base/dom.js";
import { number, precise } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { link, navigate } from "/assets/base/router.js";
import { mayOperate } from "/assets/base/session.js";
import { ask, button, card, emptyState, facts, field, idText, moment, pagedTable, say, timeline } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { allocationLink, codeText, eventLink, raw, requestLink, statusMark, userLink } from "/assets/console/marks.js";
import { filters } from "/assets/console/pages/events.js";

export const STATUSES = ["PENDING", "PROCESSING", "SUCCESS", "FAILED", "CANCELLED"];
const POLL_MS = 1_000;

export function allocationsTable(values, signal, { withEvent = true, withMember = true } = {}) {
  return pagedTable({
    label: t("nav.allocations"),
    columns: [
      { title: t("allocation.id"), cell: (row) => allocationLink(row.allocationId) },
      withEvent && { title: t("event.title"), cell: (row) => eventLink(row.eventId) },
      withMember && { title: t("request.user"), cell: (row) => userLink(row.memberId) },
      { title: t("event.reward"), cell: (row) => row.rewardId },
      { title: t("event.status"), cell: (row) => statusMark("allocationStatus", row.rewardStatus) },
      { title: t("allocation.tries"), align: "end", cell: (row) => number(row.retryCount) },
      { title: t("allocation.trouble"), cell: (row) => codeText(row.errorCode) },
      { title: t("allocation.createdAt"), cell: (row) => moment(row.createdAt) },
    ].filter(Boolean),
    load: (cursor) => api.page("/v1/admin/allocations", values, cursor, { signal }),
    empty: emptyState(t("allocations.empty"), t("allocations.empty.text")),
  });
}

export function allocationsPage({ query, signal }) {
  const values = { status: query.status ?? "", eventId: query.eventId ?? "", memberId: query.memberId ?? "" };
  const list = allocationsTable(values, signal);
  const actions = mayOperate() && [
    button(t("bulk.RETRY"), { data: { action: "bulk-retry" }, click: () => bulk("RETRY", values) }),
    button(t("bulk.CANCEL"), { kind: "danger", data: { action: "bulk-cancel" }, click: () => bulk("CANCEL", values) }),
  ];
  const earlier = pagedTable({
    label: t("bulk.title"),
    columns: [
      { title: t("bulk.action"), cell: (row) => h("a", { href: link`/allocations/bulk/${row.retryId}` }, t(`bulk.${row.action}`)) },
      { title: t("event.status"), cell: (row) => statusMark("retryStatus", row.status) },
      { title: t("bulk.which"), cell: (row) => whichText(row.filter) },
      { title: t("bulk.changed"), align: "end", cell: (row) => `${number(row.retried)} / ${number(row.lookedAt)}` },
      { title: t("action.note"), cell: (row) => row.note ?? "–" },
      { title: t("allocation.createdAt"), cell: (row) => moment(row.createdAt) },
    ],
    load: (cursor) => api.page("/v1/admin/allocations/retries", { limit: 5 }, cursor, { signal }),
    empty: emptyState(t("bulk.empty")),
  });
  return page({ title: t("nav.allocations"), text: t("allocations.text"), actions },
    filters([
      { name: "status", label: t("event.status"), options: STATUSES.map((one) => [one, named("allocationStatus", one)]) },
      { name: "eventId", label: t("event.id") },
      { name: "memberId", label: t("user.id") },
    ], values, () => list.reload()),
    list.element, card(t("bulk.title"), earlier.element));
}

function whichText(filter) {
  return [named("allocationStatus", filter.status), filter.eventId, filter.memberId].filter(Boolean).join(" · ");
}

/** Many at once: how many it would be, why, and then its progress on a page of its own. */
async function bulk(action, values) {
  const status = ["PENDING", "FAILED"].includes(values.status) ? values.status : "FAILED";
  const filter = { status, ...(values.eventId ? { eventId: values.eventId } : {}), ...(values.memberId ? { memberId: values.memberId } : {}) };
  const preview = h("p", { class: "preview", role: "status" }, t("state.loading"));
  api.get("/v1/admin/allocations/count", filter).then(({ count, complete }) => {
    preview.textContent = t(complete ? "bulk.preview" : "bulk.preview.atLeast", { count });
  }).catch((error) => { preview.textContent = error.message; });
  const note = h("textarea", { name: "note", maxlength: 500, required: action === "CANCEL" });
  const done = await ask({
    title: t(`bulk.${action}`), text: [t(`bulk.${action}.text`), h("p", {}, t("bulk.which"), ": ", h("strong", {}, whichText(filter))), preview],
    confirm: t(`bulk.${action}`), kind: action === "CANCEL" ? "danger strong" : "primary",
    fields: [field(t("action.note"), note, { name: "note", hint: t("bulk.note.hint"), optional: action === "RETRY" })],
    run: ({ note: text }) => api.post(`/v1/admin/allocations/${action === "CANCEL" ? "cancel" : "retry"}`, { ...filter, ...(text ? { note: text } : {}) }),
  });
  if (done) navigate(link`/allocations/bulk/${done.answer.retryId}`);
}

export async function bulkPage({ parameters, signal }) {
  const path = `/v1/admin/allocations/retries/${part(parameters.retryId)}`;
  const place = h("div", {});
  let timer = null;
  signal.addEventListener("abort", () => clearTimeout(timer));

  async function look() {
    try {
      draw(await api.get(path, {}, { signal }));
    } catch (error) {
      if (error.name !== "AbortError") timer = setTimeout(look, POLL_MS * 3);
    }
  }

  function draw(run) {
    const stop = mayOperate() && run.status === "RUNNING" && button(t("bulk.stop"), { kind: "danger", data: { action: "stop" }, click: async () => {
      const done = await ask({ title: t("bulk.stop"), text: t("bulk.stop.text"), confirm: t("bulk.stop"), kind: "danger strong", run: () => api.post(`${path}/stop`) });
      if (done) draw(done.answer);
    } });
    const full = meter({ label: t("bulk.changed") });
    full.set(run.retried, Math.max(run.lookedAt, 1));
    // A share of nothing is no share.
    const share = run.lookedAt > 0 ? full.element : null;
    replace(place, page({ title: t(`bulk.${run.action}`), back: ["#/allocations", t("nav.allocations")], marks: [statusMark("retryStatus", run.status)], actions: stop ? [stop] : null },
      card(t("bulk.progress"), h("div", { role: "status", class: "stack" }, h("p", { data: { progress: run.status } }, t("bulk.progress.text", { changed: run.retried, looked: run.lookedAt })), share)),
      card(t("request.facts"), facts([
        [t("bulk.which"), whichText(run.filter)],
        [t("action.note"), run.note ?? "–"],
        [t("allocation.createdAt"), moment(run.createdAt)],
        [t("bulk.finishedAt"), moment(run.finishedAt)],
      ]))));
    clearTimeout(timer);
    if (run.status === "RUNNING" && !signal.aborted) timer = setTimeout(look, POLL_MS);
  }

  draw(await api.get(path, {}, { signal }));
  return place;
}

export async function allocationPage({ parameters, signal }) {
  const path = `/v1/admin/allocations/${part(parameters.allocationId)}`;
  const place = h("div", {});
  const draw = (row) => replace(place, show(row, path, draw));
  draw(await api.get(path, {}, { signal }));
  return place;
}

function history(row) {
  const entries = [{ title: t("allocation.won"), at: precise(row.createdAt), tone: "accent" }];
  if (row.retryCount > 0) entries.push({ title: t("allocation.failedTries", { count: row.retryCount }), tone: "warn", text: [row.errorCode, row.errorMessage].filter(Boolean).join(": ") });
  if (row.outcomeUnknown) entries.push({ title: t("allocation.unknown"), tone: "warn", text: t("allocation.unknown.text") });
  if (row.cancelRequestedAt) entries.push({ title: t("allocation.cancelRequested"), at: precise(row.cancelRequestedAt), tone: "warn" });
  if (row.processedAt) entries.push({ title: named("allocationStatus", row.rewardStatus), at: precise(row.processedAt), tone: row.rewardStatus === "SUCCESS" ? "good" : "bad" });
  else if (row.nextRetryAt) entries.push({ title: t("allocation.next"), at: precise(row.nextRetryAt) });
  else entries.push({ title: named("allocationStatus", row.rewardStatus), tone: row.rewardStatus === "SUCCESS" ? "good" : "bad" });
  return timeline(entries);
}

function show(row, path, draw) {
  const act = (name, kind) => button(t(`allocation.${name}`), { kind, data: { action: name }, click: async () => {
    const done = await ask({ title: t(`allocation.${name}`), text: t(`allocation.${name}.text`), confirm: t(`allocation.${name}`), kind: kind === "danger" ? "danger strong" : "primary", run: () => api.post(`${path}/${name}`) });
    if (!done) return;
    say(t(`allocation.${name}.done`));
    draw(done.answer);
  } });
  const open = ["PENDING", "FAILED"].includes(row.rewardStatus);
  return page({ title: t("allocation.title"), back: ["#/allocations", t("nav.allocations")], marks: [statusMark("allocationStatus", row.rewardStatus), h("code", {}, row.allocationId)], actions: mayOperate() && open ? [act("retry", "primary"), act("cancel", "danger")] : null },
    h("div", { class: "columns" },
      card(t("request.facts"), facts([
        [t("event.title"), eventLink(row.eventId)],
        [t("request.user"), userLink(row.memberId)],
        [t("event.reward"), row.rewardId],
        [t("reward.provider"), row.provider ?? "–"],
        row.requestId && [t("request.id"), requestLink(row.requestId)],
        row.entryId && [t("allocation.entry"), idText(row.entryId)],
        [t("claim.transaction"), idText(row.externalTransactionId)],
        [t("key.title"), idText(row.idempotencyKey)],
      ]), h("p", {}, h("a", { href: link`/events/${row.eventId}/users/${row.memberId}` }, t("why.title")))),
      card(t("timeline.title"), history(row))),
    raw(row));
}
