// Events of every status, and the way to a new one.

import { api } from "/assets/base/api.js";
import { h } from "/assets/base/dom.js";
import { number } from "/assets/base/format.js";
import { t } from "/assets/base/i18n.js";
import { setQuery } from "/assets/base/router.js";
import { mayOperate } from "/assets/base/session.js";
import { emptyState, moment, pagedTable, select } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { eventLink, statusMark } from "/assets/console/marks.js";

export const STATUSES = ["DRAFT", "OPEN", "CLOSED", "ANNOUNCED", "CANCELLED"];
export const TYPES = ["FIRST_COME", "LOTTERY", "CLAIM", "ATTENDANCE", "RANDOM"];

/** A bar of filters; each change is in the address and reloads the list. */
export function filters(definitions, values, reload) {
  const controls = definitions.map(({ name, label, options, placeholder }) => {
    const change = (event) => {
      values[name] = event.target.value.trim();
      setQuery(values);
      reload();
    };
    const control = options
      ? select([["", t("filter.all", { what: label })], ...options], { value: values[name] ?? "", name, on: { change } })
      : h("input", { type: "search", name, value: values[name] ?? "", placeholder: placeholder ?? label, autocomplete: "off", spellcheck: "false", on: { change } });
    control.setAttribute("aria-label", label);
    return control;
  });
  return h("form", { class: "filters", on: { submit: (event) => event.preventDefault() } }, controls);
}

export function eventsPage({ query, signal }) {
  const values = { status: query.status ?? "", type: query.type ?? "" };
  const create = mayOperate() && h("a", { class: "button primary", href: "#/events/new" }, t("events.new"));
  const list = pagedTable({
    label: t("nav.events"),
    rowKey: (event) => event.eventId,
    columns: [
      { title: t("event.name"), cell: (event) => [eventLink(event.eventId, event.name), h("div", { class: "under" }, h("code", {}, event.eventId))] },
      { title: t("event.type"), cell: (event) => t(`eventType.${event.type}`) },
      { title: t("event.status"), cell: (event) => statusMark("eventStatus", event.status) },
      { title: t("event.startsAt"), cell: (event) => moment(event.startsAt) },
      { title: t("event.endsAt"), cell: (event) => moment(event.endsAt) },
      { title: t("event.places"), align: "end", cell: (event) => (event.capacityTotal ? `${number(event.capacityRemaining ?? event.capacityTotal)} / ${number(event.capacityTotal)}` : "–") },
    ],
    load: (cursor) => api.page("/v1/admin/events", values, cursor, { signal }),
    empty: emptyState(t("events.empty"), t("events.empty.text"), create && create.cloneNode(true)),
  });
  return page({ title: t("nav.events"), text: t("events.text"), actions: create },
    filters([
      { name: "status", label: t("event.status"), options: STATUSES.map((one) => [one, t(`eventStatus.${one}`)]) },
      { name: "type", label: t("event.type"), options: TYPES.map((one) => [one, t(`eventType.${one}`)]) },
    ], values, () => list.reload()),
    list.element);
}
