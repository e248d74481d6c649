// First come, and lotteries: the countdown, the button, the place in line, the result.

import { part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { countdown } from "/assets/base/format.js";
import { has, t } from "/assets/base/i18n.js";
import { follow } from "/assets/base/stream.js";
import { card } from "/assets/base/ui.js";
import { noteStream, read, send } from "/assets/play/calls.js";
import { everyTick, now, nowAndThen } from "/assets/play/clock.js";
import { drawPart } from "/assets/play/draw.js";
import { nextMoment } from "/assets/play/home.js";
import { actionButton, bar, deliveries, outcome, requestTimeline, shortTime } from "/assets/play/pieces.js";
import { troublePanel } from "/assets/play/trouble.js";

const AGAIN = 8_000;
const EARLY_TRIES = 6;
const EARLY_PAUSE = 250;

/** Applies. A click that is a moment too early is sent again. */
async function applyOnce(event, options) {
  for (let tries = 1; ; tries += 1) {
    try {
      return await send(`/v1/events/${part(event.eventId)}/requests`, options);
    } catch (error) {
      if (error.code !== "EVENT_NOT_OPEN" || tries >= EARLY_TRIES || now() > event.startsAt + 3_000) throw error;
      await new Promise((resolve) => { setTimeout(resolve, EARLY_PAUSE + Math.random() * EARLY_PAUSE); });
    }
  }
}

/** Where somebody stands who is not decided about. */
function place(event, request) {
  const figure = (name, value) => h("div", { class: "place-figure" }, h("span", { class: "muted" }, name), h("strong", {}, value));
  return h("div", { class: "place" },
    figure(t("place.position"), t("place.number", { position: request.position })),
    event.type === "FIRST_COME" && figure(t("place.ahead"), t("place.people", { count: request.ahead })),
    h("p", { class: "muted" }, event.type === "LOTTERY" ? t("place.lottery", { time: shortTime(event.lotteryCutoffAt) }) : t("place.text")));
}

function verdict(event, request, signal) {
  const values = { position: request.position, total: event.capacityTotal };
  const key = `result.${request.resultCode}`;
  const won = request.uiResult === "SUCCESS";
  return outcome({
    tone: won ? "good" : request.uiResult === "FAILED" ? "bad" : "quiet", mark: won ? "won" : "lost",
    title: has(`${key}.${event.type}`) ? t(`${key}.${event.type}`) : has(key) ? t(key) : t(`result.${request.uiResult}`),
    text: has(`${key}.text`) ? t(`${key}.text`, values) : t("result.position", values),
    children: won ? [deliveries(event, null, signal)] : [],
  });
}

export async function linePart(first, { signal }) {
  let event = first;
  let request = (await read("/v1/me/requests", { eventId: event.eventId }, { signal })).items[0] ?? null;
  let stream = null;

  const clock = h("p", { class: "clock", role: "timer", "aria-live": "off" });
  const clockLabel = h("p", { class: "clock-label" });
  const places = h("div", { class: "places" });
  const trouble = h("div", {});
  const waiting = h("p", { class: "muted small-text", role: "status" });
  const result = h("div", { class: "result", role: "status", "aria-live": "polite" });
  const way = h("div", {});
  const action = actionButton("", apply);
  const draw = event.type === "LOTTERY" ? drawPart(event, () => request, signal) : null;

  function isOver(at) {
    return event.status !== "OPEN" || at >= event.endsAt || (event.type === "LOTTERY" && at >= event.lotteryCutoffAt);
  }

  function tick(at) {
    const next = nextMoment(event, at);
    const over = isOver(at);
    const soldOut = event.type === "FIRST_COME" && event.capacityRemaining === 0;
    const label = t(event.status === "CANCELLED" || (over && event.type !== "LOTTERY") ? "clock.over" : event.status === "ANNOUNCED" ? "clock.announced" : `clock.${next.name}`);
    if (clockLabel.textContent !== label) clockLabel.textContent = label;
    const text = over || !next.at ? "" : countdown(next.at - at);
    if (clock.textContent !== text) clock.textContent = text;
    // Whoever knows the result needs no countdown.
    const decided = request !== null && request.uiResult !== "PENDING";
    clock.hidden = text === "" || decided;
    clockLabel.hidden = decided;
    clock.classList.toggle("soon", next.at !== null && next.at - at < 10_000);
    if (request) action.set(false, t("apply.already"));
    else if (at < event.startsAt) action.set(false, t("apply.soon"));
    else if (over) action.set(false, t("apply.over"));
    else if (soldOut) action.set(false, t("event.soldOut"));
    else action.set(true, t(`apply.${event.type}`));
  }

  function showPlaces() {
    if (event.type === "LOTTERY") return replace(places, h("span", { class: "muted" }, t("event.winners", { total: event.capacityTotal })));
    const text = t("event.placesLeft", { left: event.capacityRemaining, total: event.capacityTotal });
    return replace(places, bar(event.capacityRemaining, event.capacityTotal, text), h("span", { class: "muted" }, text));
  }

  async function apply() {
    replace(trouble);
    try {
      request = await applyOnce(event, { signal, waiting: () => { waiting.textContent = t("apply.retrying"); } });
      waiting.textContent = "";
      showRequest();
      load();
    } catch (error) {
      waiting.textContent = "";
      if (error.name === "AbortError") return;
      replace(trouble, troublePanel(error, { retry: () => action.element.click() }));
      load();
    } finally {
      tick(now());
    }
  }

  function showRequest() {
    tick(now());
    if (!request) return;
    replace(result, request.uiResult === "PENDING" ? place(event, request) : verdict(event, request, signal));
    replace(way, card(t("request.way"), requestTimeline(request), h("p", { class: "muted small-text request-id" }, t("request.id"), " ", h("code", {}, request.requestId))));
    draw?.refresh();
    if (request.uiResult === "PENDING" && !stream) {
      stream = follow(`/v1/requests/${part(request.requestId)}/stream`, {
        signal, state: noteStream, until: (data) => data.uiResult !== "PENDING",
        on: { request: (data) => {
          request = data;
          if (data.uiResult !== "PENDING") load();
          showRequest();
        } },
      });
    }
  }

  async function load() {
    try {
      event = await read(`/v1/events/${part(event.eventId)}`, {}, { signal });
      showPlaces();
      tick(now());
      draw?.refresh(event);
    } catch {
      // The next look may find it.
    }
  }

  showPlaces();
  everyTick(tick, signal);
  showRequest();
  nowAndThen(load, AGAIN, signal);
  return [
    h("section", { class: "panel main-panel", "aria-label": t("apply.label") }, clockLabel, clock, places, action.element, waiting, trouble, result),
    way, draw?.element,
  ];
}
