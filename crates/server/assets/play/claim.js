// Claiming an event's rewards: all of them or none, and every step of the way to be seen.

import { part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { precise } from "/assets/base/format.js";
import { has, named, t } from "/assets/base/i18n.js";
import { card, facts, timeline } from "/assets/base/ui.js";
import { once, read } from "/assets/play/calls.js";
import { everyTick, now, nowAndThen } from "/assets/play/clock.js";
import { actionButton, outcome } from "/assets/play/pieces.js";
import { rewardChip, rewardOf } from "/assets/play/rewards.js";
import { troublePanel } from "/assets/play/trouble.js";

const AGAIN = 3_000;
const GRANTED = ["SUCCESS_ALL_GRANTED", "REWARD_PARTIALLY_GRANTED"];
const NEEDS_HAND = "COMPENSATION_FAILED_MANUAL_INTERVENTION_REQUIRED";

const REFUSED = /^VALIDATION_FAILED|^CONDITION_NOT_MET|^CONDITION_CHECK_FAILED|^INVENTORY_ALLOCATION_(FAILED|ERROR$)|^FAILED_ROLLED_BACK/;

function isEnded(claim) {
  return GRANTED.includes(claim.status) || claim.status === NEEDS_HAND || REFUSED.test(claim.status);
}

export async function claimPart(event, { signal }) {
  let claim = (await read("/v1/me/claims", { eventId: event.eventId, limit: 1 }, { signal })).items[0] ?? null;
  const trouble = h("div", {});
  const waiting = h("p", { class: "muted small-text", role: "status" });
  const result = h("div", { class: "result", role: "status", "aria-live": "polite" });
  const way = h("div", {});
  const action = actionButton("", take);

  function tick(at) {
    const left = event.rewards.filter((reward) => reward.remainingStock !== undefined).every((reward) => reward.remainingStock > 0);
    const open = event.status === "OPEN" && at < event.endsAt;
    if (claim && GRANTED.includes(claim.status)) action.set(false, t("claim.already"));
    else if (claim && !isEnded(claim)) action.set(false, t("claim.pending"));
    else if (at < event.startsAt) action.set(false, t("apply.soon"));
    else if (!open) action.set(false, t("apply.over"));
    else if (!left) action.set(false, t("event.soldOut"));
    else action.set(true, t(claim ? "claim.again" : "claim.take"));
  }

  async function take() {
    replace(trouble);
    try {
      claim = await once(`claim.${event.eventId}`, `/v1/event-claims/${part(event.eventId)}/claim`, { signal, waiting: () => { waiting.textContent = t("apply.retrying"); } });
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.problem?.claim) claim = error.problem.claim;
      else replace(trouble, troublePanel(error, { retry: () => action.element.click() }));
    } finally {
      waiting.textContent = "";
      show();
    }
  }

  function verdict() {
    if (GRANTED.includes(claim.status)) {
      const granted = claim.rewardsToProcess.filter((reward) => reward.grantStatus === "SUCCESS");
      return outcome({ tone: "good", mark: "won", title: t(`claim.${claim.status}`), text: t("claim.granted.text"),
        children: h("ul", { class: "chips" }, granted.map((reward) => h("li", {}, rewardChip(rewardOf(event, reward.rewardId))))) });
    }
    if (!isEnded(claim)) return outcome({ tone: "accent", mark: "wait", title: t("claim.pending"), text: t("claim.pending.text") });
    const key = `claim.${claim.status}`;
    const checked = claim.checkedDataSnapshot && Object.entries(claim.checkedDataSnapshot);
    return outcome({ tone: "quiet", mark: "lost", title: t(has(key) ? key : "claim.failed"), text: t(has(`${key}.text`) ? `${key}.text` : "claim.failed.text"),
      children: checked?.length ? [facts(checked.map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : String(value)]))] : [] });
  }

  function show() {
    tick(now());
    if (!claim) return;
    replace(result, verdict());
    replace(way, card(t("request.way"), timeline(claim.timeline.map((step) => ({
      title: named("claimStep", step.to), at: precise(step.at), tone: GRANTED.includes(step.to) ? "good" : /FAILED|NOT_MET/.test(step.to) ? "quiet" : "accent" })))));
  }

  everyTick(tick, signal);
  show();
  nowAndThen(async () => {
    if (!claim || isEnded(claim)) return;
    claim = await read(`/v1/claims/${part(claim.requestId)}`, {}, { signal }).catch(() => claim);
    show();
  }, AGAIN, signal);
  return [
    h("section", { class: "panel main-panel", "aria-label": t("claim.label") },
      event.conditions ? h("div", { class: "condition" }, h("p", { class: "muted" }, t("claim.condition")), h("code", {}, event.conditions)) : h("p", { class: "muted" }, t("claim.noCondition")),
      action.element, waiting, trouble, result),
    way,
  ];
}
