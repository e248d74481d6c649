// Why somebody did or did not get it: for whoever has them on the telephone.

import { api, part } from "/assets/base/api.js";
import { h } from "/assets/base/dom.js";
import { dateTime, number } from "/assets/base/format.js";
import { has, named, t } from "/assets/base/i18n.js";
import { link } from "/assets/base/router.js";
import { badge, card, facts, moment } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { allocationLink, claimLink, codeText, eventLink, raw, requestLink, statusMark, userLink } from "/assets/console/marks.js";

const TONES = { GOT: "good", PARTLY_GOT: "warn", ON_ITS_WAY: "warn", NOT_GOT: "bad", NEVER_ASKED: "quiet" };
const REASON_TONES = { good: ["WON", "DELIVERED", "CLAIM_GRANTED", "TOOK_PART"], warn: ["IN_LINE", "NOT_DRAWN_YET", "CLAIM_GOES_ON", "DELIVERY_WAITS", "DELIVERY_RETRIED", "CLAIM_PARTLY_GRANTED", "BONUS_NOT_REACHED"], quiet: ["DID_NOT_ASK", "EVENT_NOT_STARTED", "EVENT_NOT_OPENED"] };
const toneOf = (code) => Object.entries(REASON_TONES).find(([, codes]) => codes.includes(code))?.[0] ?? "bad";

/** The facts in the words of a sentence. */
function values(found) {
  const said = {};
  for (const [name, value] of Object.entries(found)) {
    if (value === null || value === undefined) said[name] = "–";
    else if (name === "at" || name.endsWith("At")) said[name] = dateTime(value);
    else said[name] = value;
  }
  if (found.status) said.status = has(`claimStatus.${found.status}`) ? t(`claimStatus.${found.status}`) : named("userStatus", found.status);
  if (found.step) said.step = named("sagaStep", found.step);
  if (found.resultCode) said.resultCode = named("resultCode", found.resultCode);
  if (found.count) said.countKind = t(`attendanceCount.${found.count}`);
  delete said.count;
  return said;
}

function reasonCard(reason) {
  const found = reason.facts;
  const sentence = t(`reason.${reason.code}`, values(found));
  const advice = has(`reason.${reason.code}.do`) && t(`reason.${reason.code}.do`);
  const behind = [
    found.requestId && [t("why.record"), reason.code.startsWith("CLAIM") ? claimLink(found.requestId) : requestLink(found.requestId)],
    found.allocationId && [t("why.record"), allocationLink(found.allocationId)],
    found.position && [t("request.position"), number(found.position)],
    found.errorCode && [t("error.code"), codeText(found.errorCode)],
    found.errorMessage && [t("why.message"), found.errorMessage],
    found.failureReason && [t("error.code"), codeText(found.failureReason)],
    found.failureMessage && [t("why.message"), found.failureMessage],
    found.transactionId && [t("claim.transaction"), h("code", {}, found.transactionId)],
    found.nextRetryAt && [t("allocation.next"), moment(found.nextRetryAt)],
    found.at && [t("why.when"), moment(found.at)],
  ].filter(Boolean);
  return h("li", { class: `reason tone-${toneOf(reason.code)}`, data: { reason: reason.code } },
    h("p", { class: "reason-text" }, sentence), advice && h("p", { class: "muted" }, advice), behind.length > 0 && facts(behind));
}

export async function whyPage({ parameters, signal }) {
  const { eventId, userId } = parameters;
  const found = await api.get(`/v1/admin/events/${part(eventId)}/users/${part(userId)}`, {}, { signal });
  return page({ title: t("why.title"), back: [link`/events/${eventId}`, found.event.name] },
    h("section", { class: `card verdict tone-${TONES[found.verdict]}` },
      h("div", { class: "row" }, badge(t(`verdict.${found.verdict}`), TONES[found.verdict])),
      h("p", { class: "verdict-text", data: { verdict: found.verdict } }, t(`verdict.${found.verdict}.text`, { user: userId, event: found.event.name })),
      facts([
        [t("request.user"), userLink(userId)],
        [t("user.status"), found.userStatus ? statusMark("userStatus", found.userStatus) : t("user.unknown")],
        [t("event.title"), eventLink(eventId, found.event.name)],
        [t("event.status"), statusMark("eventStatus", found.event.status)],
      ])),
    card(t("why.reasons"), h("ol", { class: "reasons" }, found.reasons.map(reasonCard))),
    raw(found));
}
