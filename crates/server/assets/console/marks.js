// How the things of the API are shown in short: statuses as badges, ids as links, rewards in words.

import { h } from "/assets/base/dom.js";
import { amount, number } from "/assets/base/format.js";
import { has, named, t } from "/assets/base/i18n.js";
import { link } from "/assets/base/router.js";
import { badge, idText, toneOf } from "/assets/base/ui.js";

export const eventLink = (id, name) => (id ? h("a", { href: link`/events/${id}` }, name ?? id) : "–");
export const userLink = (id) => idText(id, id ? link`/users/${id}` : null);
export const requestLink = (id) => idText(id, id ? link`/requests/${id}` : null);
export const claimLink = (id) => idText(id, id ? link`/claims/${id}` : null);
export const allocationLink = (id) => idText(id, id ? link`/allocations/${id}` : null);
export const couponLink = (id, name) => (id ? h("a", { href: link`/coupons/${id}` }, name ?? id) : "–");
export const userCouponLink = (id) => idText(id, id ? link`/user-coupons/${id}` : null);
export const accountLink = (id) => idText(id, id === null || id === undefined ? null : link`/accounts/${id}`);
export const transferLink = (id) => idText(id, id ? link`/transfers/${id}` : null);
export const messageLink = (id) => idText(id, id ? link`/outbox/${id}` : null);

/** A status in words, with the API's own name where one would look for it. */
export function statusMark(group, status) {
  if (status === null || status === undefined) return "–";
  const mark = badge(named(group, status), toneOf(status));
  if (has(`${group}.${status}`)) mark.title = status;
  return mark;
}

export function rewardText(reward) {
  const many = reward.quantity > 1 ? ` × ${number(reward.quantity)}` : "";
  if (reward.kind === "POINT") return `${amount(reward.amount, reward.currency)}${many}`;
  if (reward.kind === "COUPON") return `${t("reward.COUPON")} ${reward.couponId}${many}`;
  return `${t("reward.ITEM")} ${reward.rewardId}${many}`;
}

/** A code of the API, which may be broken after an underscore and nowhere else. */
export function codeText(text) {
  return text ? h("code", { class: "name" }, String(text).split(/(?<=_)/).flatMap((part) => [part, h("wbr", {})])) : "–";
}

/** JSON as it is, for whoever wants to see it. */
export function raw(value, title) {
  return h("details", { class: "raw" }, h("summary", {}, title ?? t("raw.title")), h("pre", { tabindex: "0" }, JSON.stringify(value, null, 2)));
}

/** A figure that is changed in place. */
export function figure(name, key) {
  const value = h("span", { data: { figure: key } }, "–");
  const under = h("small", {});
  return { element: h("div", { class: "figure" }, h("dt", {}, name), h("dd", {}, value, under)), set: (text, more = "") => {
    value.textContent = text;
    under.textContent = more;
  } };
}
