// Users: whom the registry knows, and everything that one of them has here.

import { api, part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { number } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { link, navigate } from "/assets/base/router.js";
import { mayOperate } from "/assets/base/session.js";
import { ask, button, card, emptyState, field, moment, pagedTable, say, select } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { claimLink, eventLink, requestLink, statusMark, userLink } from "/assets/console/marks.js";
import { accountsTable } from "/assets/console/pages/accounts.js";
import { allocationsTable } from "/assets/console/pages/allocations.js";
import { userCouponColumns } from "/assets/console/pages/coupons.js";
import { filters } from "/assets/console/pages/events.js";

const STATUSES = ["ACTIVE", "INACTIVE", "BANNED", "WITHDRAWN"];

export function usersPage({ query, signal }) {
  const values = { status: query.status ?? "" };
  const list = pagedTable({
    label: t("nav.users"),
    columns: [
      { title: t("user.id"), cell: (user) => userLink(user.userId) },
      { title: t("event.status"), cell: (user) => statusMark("userStatus", user.status) },
      { title: t("user.updatedAt"), cell: (user) => moment(user.updatedAt) },
    ],
    load: (cursor) => api.page("/v1/admin/users", values, cursor, { signal }),
    empty: emptyState(t("users.empty"), t("users.empty.text")),
  });
  const id = h("input", { name: "userId", required: true, maxlength: 128, autocomplete: "off", spellcheck: "false" });
  const look = h("form", { class: "inline-form", on: { submit: (event) => {
    event.preventDefault();
    if (id.value.trim()) navigate(link`/users/${id.value.trim()}`);
  } } }, field(t("user.id"), id, { hint: t("user.look.hint") }), button(t("user.look"), { type: "submit" }));
  return page({ title: t("nav.users"), text: t("users.text") }, card(null, look),
    filters([{ name: "status", label: t("event.status"), options: STATUSES.map((one) => [one, t(`userStatus.${one}`)]) }], values, () => list.reload()),
    list.element);
}

/** Null where the registry does not know them. */
async function statusOf(userId, signal) {
  const { items } = await api.get("/v1/admin/search", { q: userId }, { signal });
  return items.find((hit) => hit.kind === "USER" && hit.id === userId)?.status ?? null;
}

export async function userPage({ parameters, signal }) {
  const { userId } = parameters;
  const status = await statusOf(userId, signal);
  const path = `/v1/admin/users/${part(userId)}`;
  const marks = h("div", { class: "row" });
  const mark = (value) => replace(marks, value ? statusMark("userStatus", value) : h("span", { class: "muted" }, t("user.unknown")));
  mark(status);
  const change = mayOperate() && button(t("user.setStatus"), { data: { action: "status" }, click: async () => {
    const choice = select(STATUSES.map((one) => [one, t(`userStatus.${one}`)]), { name: "status", value: status ?? "ACTIVE" });
    const done = await ask({
      title: t("user.setStatus"), text: t("user.setStatus.text", { user: userId }), confirm: t("action.save"),
      fields: [field(t("event.status"), choice, { name: "status" })],
      run: (body) => api.put(path, { status: body.status }),
    });
    if (!done) return;
    say(t("user.setStatus.done"));
    mark(done.answer.status);
  } });
  const event = h("input", { name: "eventId", required: true, maxlength: 64, autocomplete: "off", spellcheck: "false" });
  const why = h("form", { class: "inline-form", on: { submit: (submit) => {
    submit.preventDefault();
    if (event.value.trim()) navigate(link`/events/${event.value.trim()}/users/${userId}`);
  } } }, field(t("event.id"), event, { hint: t("why.event.hint") }), button(t("why.look"), { type: "submit" }));
  const requests = pagedTable({
    label: t("requests.title"),
    columns: [
      { title: t("event.title"), cell: (request) => eventLink(request.eventId) },
      { title: t("event.status"), cell: (request) => statusMark("requestStatus", request.status) },
      { title: t("request.result"), cell: (request) => named("resultCode", request.resultCode) },
      { title: t("request.position"), align: "end", cell: (request) => number(request.position) },
      { title: t("request.requestedAt"), cell: (request) => moment(request.requestedAt) },
      { title: t("request.id"), cell: (request) => requestLink(request.requestId) },
    ],
    load: (cursor) => api.page(`${path}/requests`, { limit: 10 }, cursor, { signal }),
    empty: emptyState(t("user.noRequests")),
  });
  const claims = pagedTable({
    label: t("nav.claims"),
    columns: [
      { title: t("claim.id"), cell: (claim) => claimLink(claim.requestId) },
      { title: t("event.title"), cell: (claim) => eventLink(claim.eventId) },
      { title: t("event.status"), cell: (claim) => statusMark("claimStatus", claim.status) },
      { title: t("claim.updatedAt"), cell: (claim) => moment(claim.updatedAt) },
    ],
    load: (cursor) => api.page("/v1/admin/claims", { userId, limit: 10 }, cursor, { signal }),
    empty: emptyState(t("user.noClaims")),
  });
  const coupons = pagedTable({
    label: t("nav.coupons"), columns: userCouponColumns(false),
    load: (cursor) => api.page(`${path}/coupons`, { limit: 10 }, cursor, { signal }),
    empty: emptyState(t("user.noCoupons")),
  });
  return page({ title: userId, back: ["#/users", t("nav.users")], marks, actions: change ? [change] : null },
    card(t("why.title"), why),
    card(t("requests.title"), requests.element),
    card(t("nav.claims"), claims.element),
    card(t("nav.allocations"), allocationsTable({ memberId: userId, limit: 10 }, signal, { withMember: false }).element),
    card(t("nav.coupons"), coupons.element),
    card(t("nav.accounts"), accountsTable({ ownerId: userId }, signal).element));
}
