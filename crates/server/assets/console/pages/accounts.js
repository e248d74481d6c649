// The wallet: accounts, statements, transfers.

import { api, newKey, part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { amount, precise } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { link, navigate } from "/assets/base/router.js";
import { mayOperate } from "/assets/base/session.js";
import { ask, badge, button, card, emptyState, facts, field, moment, pagedTable, say, timeline } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { accountLink, raw, statusMark, transferLink, userLink } from "/assets/console/marks.js";
import { filters } from "/assets/console/pages/events.js";

const ownerText = (account) => (account.ownerId.includes("#") ? badge(account.ownerId, "quiet") : userLink(account.ownerId));

export function accountsTable(values, signal) {
  return pagedTable({
    label: t("nav.accounts"),
    columns: [
      { title: t("account.id"), cell: (account) => accountLink(account.accountId) },
      { title: t("account.owner"), cell: ownerText },
      { title: t("reward.currency"), cell: (account) => account.currency },
      { title: t("account.balance"), align: "end", cell: (account) => amount(account.balance) },
      { title: t("event.status"), cell: (account) => statusMark("accountStatus", account.status) },
      { title: t("account.createdAt"), cell: (account) => moment(account.createdAt) },
    ],
    load: (cursor) => api.page("/v1/admin/accounts", values, cursor, { signal }),
    empty: emptyState(t("accounts.empty"), t("accounts.empty.text")),
  });
}

export function accountsPage({ query, signal }) {
  const values = { ownerId: query.ownerId ?? "" };
  const list = accountsTable(values, signal);
  const open = mayOperate() && button(t("account.open"), { kind: "primary", data: { action: "open-account" }, click: async () => {
    const owner = h("input", { name: "ownerId", required: true, maxlength: 128, autocomplete: "off" });
    const currency = h("input", { name: "currency", required: true, maxlength: 16, value: "POINT", autocomplete: "off" });
    const scale = h("input", { name: "scale", type: "number", min: 0, max: 18, step: 1 });
    const done = await ask({
      title: t("account.open"), text: t("account.open.text"), confirm: t("account.open"),
      fields: [field(t("account.owner"), owner, { name: "ownerId" }), field(t("reward.currency"), currency, { name: "currency" }), field(t("account.scale"), scale, { name: "scale", hint: t("account.scale.hint"), optional: true })],
      run: (body) => api.post("/v1/admin/accounts", { ownerId: body.ownerId, currency: body.currency, ...(body.scale ? { scale: Number(body.scale) } : {}) }),
    });
    if (done) navigate(link`/accounts/${done.answer.accountId}`);
  } });
  return page({ title: t("nav.accounts"), text: t("accounts.text"), actions: open ? [open] : null },
    filters([{ name: "ownerId", label: t("account.owner") }], values, () => list.reload()), list.element);
}

export async function accountPage({ parameters, signal }) {
  const path = `/v1/accounts/${part(parameters.accountId)}`;
  const place = h("div", {});
  async function draw() {
    const account = await api.get(path, {}, { signal });
    const entries = pagedTable({
      label: t("account.statement"),
      columns: [
        { title: t("account.at"), cell: (entry) => moment(entry.createdAt) },
        { title: t("account.side"), cell: (entry) => badge(t(`side.${entry.side}`), entry.side === "CREDIT" ? "good" : "quiet") },
        { title: t("reward.amount"), align: "end", cell: (entry) => amount(entry.amount, account.currency) },
        { title: t("account.balanceAfter"), align: "end", cell: (entry) => amount(entry.balanceAfter) },
        { title: t("transfer.id"), cell: (entry) => transferLink(entry.transferId) },
      ],
      load: (cursor) => api.page(`${path}/entries`, {}, cursor, { signal }),
      empty: emptyState(t("account.noEntries")),
    });
    const deposit = mayOperate() && !account.ownerId.includes("#") && button(t("account.deposit"), { kind: "primary", data: { action: "deposit" }, click: () => put(account, draw) });
    replace(place, page({ title: t("account.title", { id: String(account.accountId) }), back: ["#/accounts", t("nav.accounts")], marks: [statusMark("accountStatus", account.status)], actions: deposit ? [deposit] : null },
      card(t("request.facts"), facts([
        [t("account.owner"), ownerText(account)],
        [t("account.balance"), h("strong", { data: { figure: "balance" } }, amount(account.balance, account.currency))],
        [t("account.scale"), String(account.scale)],
        [t("account.createdAt"), moment(account.createdAt)],
      ])),
      card(t("account.statement"), entries.element)));
  }
  await draw();
  return place;
}

/** The key is made once, so that trying again after a fault puts the money there once. */
async function put(account, draw) {
  const key = newKey();
  const value = h("input", { name: "amount", inputmode: "decimal", required: true, pattern: "[0-9]+([.][0-9]+)?", autocomplete: "off" });
  const done = await ask({
    title: t("account.deposit"), text: t("account.deposit.text", { currency: account.currency }), confirm: t("account.deposit"),
    fields: [field(t("reward.amount"), value, { name: "amount" })],
    run: (body) => api.post(`/v1/admin/accounts/${part(account.accountId)}/deposit`, { amount: Number(body.amount) }, { headers: { "idempotency-key": key } }),
  });
  if (!done) return;
  say(t("account.deposited"));
  await draw();
}

export async function transferPage({ parameters, signal }) {
  const transfer = await api.get(`/v1/transfers/${part(parameters.transferId)}`, {}, { signal });
  const steps = [{ title: t("transfer.made"), at: precise(transfer.createdAt), tone: "good" }];
  if (Number(transfer.refunded) > 0) steps.push({ title: t("transfer.refundedPart", { amount: amount(transfer.refunded, transfer.currency) }), tone: "warn" });
  return page({ title: t("transfer.title"), back: ["#/accounts", t("nav.accounts")], marks: [statusMark("transferStatus", transfer.status), badge(named("transferKind", transfer.kind), "quiet"), h("code", {}, transfer.transferId)] },
    h("div", { class: "columns" },
      card(t("request.facts"), facts([
        [t("reward.amount"), h("strong", {}, amount(transfer.amount, transfer.currency))],
        [t("transfer.from"), accountLink(transfer.fromAccountId)],
        [t("transfer.to"), accountLink(transfer.toAccountId)],
        [t("transfer.refunded"), amount(transfer.refunded, transfer.currency)],
        transfer.refundOf && [t("transfer.refundOf"), transferLink(transfer.refundOf)],
        [t("account.at"), moment(transfer.createdAt)],
      ])),
      card(t("timeline.title"), timeline(steps))),
    raw(transfer));
}
