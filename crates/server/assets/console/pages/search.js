// What an id is the id of.

import { api } from "/assets/base/api.js";
import { h } from "/assets/base/dom.js";
import { t } from "/assets/base/i18n.js";
import { link } from "/assets/base/router.js";
import { emptyState, table } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { eventLink, statusMark, userLink } from "/assets/console/marks.js";

const PLACES = {
  EVENT: (id) => link`/events/${id}`,
  REQUEST: (id) => link`/requests/${id}`,
  CLAIM: (id) => link`/claims/${id}`,
  ALLOCATION: (id) => link`/allocations/${id}`,
  COUPON: (id) => link`/coupons/${id}`,
  USER_COUPON: (id) => link`/user-coupons/${id}`,
  TRANSFER: (id) => link`/transfers/${id}`,
  ACCOUNT: (id) => link`/accounts/${id}`,
  MESSAGE: (id) => link`/outbox/${id}`,
  USER: (id) => link`/users/${id}`,
};
const GROUPS = { EVENT: "eventStatus", REQUEST: "requestStatus", CLAIM: "claimStatus", ALLOCATION: "allocationStatus", USER_COUPON: "userCouponStatus", MESSAGE: "messageStatus", USER: "userStatus", ACCOUNT: "accountStatus", IDEMPOTENCY_KEY: "keyStatus" };

export async function searchPage({ query, signal }) {
  const text = query.q ?? "";
  const title = t("search.title", { text });
  if (!text) return page({ title: t("search.label") }, h("div", { class: "list" }, emptyState(t("search.nothing"), t("search.hint"))));
  const { items } = await api.get("/v1/admin/search", { q: text }, { signal });
  if (items.length === 0) return page({ title }, h("div", { class: "list" }, emptyState(t("search.nothing"), t("search.hint"))));
  return page({ title }, h("div", { class: "list" }, table([
    { title: t("search.kind"), cell: (hit) => h("strong", {}, t(`kind.${hit.kind}`)) },
    { title: t("search.id"), cell: (hit) => (PLACES[hit.kind] ? h("a", { class: "id", href: PLACES[hit.kind](hit.id) }, hit.id) : h("code", {}, hit.id)) },
    { title: t("search.name"), cell: (hit) => hit.name ?? "–" },
    { title: t("event.status"), cell: (hit) => (hit.status ? statusMark(GROUPS[hit.kind] ?? "", hit.status) : "–") },
    { title: t("event.title"), cell: (hit) => eventLink(hit.eventId) },
    { title: t("request.user"), cell: (hit) => userLink(hit.userId) },
  ], items, { label: title }).element));
}
