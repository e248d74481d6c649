// What is on: every open event, with what one can win, and how long there is.

import { h, replace } from "/assets/base/dom.js";
import { countdown } from "/assets/base/format.js";
import { t } from "/assets/base/i18n.js";
import { link } from "/assets/base/router.js";
import { emptyState } from "/assets/base/ui.js";
import { read } from "/assets/play/calls.js";
import { everyTick, now, nowAndThen } from "/assets/play/clock.js";
import { bar } from "/assets/play/pieces.js";
import { picture } from "/assets/play/pictures.js";
import { rewardList } from "/assets/play/rewards.js";

const AGAIN = 20_000;

/** What an event is waiting for, and until when. */
export function nextMoment(event, at) {
  if (at < event.startsAt) return { name: "starts", at: event.startsAt };
  if (event.type === "LOTTERY" && at < event.lotteryCutoffAt) return { name: "cutoff", at: event.lotteryCutoffAt };
  if (event.type === "LOTTERY") return { name: "drawing", at: null };
  return { name: "ends", at: event.endsAt };
}

function isSoldOut(event) {
  return event.type === "FIRST_COME" && event.capacityRemaining === 0;
}

function card(event, applied, signal) {
  const when = h("span", { class: "when" });
  const soldOut = isSoldOut(event);
  everyTick((at) => {
    const next = nextMoment(event, at);
    const text = soldOut ? t("event.soldOut") : next.at ? t(`moment.${next.name}`, { time: countdown(next.at - at) }) : t(`moment.${next.name}`);
    if (when.textContent !== text) when.textContent = text;
    when.classList.toggle("soon", !soldOut && Boolean(next.at) && next.at - at < 60_000);
  }, signal);
  const places = event.type === "FIRST_COME" && h("div", { class: "places" },
    bar(event.capacityRemaining, event.capacityTotal, t("event.placesLeft", { left: event.capacityRemaining, total: event.capacityTotal })),
    h("span", { class: "small-text muted" }, t("event.placesLeft", { left: event.capacityRemaining, total: event.capacityTotal })));
  return h("li", {}, h("a", { class: `event-card type-${event.type}`, href: link`/events/${event.eventId}`, data: { event: event.eventId } },
    h("div", { class: "event-kind" }, h("span", { class: "event-mark" }, picture(event.type, 20)), h("span", {}, t(`type.${event.type}`)),
      applied && h("span", { class: "badge tone-good" }, t("event.applied"))),
    h("h2", {}, event.name),
    rewardList(event.rewards),
    places,
    h("div", { class: "event-foot" }, when)));
}

export async function homePage({ signal }) {
  const list = h("ul", { class: "event-list" });
  const summary = h("p", { class: "muted", role: "status" });
  let drawn = null;

  async function load() {
    const [events, requests] = await Promise.all([
      read("/v1/events", { limit: 100 }, { signal }), read("/v1/me/requests", { limit: 100 }, { signal })]);
    const applied = new Set(requests.items.map((request) => request.eventId));
    const at = now();
    const rank = (event) => (isSoldOut(event) ? 1 : 0);
    const items = events.items.sort((one, other) => rank(one) - rank(other) || (nextMoment(one, at).at ?? 0) - (nextMoment(other, at).at ?? 0));
    drawn?.abort();
    drawn = new AbortController();
    const focused = document.activeElement?.dataset?.event;
    replace(list, items.map((event) => card(event, applied.has(event.eventId), drawn.signal)));
    if (focused) [...list.querySelectorAll("[data-event]")].find((one) => one.dataset.event === focused)?.focus({ preventScroll: true });
    summary.textContent = t("home.count", { count: items.length });
    list.hidden = items.length === 0;
    nothing.hidden = items.length > 0;
  }

  const nothing = h("div", { hidden: true }, emptyState(t("home.empty"), t("home.empty.text")));
  signal.addEventListener("abort", () => drawn?.abort());
  await load();
  nowAndThen(() => load().catch(() => {}), AGAIN, signal);
  return h("div", { class: "stack" }, h("div", { class: "page-head" }, h("h1", {}, t("home.title")), summary), list, nothing);
}

