// The audit: every promise checked against what is stored, and the log of who changed what.

import { api } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { duration, number } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { badge, button, emptyState, loading, moment, pagedTable, problemPanel, table } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { eventLink, userLink } from "/assets/console/marks.js";
import { filters } from "/assets/console/pages/events.js";

export function auditPage({ signal }) {
  const place = h("div", { class: "stack", "aria-live": "polite" }, h("div", { class: "list" }, emptyState(t("audit.notRun"), t("audit.notRun.text"))));
  const run = button(t("audit.run"), { kind: "primary", data: { action: "audit" }, click: async () => {
    run.disabled = true;
    const began = Date.now();
    replace(place, loading());
    try {
      replace(place, report(await api.get("/v1/admin/audit", {}, { signal }), Date.now() - began));
    } catch (error) {
      if (error.name !== "AbortError") replace(place, problemPanel(error));
    } finally {
      run.disabled = false;
    }
  } });
  return page({ title: t("nav.audit"), text: t("audit.text"), actions: [run] }, place);
}

function report({ ok, checks }, took) {
  const failed = checks.filter((check) => !check.ok).length;
  return [
    h("section", { class: `card verdict tone-${ok ? "good" : "bad"}` },
      h("div", { class: "row" }, badge(t(ok ? "audit.ok" : "audit.bad"), ok ? "good" : "bad"), h("span", { class: "muted" }, duration(took))),
      h("p", { class: "verdict-text", data: { audit: String(ok) } }, ok ? t("audit.ok.text", { count: checks.length }) : t("audit.bad.text", { count: failed }))),
    h("div", { class: "list" }, table([
      { title: t("audit.check"), cell: (check) => [h("strong", {}, named("check", check.name)), h("div", { class: "under" }, h("code", {}, check.name))] },
      { title: t("audit.verdict"), cell: (check) => badge(t(check.ok ? "audit.holds" : "audit.broken"), check.ok ? "good" : "bad") },
      { title: t("audit.checked"), align: "end", cell: (check) => number(check.checked) },
      { title: t("audit.detail"), cell: (check) => [h("span", { lang: "en" }, check.detail), check.failures?.length > 0 && h("ul", { class: "bullets" }, check.failures.map((one) => h("li", {}, one)))] },
    ], [...checks].sort((one, other) => Number(one.ok) - Number(other.ok)), { label: t("audit.check") }).element),
  ];
}

export function auditLogPage({ query, signal }) {
  const values = { eventId: query.eventId ?? "", userId: query.userId ?? "" };
  const list = pagedTable({
    label: t("nav.auditLog"),
    columns: [
      { title: t("log.at"), cell: (line) => moment(line.at) },
      { title: t("log.actor"), cell: (line) => userLink(line.actor) },
      { title: t("log.action"), cell: (line) => named("action", line.action) },
      { title: t("log.target"), cell: (line) => [line.targetType === "EVENT" ? eventLink(line.targetId) : h("code", {}, line.targetId)] },
      { title: t("log.change"), cell: (line) => change(line) },
    ],
    load: (cursor) => api.page("/v1/admin/audit-log", values, cursor, { signal }),
    empty: emptyState(t("log.empty")),
  });
  return page({ title: t("nav.auditLog"), text: t("log.text") },
    filters([{ name: "eventId", label: t("event.id") }, { name: "userId", label: t("user.id") }], values, () => {
      // The log is looked up by one of them.
      if (values.eventId && values.userId) values.userId = "";
      list.reload();
    }), list.element);
}

const short = (value) => (value === undefined ? "–" : typeof value === "object" && value !== null ? JSON.stringify(value) : String(value));

/** Only what differs, before and after. */
function change({ before, after }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name]));
  if (names.length === 0) return "–";
  return h("details", { class: "raw" }, h("summary", {}, t("log.fields", { count: names.length })),
    h("dl", { class: "diff" }, names.map((name) => h("div", {}, h("dt", {}, name), before ? h("dd", { class: "old" }, short(before[name])) : null, h("dd", { class: "new" }, short(after?.[name]))))));
}
