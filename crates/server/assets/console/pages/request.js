// One request: where it stands, and how it came there.

import { api, part } from "/assets/base/api.js";
import { duration, number, precise } from "/assets/base/format.js";
import { named, t } from "/assets/base/i18n.js";
import { link } from "/assets/base/router.js";
import { card, facts, idText, moment, timeline, toneOf } from "/assets/base/ui.js";
import { h } from "/assets/base/dom.js";
import { page } from "/assets/console/frame.js";
import { eventLink, raw, statusMark, userLink } from "/assets/console/marks.js";
import { allocationsTable } from "/assets/console/pages/allocations.js";

/** Moves as the API lists them: [{ from, to, at }]. */
export function moves(list, group) {
  return timeline(list.map((move, index) => ({
    title: named(group, move.to), tone: toneOf(move.to), at: precise(move.at),
    text: index > 0 ? `+ ${duration(move.at - list[index - 1].at)}` : null,
  })));
}

export async function requestPage({ parameters, signal }) {
  const request = await api.get(`/v1/admin/requests/${part(parameters.requestId)}`, {}, { signal });
  const won = allocationsTable({ eventId: request.eventId, memberId: request.userId }, signal, { withEvent: false, withMember: false });
  return page({ title: t("request.title"), back: [link`/events/${request.eventId}`, request.eventId], marks: [statusMark("requestStatus", request.status), h("code", {}, request.requestId)] },
    h("div", { class: "columns" },
      card(t("request.facts"), facts([
        [t("event.title"), eventLink(request.eventId)],
        [t("request.user"), userLink(request.userId)],
        [t("request.result"), named("resultCode", request.resultCode)],
        [t("request.position"), number(request.position)],
        [t("request.ahead"), number(request.ahead)],
        [t("request.requestedAt"), moment(request.requestedAt)],
        request.receipt && [t("request.receipt"), h("code", {}, request.receipt)],
        [t("key.title"), idText(request.idempotencyKey)],
      ]), h("p", {}, h("a", { href: link`/events/${request.eventId}/users/${request.userId}` }, t("why.title")))),
      card(t("timeline.title"), moves(request.timeline, "requestStatus"))),
    card(t("request.won"), won.element), raw(request));
}
