// Pieces that pages are put together from.

import { ApiError } from "/assets/base/api.js";
import { append, h, replace, uniqueId } from "/assets/base/dom.js";
import { dateTime, relative } from "/assets/base/format.js";
import { LANGUAGES, has, language, setLanguage, t } from "/assets/base/i18n.js";
import { THEMES, setTheme, theme } from "/assets/base/theme.js";

/** A button. kind: primary | plain | danger | quiet */
export function button(label, { kind = "plain", click, type = "button", ...more } = {}) {
  return h("button", { type, class: `button ${kind}`, on: click ? { click } : {}, ...more }, label);
}

export function linkTo(hash, ...children) {
  return h("a", { href: hash }, ...children);
}

const TONES = {
  good: ["OPEN", "SUCCEEDED", "SUCCESS", "GRANTED", "CONFIRMED", "SENT", "ACTIVE", "COMPLETED", "REWARD_GRANTED", "USED", "ENABLED", "ANNOUNCED", "DONE", "INVENTORY_ALLOCATED", "ISSUED"],
  bad: ["FAILED", "FAILED_FINAL", "DEAD", "BANNED", "FAIL", "NEEDS_INTERVENTION", "DISABLED"],
  warn: ["PENDING", "RETRY", "PROCESSING", "SENDING", "QUEUED", "RECEIVED", "IN_PROGRESS", "NEW", "INACTIVE", "COMPENSATING", "FAILED_RETRYABLE", "RUNNING"],
};

export function toneOf(status) {
  const found = Object.entries(TONES).find(([, names]) => names.includes(status));
  if (found) return found[0];
  if (/^SUCCESS/.test(status ?? "")) return "good";
  if (/^PENDING|PARTIALLY/.test(status ?? "")) return "warn";
  if (/MANUAL|FAILED|NOT_MET/.test(status ?? "")) return "bad";
  return "quiet";
}

/** A status in a few words and a colour that never says it alone. */
export function badge(text, tone = "quiet") {
  return h("span", { class: `badge tone-${tone}` }, text);
}

/** A moment, with how long ago it was. */
export function moment(millis) {
  if (millis === null || millis === undefined) return "–";
  return h("time", { datetime: new Date(millis).toISOString(), title: relative(millis) }, dateTime(millis));
}

/** An id. A long one that leads somewhere is shown by its ends; where it leads, it stands in full. */
export function idText(id, hash) {
  if (id === null || id === undefined || id === "") return "–";
  const text = String(id);
  const shown = text.length > 24 ? `${text.slice(0, 8)}…${text.slice(-6)}` : text;
  return h("span", { class: "id" }, hash ? h("a", { href: hash, title: text }, shown) : h("code", {}, text));
}

/** A field of a form with its label, its explanation, and a place for what is wrong with it. */
export function field(label, control, { hint, name, optional } = {}) {
  const id = control.id || uniqueId("field");
  control.id = id;
  const described = [];
  const parts = [h("label", { for: id }, label, optional && h("span", { class: "optional" }, t("form.optional")))];
  parts.push(control);
  if (hint) {
    const hintId = `${id}-hint`;
    described.push(hintId);
    parts.push(h("p", { class: "hint", id: hintId }, hint));
  }
  const fault = h("p", { class: "fault", id: `${id}-fault`, hidden: true });
  described.push(fault.id);
  control.setAttribute("aria-describedby", described.join(" "));
  return h("div", { class: "field", data: name ? { field: name } : {} }, parts, fault);
}

/** Shows what is wrong beside the fields that are at fault; what has no field here comes back. */
export function showFaults(form, fields) {
  for (const fault of form.querySelectorAll(".fault")) {
    fault.hidden = true;
    fault.parentElement.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
  }
  const homeless = [];
  let first = null;
  for (const { path, reason } of fields) {
    const places = [...form.querySelectorAll("[data-field]")];
    const place = places.find((one) => one.dataset.field === path) ?? places.find((one) => path.startsWith(one.dataset.field));
    if (!place) {
      homeless.push(`${path} ${reason}`);
      continue;
    }
    const fault = place.querySelector(".fault");
    const said = place.dataset.field === path ? reason : `${path} ${reason}`;
    if (language() === "en") fault.textContent = said;
    else replace(fault, t("error.field"), ": ", inEnglish(said));
    fault.hidden = false;
    const control = place.querySelector("input, select, textarea");
    control?.setAttribute("aria-invalid", "true");
    first ??= control;
  }
  first?.focus();
  return homeless;
}

export function select(options, { value, ...more } = {}) {
  return h("select", { value, ...more }, options.map(([name, label]) => h("option", { value: name }, label)));
}

/** What went wrong in a few words of the page's language, by the code that the API gives it. */
export function problemTitle(error) {
  if (!(error instanceof ApiError)) return t("error.title");
  if (error.told) return error.title;
  return has(`problem.${error.code}`) ? t(`problem.${error.code}`) : error.title || t("error.title");
}

/** What the API says, which says it in English. */
function inEnglish(text) {
  return h("span", { lang: "en" }, text);
}

/** What went wrong: in words (not where the page's title says it), what the API said of it, its code, and the id that is in the server's log. */
export function problemPanel(error, { retry, titled = true } = {}) {
  const known = error instanceof ApiError;
  const foreign = known && error.status !== 0 && language() !== "en" && !error.told;
  const text = known ? error.detail : String(error?.message ?? error);
  return h("div", { class: "problem", role: "alert" },
    titled && h("p", { class: "problem-title" }, problemTitle(error)),
    text && h("p", { class: foreign ? "problem-detail" : undefined }, foreign ? inEnglish(text) : text),
    known && h("dl", { class: "problem-facts" },
      h("div", {}, h("dt", {}, t("error.code")), h("dd", {}, h("code", {}, error.code))),
      error.trace && h("div", {}, h("dt", {}, t("error.trace")), h("dd", {}, h("code", {}, error.trace)))),
    retry && button(t("action.retry"), { click: retry }));
}

export function emptyState(title, text, action) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), text && h("p", {}, text), action);
}

export function loading() {
  return h("div", { class: "loading", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), h("span", { class: "visually-hidden" }, t("state.loading")));
}

/** Tells what happened, to those who see it and to those who hear it. */
export function say(text, tone = "good") {
  const place = document.getElementById("notices");
  const notice = h("p", { class: `notice tone-${tone}` }, text);
  place.append(notice);
  setTimeout(() => notice.remove(), 6_000);
}

/**
 * Asks before something is done. Resolves to null when it was called off, otherwise to the form's values.
 *   fields: elements of `field(…)` with names; run(values): does it, and a problem is shown in the dialog
 */
export function ask({ title, text, fields = [], confirm, kind = "primary", run }) {
  return new Promise((resolve) => {
    const titleId = uniqueId("dialog");
    const fault = h("div", {});
    const proceed = button(confirm, { kind, type: "submit" });
    const cancel = button(t("action.back"), { kind: "plain", click: () => dialog.close() });
    const form = h("form", { method: "dialog" },
      h("h2", { id: titleId }, title),
      append(h("div", { class: "dialog-text" }), [text].flat().map((one) => (one instanceof Node ? one : h("p", {}, one)))),
      fields, fault,
      h("div", { class: "dialog-actions" }, cancel, proceed));
    const dialog = h("dialog", { class: "dialog", "aria-labelledby": titleId }, form);
    let outcome = null;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const values = Object.fromEntries(new FormData(form));
      proceed.disabled = true;
      try {
        outcome = { values, answer: await run?.(values) };
        dialog.close();
      } catch (error) {
        const homeless = error instanceof ApiError ? showFaults(form, error.fields) : [];
        const shown = error instanceof ApiError && error.fields.length > 0 && homeless.length === 0;
        replace(fault, !shown && problemPanel(error));
      } finally {
        proceed.disabled = false;
      }
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(outcome);
    });
    document.body.append(dialog);
    dialog.showModal();
    (fields.length > 0 ? form.querySelector("input, select, textarea") : cancel)?.focus();
  });
}

/** From so many lines on a table is laid out in pieces: otherwise each line that is added moves all others. */
const LONG = 200;

/** A table that becomes cards on a phone. columns: [{ name, title, cell(row), align, wide }] */
export function table(columns, rows, { label, rowKey } = {}) {
  const cells = (row) => columns.map((column, index) => h(index === 0 ? "th" : "td",
    { scope: index === 0 ? "row" : undefined, class: column.align === "end" ? "end" : undefined, data: { title: column.title } }, h("div", { class: "cell" }, column.cell(row))));
  const line = (row) => h("tr", { data: rowKey ? { key: rowKey(row) } : {} }, cells(row));
  const piece = (some) => h("tbody", {}, some.map(line));
  const head = h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.align === "end" ? "end" : undefined }, column.title))));
  const element = h("table", { class: "table" }, h("caption", { class: "visually-hidden" }, label), head, rows.length > 0 && piece(rows));
  let lines = rows.length;

  /** The columns stay as wide as they have become; only pieces in sight are laid out from here on. */
  function becomeLong() {
    const widths = [...head.rows[0].cells].map((cell) => Math.round(cell.getBoundingClientRect().width));
    element.style.setProperty("--columns", widths.map((width) => `minmax(0, ${width || 1}fr)`).join(" "));
    element.classList.add("long");
  }

  return {
    element,
    add(more) {
      if (more.length === 0) return;
      element.append(piece(more));
      if (lines <= LONG && lines + more.length > LONG) becomeLong();
      lines += more.length;
    },
  };
}

/** How often a list goes on by itself while nothing that fits was found, and the pause between, which spares the server. */
const LOOKS_MAX = 100;
const LOOK_PAUSE = 50;

/**
 * Reads on until something is found: of a long list that is filtered, the server looks through a part at a time.
 * `wanted()` becomes false when nobody waits for it any more.
 */
async function firstFound(load, cursor, wanted) {
  let page = await load(cursor);
  for (let looks = 1; page.items.length === 0 && page.nextCursor && looks < LOOKS_MAX && wanted(); looks += 1) {
    await new Promise((next) => { setTimeout(next, LOOK_PAUSE); });
    page = await load(page.nextCursor);
  }
  return page;
}

/**
 * A list that is read page by page.
 *   load(cursor): a promise of { items, nextCursor }; columns as of `table`
 */
export function pagedTable({ label, columns, load, empty, rowKey }) {
  const place = h("div", { class: "list" });
  const count = h("p", { class: "list-count", role: "status" });
  let shown = null;
  let total = 0;
  let reading = 0;

  async function more(cursor) {
    const waiting = loading();
    place.append(waiting);
    const present = reading;
    const wanted = () => present === reading;
    try {
      const page = await firstFound(load, cursor, wanted);
      // Another filter was chosen meanwhile: this is not what is looked for any more.
      if (!wanted()) return;
      waiting.remove();
      place.querySelector(".more")?.remove();
      if (!shown) {
        shown = table(columns, [], { label, rowKey });
        place.append(shown.element);
      }
      shown.add(page.items);
      total += page.items.length;
      if (total === 0 && !page.nextCursor) replace(place, empty ?? emptyState(t("state.empty")));
      else count.textContent = t(page.nextCursor ? "list.shown" : "list.all", { count: total });
      if (page.nextCursor) {
        place.append(h("div", { class: "more" }, button(t("action.more"), { click: (event) => {
          event.currentTarget.disabled = true;
          more(page.nextCursor);
        } })));
      }
    } catch (error) {
      waiting.remove();
      if (error.name === "AbortError" || !wanted()) return;
      place.querySelector(".problem")?.remove();
      place.append(problemPanel(error, { retry: (event) => {
        event.currentTarget.closest(".problem").remove();
        more(cursor);
      } }));
    }
  }

  const reload = () => {
    reading += 1;
    shown = null;
    total = 0;
    count.textContent = "";
    replace(place);
    return more(null);
  };
  const ready = reload();
  return { element: h("div", { class: "listing" }, place, count), reload, ready };
}

/** Facts by name, in two columns where there is room. pairs: [[name, value], …] */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value ?? "–"))));
}

/** What happened, in order. entries: [{ at, title, text, tone }]; `at` already written */
export function timeline(entries) {
  return h("ol", { class: "timeline" }, entries.map((entry) => h("li", { class: `tone-${entry.tone ?? "quiet"}` },
    h("div", { class: "timeline-title" }, entry.title), entry.at && h("div", { class: "timeline-at" }, entry.at), entry.text && h("div", { class: "timeline-text" }, entry.text))));
}

export function card(title, ...children) {
  const id = uniqueId("card");
  return h("section", { class: "card", "aria-labelledby": title ? id : undefined }, title && h("h2", { id }, title), children);
}

/** Language and theme, remembered. */
export function tastes() {
  const names = { ko: "한국어", en: "English" };
  const languages = select(LANGUAGES.map((one) => [one, names[one]]), { value: language(), class: "small", "aria-label": t("taste.language"), on: { change: (event) => setLanguage(event.target.value) } });
  const themes = select(THEMES.map((one) => [one, t(`taste.theme.${one}`)]), { value: theme(), class: "small", "aria-label": t("taste.theme"), on: { change: (event) => setTheme(event.target.value) } });
  return h("div", { class: "tastes" }, languages, themes);
}
