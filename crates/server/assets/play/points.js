// My accounts, and every movement on them.

import { part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { amount } from "/assets/base/format.js";
import { t } from "/assets/base/i18n.js";
import { emptyState } from "/assets/base/ui.js";
import { read } from "/assets/play/calls.js";
import { growing } from "/assets/play/history.js";
import { at } from "/assets/play/pieces.js";
import { points } from "/assets/play/rewards.js";

function entryLine(currency) {
  return (entry) => {
    const gained = entry.side === "CREDIT";
    return h("li", { class: "line" },
      h("div", { class: "line-main" }, h("span", {}, t(gained ? "points.in" : "points.out")), h("span", { class: "muted small-text" }, at(entry.createdAt))),
      h("div", { class: "line-end" }, h("strong", { class: gained ? "gain" : "" }, `${gained ? "+" : "−"}${amount(entry.amount)}`), h("span", { class: "muted small-text" }, t("points.after", { amount: points(entry.balanceAfter, currency) }))));
  };
}

export async function pointsPage({ signal, query }) {
  const accounts = (await read("/v1/me/accounts", { limit: 50 }, { signal })).items;
  if (accounts.length === 0) return h("div", { class: "stack" }, h("h1", {}, t("points.title")), emptyState(t("points.none"), t("points.none.text")));
  const place = h("section", { class: "stack tight", "aria-label": t("points.entries") });
  const cards = h("div", { class: "accounts", role: "group", "aria-label": t("points.accounts") });

  async function choose(account) {
    for (const one of cards.querySelectorAll("button")) one.setAttribute("aria-pressed", String(one.dataset.account === String(account.accountId)));
    const list = growing({ path: `/v1/accounts/${part(account.accountId)}/entries`, line: entryLine(account.currency), signal, empty: emptyState(t("points.entries.none")) });
    replace(place, h("h2", {}, t("points.entries")), list.element);
    await list.ready;
  }

  const face = (account) => [h("span", { class: "muted" }, account.currency === "POINT" ? t("points.account") : account.currency), h("strong", {}, points(account.balance, account.currency))];
  const choice = (account) => h("button", { type: "button", class: "account", data: { account: account.accountId }, on: { click: () => choose(account) } }, face(account));
  cards.append(...(accounts.length > 1 ? accounts.map(choice) : [h("div", { class: "account" }, face(accounts[0]))]));
  await choose(accounts.find((account) => String(account.accountId) === query.account) ?? accounts[0]);
  return h("div", { class: "stack" }, h("h1", {}, t("points.title")), cards, place);
}
