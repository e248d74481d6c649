// Times and numbers as people of the page's language write them.

import { language, t } from "/assets/base/i18n.js";

const made = new Map();

/** The page's language, in the manner of the country that the browser names with it. */
function locale() {
  return navigator.languages?.find((tag) => tag.startsWith(language())) ?? language();
}

function format(Kind, options) {
  const key = `${Kind.name} ${locale()} ${JSON.stringify(options)}`;
  if (!made.has(key)) made.set(key, new Kind(locale(), options));
  return made.get(key);
}

const NONE = "–";

export function number(value) {
  return value === null || value === undefined ? NONE : format(Intl.NumberFormat, {}).format(value);
}

export function compact(value) {
  if (value === null || value === undefined) return NONE;
  return format(Intl.NumberFormat, { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

export function percent(part) {
  if (part === null || part === undefined || Number.isNaN(part)) return NONE;
  return format(Intl.NumberFormat, { style: "percent", maximumFractionDigits: part < 0.1 ? 2 : 1 }).format(part);
}

/** An amount as the API writes it, a number or a decimal in a string, with its currency. */
export function amount(value, currency) {
  if (value === null || value === undefined) return NONE;
  const shown = format(Intl.NumberFormat, { maximumFractionDigits: 12 }).format(value);
  return currency ? `${shown} ${currency}` : shown;
}

export function dateTime(millis) {
  if (millis === null || millis === undefined) return NONE;
  return format(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "medium" }).format(millis);
}

/** To the millisecond: for timelines, where two things happen in one second. */
export function precise(millis) {
  if (millis === null || millis === undefined) return NONE;
  const options = { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" };
  return format(Intl.DateTimeFormat, options).format(millis);
}

export function date(millis) {
  if (millis === null || millis === undefined) return NONE;
  return format(Intl.DateTimeFormat, { dateStyle: "medium" }).format(millis);
}

const STEPS = [["day", 86_400_000], ["hour", 3_600_000], ["minute", 60_000], ["second", 1_000]];

/** "in 3 minutes", "2 days ago" */
export function relative(millis, now = Date.now()) {
  if (millis === null || millis === undefined) return NONE;
  const difference = millis - now;
  const [unit, length] = STEPS.find(([, length]) => Math.abs(difference) >= length) ?? STEPS[3];
  return format(Intl.RelativeTimeFormat, { numeric: "auto" }).format(Math.round(difference / length), unit);
}

/** How long something took. */
export function duration(millis) {
  if (millis === null || millis === undefined) return NONE;
  if (millis < 1_000) return t("unit.ms", { value: number(Math.round(millis)) });
  if (millis < 60_000) return t("unit.s", { value: number(Math.round(millis / 100) / 10) });
  if (millis < 3_600_000) return t("unit.min", { value: number(Math.round(millis / 6_000) / 10) });
  return t("unit.h", { value: number(Math.round(millis / 360_000) / 10) });
}

/** "12:03", "1 d 04:12:03": what is left until a moment. */
export function countdown(millis) {
  const seconds = Math.max(0, Math.ceil(millis / 1_000));
  const two = (value) => String(value).padStart(2, "0");
  const [days, hours, minutes] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3_600) % 24, Math.floor(seconds / 60) % 60];
  const clock = hours > 0 || days > 0 ? `${two(hours)}:${two(minutes)}:${two(seconds % 60)}` : `${two(minutes)}:${two(seconds % 60)}`;
  return days > 0 ? `${t("unit.days", { value: number(days) })} ${clock}` : clock;
}

/** For <input type="datetime-local">, in the browser's zone. */
export function toLocalInput(millis) {
  const moment = new Date(millis);
  const two = (value) => String(value).padStart(2, "0");
  const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
  return `${day}T${two(moment.getHours())}:${two(moment.getMinutes())}`;
}

export function fromLocalInput(text) {
  const millis = new Date(text).getTime();
  return Number.isNaN(millis) ? null : millis;
}
