// One event, live: what is left, how fast it goes, who waits, what came of it.

import { api, part } from "/assets/base/api.js";
import { lineChart, meter, shareBar } from "/assets/base/chart.js";
import { h, replace } from "/assets/base/dom.js";
import { duration, fromLocalInput, number, percent, toLocalInput } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { navigate, link } from "/assets/base/router.js";
import { mayOperate } from "/assets/base/session.js";
import { follow } from "/assets/base/stream.js";
import { ask, badge, button, card, emptyState, facts, field, moment, pagedTable, say, select, table, toneOf } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { claimLink, figure, raw, requestLink, rewardText, statusMark, userLink } from "/assets/console/marks.js";
import { allocationsTable } from "/assets/console/pages/allocations.js";
import { livePace } from "/assets/console/pages/pace.js";

const LINES = ["FIRST_COME", "LOTTERY"];
const POLL_MS = 3_000;

export async function eventPage({ parameters, signal }) {
  const path = `/v1/admin/events/${part(parameters.eventId)}`;
  const event = await api.get(path, {}, { signal });
  const place = h("div", { class: "stack" });
  const head = h("div", {});

  function draw(next) {
    Object.assign(event, next);
    replace(head, headOf(event, path, draw));
  }
  draw(event);

  const parts = [];
  if (LINES.includes(event.type)) parts.push(event.status === "DRAFT" ? notOpenYet() : liveLine(event, path, signal));
  else {
    if (event.status === "OPEN") parts.push(livePace(event, path, signal));
    parts.push(event.status === "DRAFT" ? notOpenYet() : liveStock(event, path, draw, signal));
  }
  if (event.type === "LOTTERY" && event.status !== "DRAFT") parts.push(await drawCard(event, signal));
  parts.push(whyCard(event), settingsCard(event));
  if (LINES.includes(event.type) && event.status !== "DRAFT") parts.push(requestsCard(path, signal));
  if (event.type === "CLAIM" && event.status !== "DRAFT") parts.push(claimsCard(event, signal));
  if (event.status !== "DRAFT") {
    const allocations = allocationsTable({ eventId: event.eventId, limit: 10 }, signal, { withEvent: false });
    if (event.type !== "CLAIM") parts.push(card(t("nav.allocations"), allocations.element));
  }
  replace(place, parts);
  return h("div", { class: "page" }, head, place);
}

function headOf(event, path, draw) {
  const marks = [statusMark("eventStatus", event.status), badge(t(`eventType.${event.type}`), "quiet"), h("code", {}, event.eventId)];
  return page({ title: event.name, back: ["#/events", t("nav.events")], marks, actions: mayOperate() ? actionsOf(event, path, draw) : null });
}

function actionsOf(event, path, draw) {
  const actions = [];
  const move = (name, kind, text) => button(t(`event.${name}`), { kind, data: { action: name }, click: async () => {
    const done = await ask({
      title: t(`event.${name}.title`, { name: event.name }), text, confirm: t(`event.${name}`), kind: kind === "danger" ? "danger strong" : "primary",
      run: () => api.post(`${path}/${name}`),
    });
    if (!done) return;
    say(t(`event.${name}.done`));
    draw(done.answer);
    navigateAgain();
  } });
  if (event.status === "DRAFT") actions.push(move("open", "primary", t("event.open.text")));
  if (event.status === "OPEN") {
    actions.push(button(t("event.extend"), { click: () => extend(event, path, draw) }));
    actions.push(move("close", "plain", t("event.close.text")));
  }
  if (["DRAFT", "OPEN", "CLOSED"].includes(event.status)) actions.push(move("cancel", "danger", t("event.cancel.text")));
  return actions;
}

/** The parts of the page depend on the status: read it anew. */
function navigateAgain() {
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

async function extend(event, path, draw) {
  const name = h("input", { name: "name", value: event.name, maxlength: 200, required: true });
  const endsAt = h("input", { type: "datetime-local", name: "endsAt", value: toLocalInput(event.endsAt), required: true });
  const done = await ask({
    title: t("event.extend.title"), text: t("event.extend.text"), confirm: t("action.save"),
    fields: [field(t("event.name"), name, { name: "name" }), field(t("event.endsAt"), endsAt, { name: "endsAt" })],
    run: (values) => api.patch(path, { name: values.name, ...(values.endsAt === toLocalInput(event.endsAt) ? {} : { endsAt: fromLocalInput(values.endsAt) }) }),
  });
  if (done) draw(done.answer);
}

function notOpenYet() {
  return card(null, emptyState(t("event.draft.title"), t("event.draft.text")));
}

const RESULT_TONES = { SUCCESS: "good", REJECTED_CAPACITY: "quiet", REJECTED_LOTTERY_LOSE: "quiet", REJECTED_EVENT_CANCELLED: "warn" };

function liveLine(event, path, signal) {
  const remaining = figure(t("live.remaining"), "remaining");
  const rate = figure(t("live.rate"), "rate");
  const queue = figure(t("live.queue"), "queue");
  const decided = figure(t("live.decided"), "decided");
  const latency = figure(t("live.latency"), "latency");
  const state = badge(t("live.connecting"), "quiet");
  state.dataset.stream = "connecting";
  const full = meter({ label: t("live.given"), tone: "accent" });
  const rateChart = lineChart({ label: t("live.rate"), tone: "accent" });
  const queueChart = lineChart({ label: t("live.queue"), tone: "warn" });
  const remainingChart = lineChart({ label: t("live.remaining"), tone: "good" });
  const results = shareBar({ label: t("live.results") });
  const statuses = h("div", { class: "row" });
  let last = null;
  let seen = null;

  function show(summary) {
    const now = Date.now();
    seen = summary;
    const total = Object.values(summary.byResultCode).reduce((sum, count) => sum + count, 0);
    remaining.set(number(summary.capacityRemaining), t("live.of", { total: summary.capacityTotal }));
    queue.set(number(summary.queueDepth));
    decided.set(number(total), summary.deadLetterCandidates > 0 ? t("live.failed", { count: summary.deadLetterCandidates }) : "");
    const { p50, p99 } = summary.latencyMs;
    latency.set(p50 === null ? "–" : `≤ ${duration(p50)}`, p99 === null ? "" : `p99 ≤ ${duration(p99)}`);
    full.set(summary.capacityTotal - summary.capacityRemaining, summary.capacityTotal);
    queueChart.push(summary.queueDepth, now);
    remainingChart.push(summary.capacityRemaining, now);
    tell(total + summary.queueDepth, now);
    const parts = Object.entries(summary.byResultCode).map(([code, value]) => ({ name: named("resultCode", code), value, tone: RESULT_TONES[code] ?? "bad" }));
    results.set(parts);
    results.element.hidden = parts.length === 0;
    replace(statuses, Object.entries(summary.byStatus).map(([name, count]) => badge(`${named("requestStatus", name)} ${number(count)}`, toneOf(name))));
  }

  // Over the last second or more: what came in, not what one frame brought.
  function tell(arrived, now) {
    if (last === null) last = { arrived, now };
    if (now - last.now < 1_000) return;
    const perSecond = Math.max(0, (arrived - last.arrived) / ((now - last.now) / 1_000));
    last = { arrived, now };
    rate.set(number(Math.round(perSecond * 10) / 10), t("live.perSecond"));
    rateChart.push(perSecond, now);
  }

  rate.set("0", t("live.perSecond"));
  rateChart.push(0);
  follow(`${path}/stream`, {
    signal, on: { summary: show }, whileHidden: false,
    // Perhaps the session has ended: a call tells, and leads to signing in.
    failed: (times) => times % 4 === 3 && api.get("/v1/session").catch(() => {}),
    state: (name) => {
      state.dataset.stream = name;
      state.textContent = t(`live.${name}`);
      state.className = `badge tone-${name === "live" ? "good" : "warn"}`;
    },
  });
  const clock = setInterval(() => {
    if (!seen) return;
    const now = Date.now();
    const arrived = Object.values(seen.byResultCode).reduce((sum, count) => sum + count, 0) + seen.queueDepth;
    tell(arrived, now);
    queueChart.tick(now);
    remainingChart.tick(now);
  }, 1_000);
  signal.addEventListener("abort", () => clearInterval(clock));

  return h("section", { class: "stack", "aria-label": t("live.title") },
    h("div", { class: "row apart" }, h("h2", {}, t("live.title")), state),
    h("dl", { class: "figures" }, remaining.element, rate.element, queue.element, decided.element, latency.element),
    h("div", { class: "columns" },
      card(t("live.rate.chart"), rateChart.element),
      card(t("live.remaining"), remainingChart.element, full.element),
      card(t("live.queue"), queueChart.element)),
    card(t("live.results"), results.element, statuses));
}

/** Events without a line: what is left of each reward, looked at now and then. */
function liveStock(event, path, draw, signal) {
  const body = h("div", {});
  const show = () => replace(body, event.rewards.length === 0 ? emptyState(t("event.noRewards")) : table([
    { title: t("event.reward"), cell: (reward) => [h("strong", {}, reward.rewardId), h("div", { class: "under" }, rewardText(reward))] },
    { title: t("event.stockLeft"), align: "end", cell: (reward) => (reward.totalStock === null || reward.totalStock === undefined ? t("event.unlimited") : `${number(reward.remainingStock)} / ${number(reward.totalStock)}`) },
    { title: t("event.stockGone"), cell: (reward) => {
      if (!reward.totalStock) return "–";
      const full = meter({ label: reward.rewardId });
      full.set(reward.totalStock - reward.remainingStock, reward.totalStock);
      return full.element;
    } },
  ], event.rewards, { label: t("event.rewards") }).element);
  show();
  if (event.status === "OPEN") {
    const timer = setInterval(async () => {
      try {
        draw(await api.get(path, {}, { signal }));
        show();
      } catch {
        // The next look may go better; what is shown stays.
      }
    }, POLL_MS);
    signal.addEventListener("abort", () => clearInterval(timer));
  }
  return card(t("event.rewards"), h("div", { class: "list" }, body));
}

async function drawCard(event, signal) {
  const draw = await api.get(`/v1/events/${part(event.eventId)}/draw`, {}, { signal });
  const needsNonce = draw.publicNonceSource && draw.status === "ROOTED" && !draw.publicNonce && mayOperate();
  const act = needsNonce && button(t("draw.run"), { kind: "primary", data: { action: "draw" }, click: async () => {
    const nonce = h("input", { name: "publicNonce", required: true, maxlength: 512, class: "mono", autocomplete: "off" });
    const done = await ask({
      title: t("draw.run"), text: t("draw.run.text", { source: draw.publicNonceSource }), confirm: t("draw.run"),
      fields: [field(t("draw.nonce"), nonce, { name: "publicNonce" })],
      run: ({ publicNonce }) => api.post(`/v1/admin/events/${part(event.eventId)}/draw`, { publicNonce }),
    });
    if (done) {
      say(t("draw.done"));
      navigateAgain();
    }
  } });
  return card(t("draw.title"),
    facts([
      [t("event.status"), statusMark("drawState", draw.status)],
      [t("event.lotteryCutoffAt"), moment(draw.lotteryCutoffAt)],
      [t("draw.entries"), draw.entries === null ? "–" : number(draw.entries)],
      [t("draw.winners"), draw.winners === null ? "–" : number(draw.winners)],
      [t("draw.source"), draw.publicNonceSource ?? t("draw.noSource")],
      [t("draw.announcedAt"), moment(draw.announcedAt)],
      [t("draw.commitment"), h("code", {}, draw.commitment)],
      draw.publicNonce && [t("draw.nonce"), h("code", {}, draw.publicNonce)],
      draw.root && [t("draw.root"), h("code", {}, draw.root)],
      draw.seed && [t("draw.seed"), h("code", {}, draw.seed)],
    ]),
    h("p", { class: "muted small-text" }, t(draw.protectsAgainstOperator ? "draw.safe" : "draw.note")), act);
}

function whyCard(event) {
  const user = h("input", { name: "userId", required: true, maxlength: 128, autocomplete: "off", spellcheck: "false" });
  const form = h("form", { class: "inline-form", on: { submit: (submit) => {
    submit.preventDefault();
    if (user.value.trim()) navigate(link`/events/${event.eventId}/users/${user.value.trim()}`);
  } } }, field(t("why.user"), user, { hint: t("why.hint") }), button(t("why.look"), { type: "submit" }));
  return card(t("why.title"), form);
}

function settingsCard(event) {
  const zone = event.attendance ?? event.random;
  const odds = event.random?.odds?.at(-1);
  const whole = odds?.prizes.reduce((sum, prize) => sum + prize.weight, 0);
  return card(t("event.settings"),
    facts([
      [t("event.startsAt"), moment(event.startsAt)],
      [t("event.endsAt"), moment(event.endsAt)],
      event.capacityTotal && [t("event.capacityTotal"), number(event.capacityTotal)],
      event.lotteryCutoffAt && [t("event.lotteryCutoffAt"), moment(event.lotteryCutoffAt)],
      event.grantPolicy && [t("event.grantPolicy"), t(`grantPolicy.${event.grantPolicy}`)],
      event.conditions && [t("event.conditions"), h("code", {}, event.conditions)],
      zone?.timeZone && [t("event.timeZone"), zone.timeZone],
      event.attendance?.daily && [t("event.daily"), event.attendance.daily],
      event.attendance?.bonus?.length && [t("event.bonus"), event.attendance.bonus.map((one) => h("div", {}, t("event.bonus.line", { days: one.days, reward: one.rewardId })))],
      event.random?.perDay && [t("event.perDay"), number(event.random.perDay)],
      event.random?.perUser && [t("event.perUser"), number(event.random.perUser)],
      odds && [t("event.odds"), odds.prizes.map((prize) => h("div", {}, `${prize.rewardId ?? t("event.nothing")}: ${percent(prize.weight / whole)}`))],
      [t("event.rewards"), event.rewards.length === 0 ? "–" : event.rewards.map((reward) => h("div", {}, `${reward.rewardId}: ${rewardText(reward)}`))],
      [t("event.createdAt"), moment(event.createdAt)],
      event.openedAt && [t("event.openedAt"), moment(event.openedAt)],
      event.closedAt && [t("event.closedAt"), moment(event.closedAt)],
      event.cancelledAt && [t("event.cancelledAt"), moment(event.cancelledAt)],
    ]), raw(event));
}

function requestsCard(path, signal) {
  const values = { resultCode: "", limit: 10 };
  const list = pagedTable({
    label: t("requests.title"),
    columns: [
      { title: t("request.position"), align: "end", cell: (request) => number(request.position) },
      { title: t("request.user"), cell: (request) => userLink(request.userId) },
      { title: t("event.status"), cell: (request) => statusMark("requestStatus", request.status) },
      { title: t("request.result"), cell: (request) => named("resultCode", request.resultCode) },
      { title: t("request.requestedAt"), cell: (request) => moment(request.requestedAt) },
      { title: t("request.id"), cell: (request) => requestLink(request.requestId) },
    ],
    load: (cursor) => api.page(`${path}/requests`, values, cursor, { signal }),
    empty: emptyState(t("requests.empty"), t("requests.empty.text")),
  });
  const results = ["SUCCESS", "REJECTED_CAPACITY", "REJECTED_LOTTERY_LOSE", "REJECTED_EVENT_CANCELLED", "FAILED_WORKER"];
  const choose = select([["", t("filter.all", { what: t("request.result") })], ...results.map((one) => [one, named("resultCode", one)])], { "aria-label": t("request.result"), class: "small", on: { change: (event) => {
    values.resultCode = event.target.value;
    list.reload();
  } } });
  return card(t("requests.title"), h("div", { class: "row toolbar" }, choose, button(t("action.refresh"), { kind: "plain small", click: () => list.reload() })), list.element);
}

function claimsCard(event, signal) {
  const list = pagedTable({
    label: t("nav.claims"),
    columns: [
      { title: t("claim.id"), cell: (claim) => claimLink(claim.requestId) },
      { title: t("request.user"), cell: (claim) => userLink(claim.userId) },
      { title: t("event.status"), cell: (claim) => statusMark("claimStatus", claim.status) },
      { title: t("claim.updatedAt"), cell: (claim) => moment(claim.updatedAt) },
    ],
    load: (cursor) => api.page("/v1/admin/claims", { eventId: event.eventId, limit: 10 }, cursor, { signal }),
    empty: emptyState(t("claims.empty"), t("claims.empty.text")),
  });
  return card(t("nav.claims"), list.element);
}
