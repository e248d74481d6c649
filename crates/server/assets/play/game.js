// A game of chance: a wheel whose slices are the published odds, drawn to scale.

import { part } from "/assets/base/api.js";
import { h, replace, svg } from "/assets/base/dom.js";
import { percent } from "/assets/base/format.js";
import { t } from "/assets/base/i18n.js";
import { card } from "/assets/base/ui.js";
import { once, read } from "/assets/play/calls.js";
import { everyTick, now } from "/assets/play/clock.js";
import { actionButton, at, deliveries, outcome } from "/assets/play/pieces.js";
import { rewardOf, rewardText } from "/assets/play/rewards.js";
import { troublePanel } from "/assets/play/trouble.js";

const RADIUS = 100;
const TURNS = 4;
const SPIN_MS = 2_600;
const still = matchMedia("(prefers-reduced-motion: reduce)");

function point(share, radius) {
  const angle = share * 2 * Math.PI - Math.PI / 2;
  return `${(Math.cos(angle) * radius).toFixed(3)} ${(Math.sin(angle) * radius).toFixed(3)}`;
}

function slice(from, to, tone) {
  if (to - from >= 0.9999) return svg("circle", { r: RADIUS, class: `slice slice-${tone}` });
  const large = to - from > 0.5 ? 1 : 0;
  return svg("path", { class: `slice slice-${tone}`, d: `M0 0 L${point(from, RADIUS)} A${RADIUS} ${RADIUS} 0 ${large} 1 ${point(to, RADIUS)} Z` });
}

/** The wheel, and a way to have it stop at a prize. */
function wheel(prizes) {
  let from = 0;
  const slices = prizes.map((prize, index) => {
    const to = from + prize.probability;
    const one = { from, to, element: slice(from, to, index % 6) };
    from = to;
    return one;
  });
  const disc = svg("g", { class: "disc" }, slices.map((one) => one.element));
  const element = svg("svg", { class: "wheel", viewBox: "-112 -118 224 230", role: "img", "aria-label": t("game.wheel") },
    svg("circle", { r: RADIUS + 6, class: "wheel-rim" }), disc, svg("circle", { r: 20, class: "wheel-hub" }), svg("path", { d: "M0 -92 L-10 -114 L10 -114 Z", class: "wheel-pointer" }));
  let turned = 0;
  return {
    element,
    async stopAt(index) {
      const { from: start, to } = slices[index];
      const middle = start + (to - start) * (0.3 + Math.random() * 0.4);
      const next = Math.ceil(turned + TURNS) + 1 - middle;
      const frames = [{ transform: `rotate(${turned}turn)` }, { transform: `rotate(${next}turn)` }];
      turned = next;
      await disc.animate(frames, { duration: still.matches ? 1 : SPIN_MS, easing: "cubic-bezier(.15,.75,.15,1)", fill: "forwards" }).finished.catch(() => {});
    },
  };
}

function prizeName(event, prize) {
  return prize.rewardId ? rewardText(rewardOf(event, prize.rewardId)) : h("span", {}, t("game.blank"));
}

function oddsTable(event, odds) {
  const row = (prize, index) => h("tr", {}, h("th", { scope: "row" }, h("div", { class: "prize" }, h("span", { class: `swatch slice-${index % 6}`, "aria-hidden": "true" }), prizeName(event, prize))), h("td", {}, percent(prize.probability)));
  return h("table", { class: "odds" }, h("caption", { class: "visually-hidden" }, t("game.odds")),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, t("game.prize")), h("th", { scope: "col" }, t("game.probability")))),
    h("tbody", {}, odds.prizes.map(row)));
}

export async function gamePart(event, { signal }) {
  const path = `/v1/events/${part(event.eventId)}/plays`;
  const [odds, first] = await Promise.all([read(`/v1/events/${part(event.eventId)}/odds`, {}, { signal }), read(path, { limit: 10 }, { signal })]);
  let plays = first;
  let spinning = false;
  const disc = wheel(odds.prizes);
  const left = h("p", { class: "muted" });
  const trouble = h("div", {});
  const waiting = h("p", { class: "muted small-text", role: "status" });
  const result = h("div", { class: "result", role: "status", "aria-live": "polite" });
  const past = h("div", {});
  const action = actionButton("", play);

  function tick(moment) {
    const open = event.status === "OPEN" && moment >= event.startsAt && moment < event.endsAt;
    if (!open) action.set(false, t(moment < event.startsAt ? "apply.soon" : "apply.over"));
    else if (plays.left === 0) action.set(false, t("game.noneLeft"));
    else action.set(!spinning, t(spinning ? "game.spinning" : "game.play"));
  }

  function show() {
    left.textContent = plays.left === null ? "" : t("game.left", { count: plays.left });
    replace(past, plays.items.length > 0 && card(t("game.past"), h("ul", { class: "past" }, plays.items.map((one) =>
      h("li", { class: one.prize.rewardId ? "won" : undefined }, prizeName(event, one.prize), h("span", { class: "muted small-text" }, at(one.playedAt)))))));
    tick(now());
  }

  async function play() {
    spinning = true;
    replace(trouble);
    replace(result);
    tick(now());
    try {
      const one = await once(`play.${event.eventId}`, path, { signal, waiting: () => { waiting.textContent = t("apply.retrying"); } });
      waiting.textContent = "";
      const index = odds.prizes.findIndex((prize) => (prize.rewardId ?? null) === one.prize.rewardId);
      if (index >= 0) await disc.stopAt(index);
      replace(result, one.prize.rewardId
        ? outcome({ tone: "good", mark: "won", title: [t("game.won"), " ", prizeName(event, one.prize)], children: one.allocation ? [deliveries(event, [one.allocation.allocationId], signal)] : [] })
        : outcome({ tone: "quiet", mark: "lost", title: t("game.lost"), text: t("game.lost.text") }));
    } catch (error) {
      waiting.textContent = "";
      if (error.name === "AbortError") return;
      if (error.code !== "PLAY_LIMIT_REACHED") replace(trouble, troublePanel(error, { retry: () => action.element.click() }));
    } finally {
      spinning = false;
      plays = await read(path, { limit: 10 }, { signal }).catch(() => plays);
      show();
    }
  }

  everyTick(tick, signal);
  show();
  return [
    h("section", { class: "panel main-panel game", "aria-label": t("game.label") }, disc.element, left, action.element, waiting, trouble, result),
    card(t("game.odds"), oddsTable(event, odds), h("p", { class: "muted small-text" }, t("game.version", { version: odds.version }))),
    past,
  ];
}
