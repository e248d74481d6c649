// A new event: a form for each type, every field with what it means.

import { api, ApiError } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { fromLocalInput, toLocalInput } from "/assets/base/format.js";
import { t } from "/assets/base/i18n.js";
import { link, navigate } from "/assets/base/router.js";
import { mayOperate } from "/assets/base/session.js";
import { button, card, emptyState, field, problemPanel, say, select, showFaults } from "/assets/base/ui.js";
import { page } from "/assets/console/frame.js";
import { TYPES } from "/assets/console/pages/events.js";

const DAY = 86_400_000;
const number = (input) => (input.value.trim() === "" ? undefined : Number(input.value));
const text = (input) => input.value.trim() || undefined;

function numberInput(name, more = {}) {
  return h("input", { type: "number", name, inputmode: "numeric", min: 1, step: 1, ...more });
}

export function eventFormPage() {
  const title = t("events.new");
  if (!mayOperate()) return page({ title }, h("div", { class: "list" }, emptyState(t("readOnly.title"), t("readOnly.text"))));
  const now = Date.now();
  const inputs = {
    eventId: h("input", { name: "eventId", required: true, maxlength: 64, pattern: "[A-Za-z0-9_.]+", autocomplete: "off", spellcheck: "false", class: "mono" }),
    name: h("input", { name: "name", required: true, maxlength: 200, autocomplete: "off" }),
    startsAt: h("input", { type: "datetime-local", name: "startsAt", required: true, value: toLocalInput(now) }),
    endsAt: h("input", { type: "datetime-local", name: "endsAt", required: true, value: toLocalInput(now + 7 * DAY) }),
  };
  const type = select(TYPES.map((one) => [one, t(`eventType.${one}`)]), { name: "type" });
  const explained = h("p", { class: "hint" });
  const special = h("div", { class: "fields" });
  const rewards = rewardRows();
  const fault = h("div", {});
  const submit = button(t("event.create"), { kind: "primary", type: "submit" });
  let ofType = null;

  function choose() {
    explained.textContent = t(`eventType.${type.value}.text`);
    ofType = PARTS[type.value]();
    replace(special, ofType.fields);
  }
  type.addEventListener("change", choose);
  choose();

  const form = h("form", { class: "stack", on: { submit: async (event) => {
    event.preventDefault();
    submit.disabled = true;
    const body = {
      eventId: text(inputs.eventId), name: text(inputs.name), type: type.value,
      startsAt: fromLocalInput(inputs.startsAt.value), endsAt: fromLocalInput(inputs.endsAt.value),
      rewards: rewards.read(), ...ofType.read(),
    };
    try {
      const made = await api.post("/v1/admin/events", body);
      say(t("event.created"));
      navigate(link`/events/${made.eventId}`);
    } catch (error) {
      const homeless = error instanceof ApiError ? showFaults(form, error.fields) : [];
      const shown = error instanceof ApiError && error.fields.length > 0 && homeless.length === 0;
      replace(fault, !shown && problemPanel(error));
    } finally {
      submit.disabled = false;
    }
  } } },
  card(t("form.what"),
    h("div", { class: "fields" },
      h("div", { class: "full" }, field(t("event.type"), type, { name: "type" }), explained),
      field(t("event.name"), inputs.name, { name: "name", hint: t("form.name.hint") }),
      field(t("event.id"), inputs.eventId, { name: "eventId", hint: t("form.eventId.hint") }))),
  card(t("form.when"),
    h("div", { class: "fields" },
      field(t("event.startsAt"), inputs.startsAt, { name: "startsAt", hint: t("form.startsAt.hint") }),
      field(t("event.endsAt"), inputs.endsAt, { name: "endsAt", hint: t("form.endsAt.hint") }))),
  card(t("form.rules"), special),
  card(t("event.rewards"), h("p", { class: "hint muted" }, t("form.rewards.hint")), rewards.element),
  fault,
  h("div", { class: "row" }, submit, h("a", { class: "button", href: "#/events" }, t("action.back"))));
  return page({ title, text: t("form.text"), back: ["#/events", t("nav.events")] }, form);
}

const zones = () => field(t("event.timeZone"), h("input", { name: "timeZone", value: Intl.DateTimeFormat().resolvedOptions().timeZone, autocomplete: "off" }), { name: "attendance.timeZone", hint: t("form.timeZone.hint") });

/** What each type needs beside the common fields: its fields, and how they are read. */
const PARTS = {
  FIRST_COME() {
    const capacity = numberInput("capacityTotal", { required: true, value: "100" });
    return { fields: [field(t("event.capacityTotal"), capacity, { name: "capacityTotal", hint: t("form.capacity.first.hint") })], read: () => ({ capacityTotal: number(capacity) }) };
  },
  LOTTERY() {
    const capacity = numberInput("capacityTotal", { required: true, value: "100" });
    const cutoff = h("input", { type: "datetime-local", name: "lotteryCutoffAt", required: true, value: toLocalInput(Date.now() + 6 * DAY) });
    const source = h("input", { name: "publicNonceSource", maxlength: 200, autocomplete: "off" });
    return {
      fields: [
        field(t("event.winners"), capacity, { name: "capacityTotal", hint: t("form.capacity.lottery.hint") }),
        field(t("event.lotteryCutoffAt"), cutoff, { name: "lotteryCutoffAt", hint: t("form.cutoff.hint") }),
        field(t("draw.source"), source, { name: "publicNonceSource", hint: t("form.nonce.hint"), optional: true }),
      ],
      read: () => ({ capacityTotal: number(capacity), lotteryCutoffAt: fromLocalInput(cutoff.value), publicNonceSource: text(source) }),
    };
  },
  CLAIM() {
    const conditions = h("textarea", { name: "conditions", class: "mono", rows: 3, maxlength: 2000, spellcheck: "false", placeholder: "activity.LEVEL >= 10" });
    const policy = select(["ALL_OR_NOTHING", "PARTIAL"].map((one) => [one, t(`grantPolicy.${one}`)]), { name: "grantPolicy" });
    return {
      fields: [
        h("div", { class: "full" }, field(t("event.conditions"), conditions, { name: "conditions", hint: t("form.conditions.hint"), optional: true })),
        field(t("event.grantPolicy"), policy, { name: "grantPolicy", hint: t("form.policy.hint") }),
      ],
      read: () => ({ conditions: text(conditions), grantPolicy: policy.value }),
    };
  },
  ATTENDANCE() {
    const zone = zones();
    const count = select(["TOTAL", "STREAK"].map((one) => [one, t(`attendanceCount.${one}`)]), { name: "count" });
    const daily = h("input", { name: "daily", class: "mono", autocomplete: "off" });
    const bonus = h("textarea", { name: "bonus", class: "mono", rows: 3, spellcheck: "false", placeholder: "7 weekly_gift" });
    return {
      fields: [
        field(t("event.daily"), daily, { name: "attendance.daily", hint: t("form.daily.hint"), optional: true }),
        field(t("event.count"), count, { name: "attendance.count", hint: t("form.count.hint") }),
        field(t("event.bonus"), bonus, { name: "attendance.bonus", hint: t("form.bonus.hint"), optional: true }),
        zone,
      ],
      read: () => ({ attendance: {
        timeZone: text(zone.querySelector("input")), count: count.value, daily: text(daily),
        bonus: bonus.value.split("\n").map((line) => line.trim().split(/\s+/)).filter(([days]) => days).map(([days, rewardId]) => ({ days: Number(days), rewardId: rewardId ?? "" })),
      } }),
    };
  },
  RANDOM() {
    const zone = zones();
    zone.dataset.field = "random.timeZone";
    const perDay = numberInput("perDay", { value: "1" });
    const perUser = numberInput("perUser");
    const prizes = h("textarea", { name: "prizes", class: "mono", rows: 4, spellcheck: "false", placeholder: "gift 1\n- 99" });
    return {
      fields: [
        h("div", { class: "full" }, field(t("event.odds"), prizes, { name: "random.prizes", hint: t("form.prizes.hint") })),
        field(t("event.perDay"), perDay, { name: "random.perDay", hint: t("form.perDay.hint"), optional: true }),
        field(t("event.perUser"), perUser, { name: "random.perUser", hint: t("form.perUser.hint"), optional: true }),
        zone,
      ],
      read: () => ({ random: {
        timeZone: text(zone.querySelector("input")), perDay: number(perDay), perUser: number(perUser),
        prizes: prizes.value.split("\n").map((line) => line.trim().split(/\s+/)).filter(([name]) => name).map(([name, weight]) => ({ rewardId: name === "-" ? null : name, weight: Number(weight) })),
      } }),
    };
  },
};

/** Rewards, one box each. */
function rewardRows() {
  const place = h("div", { class: "stack" });
  const rows = new Set();

  function add() {
    const kind = select(["POINT", "COUPON", "ITEM"].map((one) => [one, t(`reward.${one}`)]), { name: "kind" });
    const id = h("input", { name: "rewardId", required: true, maxlength: 64, pattern: "[A-Za-z0-9_.]+", class: "mono", autocomplete: "off", value: rows.size === 0 ? "points" : "" });
    const amount = h("input", { name: "amount", inputmode: "decimal", required: true, value: "1000", pattern: "[0-9]+([.][0-9]+)?" });
    const currency = h("input", { name: "currency", required: true, value: "POINT", maxlength: 16, class: "mono", autocomplete: "off" });
    const coupon = h("input", { name: "couponId", required: true, maxlength: 64, class: "mono", autocomplete: "off" });
    const provider = h("input", { name: "provider", maxlength: 64, class: "mono", autocomplete: "off" });
    const stock = numberInput("totalStock");
    const special = h("div", { class: "contents" });
    const box = h("fieldset", { class: "reward" });
    const row = { read: () => ({
      rewardId: text(id), kind: kind.value, totalStock: number(stock),
      ...(kind.value === "POINT" ? { amount: Number(amount.value), currency: text(currency) } : {}),
      ...(kind.value === "COUPON" ? { couponId: text(coupon) } : {}),
      ...(kind.value === "ITEM" ? { provider: text(provider) } : {}),
    }) };
    const at = (name) => `rewards[${[...rows].indexOf(row)}].${name}`;
    function choose() {
      const fields = {
        POINT: [field(t("reward.amount"), amount, { hint: t("form.amount.hint") }), field(t("reward.currency"), currency)],
        COUPON: [field(t("coupon.id"), coupon, { hint: t("form.coupon.hint") })],
        ITEM: [field(t("reward.provider"), provider, { hint: t("form.provider.hint"), optional: true })],
      }[kind.value];
      replace(special, fields);
      for (const [name, control] of Object.entries({ amount, currency, couponId: coupon, provider })) {
        const home = control.closest(".field");
        if (home) home.dataset.field = at(name);
      }
    }
    rows.add(row);
    kind.addEventListener("change", choose);
    const remove = button(t("form.reward.remove"), { kind: "quiet small", click: () => {
      rows.delete(row);
      box.remove();
      more.focus();
    } });
    replace(box, h("legend", { class: "visually-hidden" }, t("event.reward")),
      h("div", { class: "fields" },
        field(t("reward.kind"), kind, { name: at("kind") }), field(t("reward.id"), id, { name: at("rewardId"), hint: t("form.rewardId.hint") }), special,
        field(t("reward.stock"), stock, { name: at("totalStock"), hint: t("form.stock.hint"), optional: true })),
      remove);
    choose();
    place.append(box);
    return box;
  }

  const more = button(t("form.reward.add"), { click: () => add().querySelector("select").focus() });
  add();
  return { element: h("div", { class: "stack" }, place, h("div", {}, more)), read: () => [...rows].map((row) => row.read()) };
}
