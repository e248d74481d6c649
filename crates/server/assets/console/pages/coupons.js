// Coupons: how many are left, who has them, and what became of each.

import { api, part } from "/assets/base/api.js";
import { meter } from "/assets/base/chart.js";
import { h, replace } from "/assets/base/dom.js";
import { fromLocalInput, number, precise, toLocalInput } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { link, navigate } from "/assets/base/router.js";
import { mayOperate } from "/assets/base/session.js";
import { ask, button, card, emptyState, facts, field, moment, pagedTable, say, timeline } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { couponLink, raw, statusMark, userCouponLink, userLink } from "/assets/console/marks.js";
import { filters } from "/assets/console/pages/events.js";

const STATUSES = ["PENDING", "CONFIRMED", "REJECTED", "USED", "EXPIRED", "REVOKED"];
const DAY = 86_400_000;

export function couponsPage({ signal }) {
  const list = pagedTable({
    label: t("nav.coupons"),
    columns: [
      { title: t("coupon.name"), cell: (coupon) => [couponLink(coupon.couponId, coupon.name), h("div", { class: "under" }, h("code", {}, coupon.couponId))] },
      { title: t("coupon.remaining"), align: "end", cell: (coupon) => `${number(coupon.remaining)} / ${number(coupon.totalQuantity)}` },
      { title: t("coupon.perUser"), align: "end", cell: (coupon) => number(coupon.perUserLimit) },
      { title: t("coupon.validFrom"), cell: (coupon) => moment(coupon.validFrom) },
      { title: t("coupon.validUntil"), cell: (coupon) => moment(coupon.validUntil) },
    ],
    load: (cursor) => api.page("/v1/admin/coupons", {}, cursor, { signal }),
    empty: emptyState(t("coupons.empty"), t("coupons.empty.text")),
  });
  const create = mayOperate() && button(t("coupon.create"), { kind: "primary", data: { action: "create-coupon" }, click: makeCoupon });
  return page({ title: t("nav.coupons"), text: t("coupons.text"), actions: create ? [create] : null }, list.element);
}

async function makeCoupon() {
  const input = (name, more) => h("input", { name, required: true, autocomplete: "off", ...more });
  const done = await ask({
    title: t("coupon.create"), text: t("coupon.create.text"), confirm: t("coupon.create"),
    fields: [
      field(t("coupon.id"), input("couponId", { maxlength: 64, pattern: "[A-Za-z0-9_.]+", class: "mono" }), { name: "couponId", hint: t("form.eventId.hint") }),
      field(t("coupon.name"), input("name", { maxlength: 200 }), { name: "name" }),
      field(t("coupon.total"), input("totalQuantity", { type: "number", min: 1, value: "100" }), { name: "totalQuantity" }),
      field(t("coupon.perUser"), input("perUserLimit", { type: "number", min: 1, value: "1" }), { name: "perUserLimit" }),
      field(t("coupon.validUntil"), input("validUntil", { type: "datetime-local", value: toLocalInput(Date.now() + 30 * DAY) }), { name: "validUntil" }),
    ],
    run: (body) => api.post("/v1/admin/coupons", {
      couponId: body.couponId, name: body.name, totalQuantity: Number(body.totalQuantity), perUserLimit: Number(body.perUserLimit),
      validFrom: Date.now(), validUntil: fromLocalInput(body.validUntil), benefit: {},
    }),
  });
  if (done) navigate(link`/coupons/${done.answer.couponId}`);
}

export async function couponPage({ parameters, query, signal }) {
  const path = `/v1/admin/coupons/${part(parameters.couponId)}`;
  const coupon = await api.get(path, {}, { signal });
  const values = { status: query.status ?? "" };
  const full = meter({ label: t("coupon.issued") });
  full.set(coupon.issued, coupon.totalQuantity);
  const list = pagedTable({
    label: t("coupon.holders"),
    columns: userCouponColumns(true),
    load: (cursor) => api.page(`${path}/user-coupons`, values, cursor, { signal }),
    empty: emptyState(t("coupon.nobody")),
  });
  return page({ title: coupon.name, back: ["#/coupons", t("nav.coupons")], marks: [h("code", {}, coupon.couponId)] },
    card(t("request.facts"), facts([
      [t("coupon.issued"), [`${number(coupon.issued)} / ${number(coupon.totalQuantity)}`, full.element]],
      [t("coupon.perUser"), number(coupon.perUserLimit)],
      [t("coupon.validFrom"), moment(coupon.validFrom)],
      [t("coupon.validUntil"), moment(coupon.validUntil)],
      [t("coupon.benefit"), h("code", {}, JSON.stringify(coupon.benefit))],
      [t("event.createdAt"), moment(coupon.createdAt)],
    ])),
    filters([{ name: "status", label: t("event.status"), options: STATUSES.map((one) => [one, named("userCouponStatus", one)]) }], values, () => list.reload()),
    list.element);
}

export function userCouponColumns(withUser) {
  return [
    { title: t("userCoupon.id"), cell: (held) => userCouponLink(held.userCouponId) },
    withUser ? { title: t("request.user"), cell: (held) => userLink(held.userId) } : { title: t("coupon.name"), cell: (held) => couponLink(held.couponId, held.name) },
    { title: t("event.status"), cell: (held) => statusMark("userCouponStatus", held.status) },
    { title: t("request.result"), cell: (held) => named("couponResult", held.resultCode) },
    { title: t("userCoupon.requestedAt"), cell: (held) => moment(held.requestedAt) },
  ];
}

export async function userCouponPage({ parameters, signal }) {
  const place = h("div", {});
  const draw = (held) => replace(place, show(held, draw));
  draw(await api.get(`/v1/user-coupons/${part(parameters.userCouponId)}`, {}, { signal }));
  return place;
}

function show(held, draw) {
  const steps = [{ title: t("userCoupon.requested"), at: precise(held.requestedAt), tone: "accent" }];
  if (held.decidedAt) steps.push({ title: held.resultCode ? named("couponResult", held.resultCode) : t("userCoupon.decided"), at: precise(held.decidedAt), tone: held.resultCode && held.resultCode !== "ISSUED" ? "bad" : "good" });
  if (held.usedAt) steps.push({ title: t("userCoupon.used", { order: held.orderId ?? "–" }), at: precise(held.usedAt), tone: "good" });
  if (held.expiredAt) steps.push({ title: t("userCouponStatus.EXPIRED"), at: precise(held.expiredAt), tone: "warn" });
  if (held.revokedAt) steps.push({ title: t("userCouponStatus.REVOKED"), at: precise(held.revokedAt), tone: "bad", text: held.note });
  const revoke = mayOperate() && ["CONFIRMED", "USED"].includes(held.status) && button(t("userCoupon.revoke"), { kind: "danger", data: { action: "revoke" }, click: async () => {
    const note = h("textarea", { name: "note", required: true, maxlength: 500 });
    const done = await ask({
      title: t("userCoupon.revoke"), text: t("userCoupon.revoke.text"), confirm: t("userCoupon.revoke"), kind: "danger strong",
      fields: [field(t("action.note"), note, { name: "note" })],
      run: (body) => api.post(`/v1/admin/user-coupons/${part(held.userCouponId)}/revoke`, { note: body.note }),
    });
    if (!done) return;
    say(t("userCoupon.revoked"));
    draw(done.answer);
  } });
  return page({ title: held.name, back: [link`/coupons/${held.couponId}`, held.couponId], marks: [statusMark("userCouponStatus", held.status), h("code", {}, held.userCouponId)], actions: revoke ? [revoke] : null },
    h("div", { class: "columns" },
      card(t("request.facts"), facts([
        [t("request.user"), userLink(held.userId)],
        [t("coupon.id"), couponLink(held.couponId)],
        [t("request.result"), named("couponResult", held.resultCode)],
        held.orderId && [t("userCoupon.order"), h("code", {}, held.orderId)],
        [t("coupon.validFrom"), moment(held.validFrom)],
        [t("coupon.validUntil"), moment(held.validUntil)],
        held.note && [t("action.note"), held.note],
      ])),
      card(t("timeline.title"), timeline(steps))),
    raw(held));
}
