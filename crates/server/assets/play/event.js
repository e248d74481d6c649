// An event's page: what all of them have, and what each type adds.

import { h, replace } from "/assets/base/dom.js";
import { t } from "/assets/base/i18n.js";
import { part } from "/assets/base/api.js";
import { attendancePart } from "/assets/play/attendance.js";
import { read } from "/assets/play/calls.js";
import { claimPart } from "/assets/play/claim.js";
import { gamePart } from "/assets/play/game.js";
import { linePart } from "/assets/play/line.js";
import { picture } from "/assets/play/pictures.js";
import { shortTime } from "/assets/play/pieces.js";
import { rewardList } from "/assets/play/rewards.js";

const PARTS = { FIRST_COME: linePart, LOTTERY: linePart, CLAIM: claimPart, ATTENDANCE: attendancePart, RANDOM: gamePart };

export async function eventPage({ parameters, signal }) {
  const event = await read(`/v1/events/${part(parameters.id)}`, {}, { signal });
  const body = h("div", { class: "event-body" });
  const page = h("article", { class: `event type-${event.type}` },
    h("a", { class: "back", href: "#/" }, `← ${t("tab.events")}`),
    h("header", { class: "event-head" },
      h("div", { class: "event-kind" }, h("span", { class: "event-mark" }, picture(event.type, 22)), h("span", {}, t(`type.${event.type}`))),
      h("h1", {}, event.name),
      rewardList(event.rewards),
      h("p", { class: "muted small-text" }, t("event.period", { from: shortTime(event.startsAt), to: shortTime(event.endsAt) }))),
    body);
  replace(body, await PARTS[event.type](event, { signal }));
  return page;
}
