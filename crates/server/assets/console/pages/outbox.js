// What others are told: the backlog, where it goes to, and sending it again.

import { api, part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { number } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { mayOperate } from "/assets/base/session.js";
import { ask, button, card, emptyState, facts, moment, pagedTable, say } from "/assets/base/ui.js";
import { later, page } from "/assets/console/frame.js";
import { messageLink, statusMark } from "/assets/console/marks.js";
import { filters } from "/assets/console/pages/events.js";

const STATUSES = ["NEW", "SENDING", "SENT", "DEAD"];

export function outboxPage({ query, signal }) {
  const values = { status: query.status ?? "" };
  const list = pagedTable({
    label: t("nav.outbox"),
    columns: [
      { title: t("message.type"), cell: (row) => [h("strong", {}, row.eventType), h("div", { class: "under" }, messageLink(row.eventId))] },
      { title: t("message.aggregate"), cell: (row) => [row.aggregateType, h("div", { class: "under" }, h("code", {}, row.aggregateId))] },
      { title: t("event.status"), cell: (row) => statusMark("messageStatus", row.status) },
      { title: t("message.attempts"), align: "end", cell: (row) => number(row.attempts) },
      { title: t("message.error"), cell: (row) => row.lastError ?? "–" },
      { title: t("message.createdAt"), cell: (row) => moment(row.createdAt) },
    ],
    load: (cursor) => api.page("/v1/admin/outbox", values, cursor, { signal }),
    empty: emptyState(t("outbox.empty"), t("outbox.empty.text")),
  });
  const replay = mayOperate() && button(t("outbox.replayDead"), { data: { action: "replay-dead" }, click: async () => {
    const done = await ask({ title: t("outbox.replayDead"), text: t("outbox.replayDead.text"), confirm: t("outbox.replayDead"), run: replayAll });
    if (!done) return;
    say(t("outbox.replayed", { count: done.answer }));
    list.reload();
  } });
  const where = h("div", {});
  const look = () => replace(where, later(() => api.get("/v1/admin/outbox/sink", {}, { signal }), (sink) => sinkCard(sink)));
  look();
  const refresh = button(t("action.refresh"), { click: () => {
    look();
    list.reload();
  } });
  return page({ title: t("nav.outbox"), text: t("outbox.text"), actions: [refresh, replay] },
    where,
    filters([{ name: "status", label: t("event.status"), options: STATUSES.map((one) => [one, named("messageStatus", one)]) }], values, () => list.reload()),
    list.element);
}

/** The server does so many at a time and says where to go on. */
async function replayAll() {
  let count = 0;
  let from;
  do {
    const done = await api.post("/v1/admin/outbox/replay", { status: "DEAD", ...(from ? { from } : {}) });
    count += done.replayed;
    from = done.next;
  } while (from);
  return count;
}

function sinkCard(sink) {
  const place = h("div", {});
  function draw(state) {
    const enable = mayOperate() && !state.enabled && state.sink !== "none" && button(t("sink.enable"), { kind: "primary", data: { action: "enable" }, click: async () => {
      const done = await ask({ title: t("sink.enable"), text: t("sink.enable.text"), confirm: t("sink.enable"), run: () => api.post("/v1/admin/outbox/sink/enable") });
      if (done) draw(done.answer);
    } });
    replace(place, card(t("sink.title"), facts([
      [t("sink.kind"), named("sinkKind", state.sink)],
      [t("event.status"), statusMark("sinkState", state.sink === "none" ? "NONE" : state.enabled ? "ENABLED" : "DISABLED")],
      state.address && [t("sink.address"), h("code", {}, state.address)],
      state.disabledAt && [t("sink.disabledAt"), moment(state.disabledAt)],
      state.reason && [t("sink.reason"), state.reason],
    ]), enable));
  }
  draw(sink);
  return place;
}

export async function messagePage({ parameters, signal }) {
  const path = `/v1/admin/outbox/${part(parameters.messageId)}`;
  const place = h("div", {});
  function draw(row) {
    const again = mayOperate() && button(t("outbox.replay"), { kind: "primary", data: { action: "replay" }, click: async () => {
      const done = await ask({ title: t("outbox.replay"), text: t("outbox.replay.text"), confirm: t("outbox.replay"), run: () => api.post(`${path}/replay`) });
      if (!done) return;
      say(t("outbox.replayed", { count: 1 }));
      draw(done.answer);
    } });
    replace(place, page({ title: row.eventType, back: ["#/outbox", t("nav.outbox")], marks: [statusMark("messageStatus", row.status), h("code", {}, row.eventId)], actions: again ? [again] : null },
      card(t("request.facts"), facts([
        [t("message.aggregate"), [row.aggregateType, " ", h("code", {}, row.aggregateId)]],
        [t("message.sequence"), number(row.sequence)],
        [t("message.attempts"), number(row.attempts)],
        [t("message.error"), row.lastError ?? "–"],
        [t("message.next"), moment(row.nextAttemptAt)],
        [t("message.createdAt"), moment(row.createdAt)],
      ])),
      card(t("message.payload"), h("pre", { tabindex: "0" }, JSON.stringify(row.payload, null, 2)))));
  }
  draw(await api.get(path, {}, { signal }));
  return place;
}
