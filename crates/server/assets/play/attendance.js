// Checking in: the month, the days in a row, and what they lead to.

import { part } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { language, t } from "/assets/base/i18n.js";
import { card } from "/assets/base/ui.js";
import { read, send } from "/assets/play/calls.js";
import { now, nowAndThen } from "/assets/play/clock.js";
import { actionButton, bar, deliveries, outcome } from "/assets/play/pieces.js";
import { picture } from "/assets/play/pictures.js";
import { rewardChip, rewardOf } from "/assets/play/rewards.js";
import { troublePanel } from "/assets/play/trouble.js";

const AGAIN = 60_000;

/** The weeks of a day's month, Sunday first; null where another month's day would be. */
function weeksOf(today) {
  const [year, month] = today.split("-").map(Number);
  const first = new Date(Date.UTC(year, month - 1, 1)).getUTCDay();
  const length = new Date(Date.UTC(year, month, 0)).getUTCDate();
  const cells = [...Array(first).fill(null), ...Array.from({ length }, (_, index) => `${today.slice(0, 8)}${String(index + 1).padStart(2, "0")}`)];
  while (cells.length % 7) cells.push(null);
  return Array.from({ length: cells.length / 7 }, (_, week) => cells.slice(week * 7, week * 7 + 7));
}

function month(calendar) {
  const days = new Set(calendar.days);
  const at = new Date(`${calendar.today}T12:00:00Z`);
  const title = new Intl.DateTimeFormat(language(), { year: "numeric", month: "long", timeZone: "UTC" }).format(at);
  const weekday = (index) => {
    const date = new Date(Date.UTC(2024, 8, 1 + index));
    const name = (style) => new Intl.DateTimeFormat(language(), { weekday: style, timeZone: "UTC" }).format(date);
    return h("th", { scope: "col", abbr: name("long") }, name("narrow"));
  };
  const cell = (day) => {
    if (!day) return h("td", {});
    const done = days.has(day);
    const today = day === calendar.today;
    return h("td", { class: `${done ? "done" : ""} ${today ? "today" : ""}`.trim() || undefined, "aria-current": today ? "date" : undefined },
      h("span", { class: "day" }, done ? picture("won", 18) : String(Number(day.slice(8)))),
      h("span", { class: "visually-hidden" }, done ? `${Number(day.slice(8))} ${t("attendance.done")}` : today ? t("attendance.today") : ""));
  };
  return h("table", { class: "month" }, h("caption", {}, title),
    h("thead", {}, h("tr", {}, Array.from({ length: 7 }, (_, index) => weekday(index)))),
    h("tbody", {}, weeksOf(calendar.today).map((week) => h("tr", {}, week.map(cell)))));
}

/** The milestone that comes next, and those that are behind. */
function milestones(event, calendar) {
  const { count, bonus = [] } = event.attendance;
  const have = count === "STREAK" ? calendar.streak : calendar.totalDays;
  return h("ul", { class: "milestones" }, [...bonus].sort((one, other) => one.days - other.days).map(({ days, rewardId }) => {
    const reached = have >= days;
    const text = t(count === "STREAK" ? "attendance.inARow" : "attendance.inAll", { count: days });
    return h("li", { class: reached ? "done" : undefined },
      h("div", { class: "row apart" }, h("span", {}, text), rewardChip(rewardOf(event, rewardId))),
      bar(Math.min(have, days), days, t("attendance.progress", { have: Math.min(have, days), days })),
      h("span", { class: "small-text muted" }, reached ? t("attendance.reached") : t("attendance.progress", { have: Math.min(have, days), days })));
  }));
}

export async function attendancePart(event, { signal }) {
  const path = `/v1/events/${part(event.eventId)}/attendance`;
  let calendar = await read(path, {}, { signal });
  const figures = h("div", { class: "streak" });
  const trouble = h("div", {});
  const waiting = h("p", { class: "muted small-text", role: "status" });
  const result = h("div", { class: "result", role: "status", "aria-live": "polite" });
  const monthPlace = h("div", {});
  const bonusPlace = h("div", {});
  const action = actionButton("", checkIn);

  function show() {
    replace(figures, h("div", { class: `flame ${calendar.streak > 0 ? "lit" : ""}` }, picture("flame", 40)),
      h("div", {}, h("p", { class: "streak-figure" }, t("attendance.streak", { count: calendar.streak })), h("p", { class: "muted" }, t("attendance.total", { count: calendar.totalDays }))));
    replace(monthPlace, month(calendar));
    replace(bonusPlace, milestones(event, calendar));
    const at = now();
    const open = event.status === "OPEN" && at >= event.startsAt && at < event.endsAt;
    action.set(open && !calendar.checkedInToday, t(calendar.checkedInToday ? "attendance.already" : open ? "attendance.checkIn" : at < event.startsAt ? "apply.soon" : "apply.over"));
  }

  async function checkIn() {
    replace(trouble);
    try {
      const done = await send(path, { signal, waiting: () => { waiting.textContent = t("apply.retrying"); } });
      calendar = await read(path, {}, { signal });
      const ids = done.allocations.map((row) => row.allocationId);
      replace(result, outcome({ tone: "good", mark: "won", title: t("attendance.thanks"), text: t("attendance.streak", { count: done.streak }), children: ids.length ? [deliveries(event, ids, signal)] : [] }));
    } catch (error) {
      if (error.name === "AbortError") return;
      replace(trouble, troublePanel(error, { retry: () => action.element.click() }));
    } finally {
      waiting.textContent = "";
      show();
    }
  }

  show();
  // A page that stays open sees the next day begin.
  nowAndThen(async () => {
    calendar = await read(path, {}, { signal }).catch(() => calendar);
    show();
  }, AGAIN, signal);
  return [
    h("section", { class: "panel main-panel", "aria-label": t("attendance.label") }, figures, action.element, waiting, trouble, result),
    h("div", { class: "columns" }, card(null, monthPlace, h("p", { class: "muted small-text" }, t("attendance.zone", { zone: calendar.timeZone }))), card(t("attendance.bonus"), bonusPlace)),
  ];
}
