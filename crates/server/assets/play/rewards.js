// What can be won, in words.

import { h } from "/assets/base/dom.js";
import { amount, number } from "/assets/base/format.js";
import { t } from "/assets/base/i18n.js";
import { knownCoupon } from "/assets/play/calls.js";
import { picture } from "/assets/play/pictures.js";

const PICTURES = { POINT: "points", COUPON: "coupons", ITEM: "CLAIM" };

/** An id as people would say it: limited_figure is “limited figure”. */
export function plain(id) {
  return String(id).replace(/[_.]+/g, " ").trim() || String(id);
}

export function points(value, currency) {
  return currency === "POINT" ? t("reward.points", { amount: amount(value) }) : amount(value, currency);
}

/** What a coupon is good for. */
export function benefitText(benefit) {
  if (benefit === null || typeof benefit !== "object") return benefit ? String(benefit) : "";
  if (Number.isFinite(benefit.percent)) return t("coupon.percent", { percent: number(benefit.percent) });
  if (Number.isFinite(benefit.amount)) return t("coupon.amount", { amount: amount(benefit.amount, benefit.currency) });
  return Object.entries(benefit).map(([name, value]) => `${plain(name)} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
}

/** A reward's name; a coupon's comes a moment later. */
export function rewardText(reward) {
  const many = reward.quantity > 1 ? ` × ${number(reward.quantity)}` : "";
  const text = h("span", { class: "reward-name" });
  if (reward.kind === "POINT") text.textContent = points(reward.amount, reward.currency) + many;
  else text.textContent = plain(reward.rewardId) + many;
  if (reward.kind === "COUPON" && reward.couponId) {
    knownCoupon(reward.couponId).then((coupon) => {
      text.textContent = coupon.name + many;
    }, () => {});
  }
  return text;
}

export function rewardChip(reward) {
  return h("span", { class: "chip" }, picture(PICTURES[reward.kind], 16), rewardText(reward));
}

export function rewardList(rewards) {
  return h("ul", { class: "chips", "aria-label": t("event.rewards") }, rewards.map((reward) => h("li", {}, rewardChip(reward))));
}

/** The reward of an event by its id, as far as the event still knows it. */
export function rewardOf(event, id) {
  return event?.rewards?.find((reward) => reward.rewardId === id) ?? { rewardId: id, kind: "ITEM", quantity: 1 };
}
