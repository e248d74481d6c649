// My coupons, and getting one by its code.

import { part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { date } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { navigate } from "/assets/base/router.js";
import { follow } from "/assets/base/stream.js";
import { ask, button, emptyState, field, say } from "/assets/base/ui.js";
import { once, read, send } from "/assets/play/calls.js";
import { everyTick, now, nowAndThen } from "/assets/play/clock.js";
import { growing } from "/assets/play/history.js";
import { actionButton, bar, outcome } from "/assets/play/pieces.js";
import { picture } from "/assets/play/pictures.js";
import { benefitText } from "/assets/play/rewards.js";
import { troublePanel } from "/assets/play/trouble.js";

const AGAIN = 8_000;

/** A coupon one has, as a ticket. */
function ticket(first) {
  let coupon = first;
  const element = h("li", { class: "ticket" });

  async function move(step, orderId) {
    coupon = await send(`/v1/user-coupons/${part(coupon.userCouponId)}/${step}`, { body: { orderId } });
    show();
    say(t(`coupon.did.${step}`));
    return coupon;
  }

  function use() {
    const order = h("input", { name: "orderId", required: true, maxlength: 100, autocomplete: "off" });
    return ask({ title: t("coupon.use"), text: coupon.name, fields: [field(t("coupon.order"), order, { hint: t("coupon.order.hint"), name: "orderId" })], confirm: t("coupon.use"), run: ({ orderId }) => move("use", orderId.trim()) });
  }

  function giveBack() {
    return ask({ title: t("coupon.cancel"), text: t("coupon.cancel.text", { order: coupon.orderId }), confirm: t("coupon.cancel"), run: () => move("cancel-use", coupon.orderId) });
  }

  function show() {
    const usable = coupon.status === "CONFIRMED" && now() >= coupon.validFrom;
    element.dataset.status = coupon.status;
    replace(element,
      h("div", { class: "ticket-benefit" }, picture("coupons", 26), h("strong", {}, benefitText(coupon.benefit))),
      h("div", { class: "ticket-main" },
        h("p", { class: "ticket-name" }, coupon.name),
        h("p", { class: "muted small-text" }, t("coupon.until", { date: date(coupon.validUntil) })),
        coupon.orderId && h("p", { class: "muted small-text" }, t("coupon.usedFor", { order: coupon.orderId })),
        h("div", { class: "row" }, h("span", { class: `badge tone-${coupon.status === "CONFIRMED" ? "good" : coupon.status === "PENDING" ? "accent" : "quiet"}` }, named("couponStatus", coupon.status)),
          usable && button(t("coupon.use"), { kind: "small", click: use }),
          coupon.status === "USED" && button(t("coupon.cancel"), { kind: "quiet small", click: giveBack }))));
  }
  show();
  return element;
}

export async function couponsPage({ signal }) {
  const code = h("input", { name: "code", required: true, maxlength: 64, autocomplete: "off", autocapitalize: "characters", spellcheck: "false", pattern: "[A-Za-z0-9_.]+" });
  const form = h("form", { class: "code-form", on: { submit: (event) => {
    event.preventDefault();
    navigate(`/coupons/${part(code.value.trim())}`);
  } } }, field(t("coupon.code"), code, { name: "code" }), button(t("coupon.find"), { kind: "primary", type: "submit" }));
  const list = growing({ path: "/v1/me/coupons", line: ticket, signal, empty: emptyState(t("coupon.none"), t("coupon.none.text")) });
  await list.ready;
  list.element.classList.add("tickets");
  return h("div", { class: "stack" }, h("h1", {}, t("coupon.title")), h("section", { class: "card" }, form), list.element);
}

/** A coupon that anybody can ask for, as long as there are some. */
export async function couponPage({ parameters, signal }) {
  const path = `/v1/coupons/${part(parameters.id)}`;
  let coupon;
  try {
    coupon = await read(path, {}, { signal });
  } catch (error) {
    if (error.code !== "COUPON_NOT_FOUND") throw error;
    return h("div", { class: "stack" }, h("h1", {}, t("coupon.unknown")), emptyState(t("coupon.unknown.text", { code: parameters.id }), null, h("a", { class: "button", href: "#/coupons" }, t("action.back"))));
  }
  let mine = (await read("/v1/me/coupons", { limit: 200 }, { signal })).items.filter((one) => one.couponId === coupon.couponId && !["REJECTED", "REVOKED"].includes(one.status));
  const trouble = h("div", {});
  const waiting = h("p", { class: "muted small-text", role: "status" });
  const result = h("div", { class: "result", role: "status", "aria-live": "polite" });
  const places = h("div", { class: "places" });
  const action = actionButton("", get);

  function tick(at) {
    const text = t("event.placesLeft", { left: coupon.remaining, total: coupon.totalQuantity });
    if (places.dataset.text !== text) replace(places, bar(coupon.remaining, coupon.totalQuantity, text), h("span", { class: "muted" }, text));
    places.dataset.text = text;
    if (mine.length >= coupon.perUserLimit) action.set(false, t("coupon.have"));
    else if (at < coupon.validFrom) action.set(false, t("apply.soon"));
    else if (at >= coupon.validUntil) action.set(false, t("apply.over"));
    else if (coupon.remaining <= 0) action.set(false, t("event.soldOut"));
    else action.set(true, t("coupon.get"));
  }

  function show(held) {
    if (held.status === "PENDING") {
      replace(result, outcome({ tone: "accent", mark: "wait", title: t("coupon.pending"), text: t("coupon.pending.text") }));
      follow(`/v1/user-coupons/${part(held.userCouponId)}/stream`, { signal, until: (data) => data.status !== "PENDING", on: { userCoupon: show } });
      return;
    }
    if (held.status === "REJECTED") {
      replace(result, outcome({ tone: "quiet", mark: "lost", title: named("couponResult", held.resultCode) }));
      return;
    }
    mine = [held, ...mine];
    replace(result, outcome({ tone: "good", mark: "won", title: t("coupon.got"), text: coupon.name, children: h("a", { class: "button", href: "#/coupons" }, t("coupon.title")) }));
    tick(now());
  }

  async function get() {
    replace(trouble);
    try {
      show(await once(`coupon.${coupon.couponId}`, `${path}/issue`, { signal, waiting: () => { waiting.textContent = t("apply.retrying"); } }));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (["OUT_OF_STOCK", "DUPLICATE"].includes(error.code)) replace(result, outcome({ tone: "quiet", mark: "lost", title: t(`couponResult.${error.code}`) }));
      else replace(trouble, troublePanel(error, { retry: () => action.element.click() }));
    } finally {
      waiting.textContent = "";
      await load();
    }
  }

  async function load() {
    coupon = await read(path, {}, { signal }).catch(() => coupon);
    tick(now());
  }

  everyTick(tick, signal);
  nowAndThen(load, AGAIN, signal);
  return h("article", { class: "event type-COUPON" }, h("a", { class: "back", href: "#/coupons" }, `← ${t("coupon.title")}`),
    h("header", { class: "event-head" }, h("div", { class: "event-kind" }, h("span", { class: "event-mark" }, picture("coupons", 22)), h("span", {}, t("coupon.kind"))),
      h("h1", {}, coupon.name), h("p", { class: "benefit" }, benefitText(coupon.benefit)), h("p", { class: "muted small-text" }, t("coupon.until", { date: date(coupon.validUntil) }))),
    h("section", { class: "panel main-panel", "aria-label": t("coupon.kind") }, places, action.element, waiting, trouble, result));
}
