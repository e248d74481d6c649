// What went wrong, in the words of the page's language. The API's own words are English, and for programmers.

import { ApiError } from "/assets/base/api.js";
import { h } from "/assets/base/dom.js";
import { has, t } from "/assets/base/i18n.js";
import { problemPanel, problemTitle } from "/assets/base/ui.js";

/** The error in words for whoever takes part. The code and the trace id stay: whoever is asked for help needs them. */
function told(error) {
  if (!(error instanceof ApiError) || error.code === "UNREACHABLE") return error;
  const known = has(`trouble.${error.code}`);
  const key = known ? `trouble.${error.code}` : error.status >= 500 ? "trouble.ours" : "trouble.refused";
  const title = known ? t(key) : problemTitle(error);
  return Object.assign(Object.create(error), { told: true, title, detail: t(`${key}.text`) });
}

export function troublePanel(error, options) {
  return problemPanel(told(error), options);
}

/** The same as all that a page has to show. */
export function troublePage(error, options) {
  const shown = told(error);
  return h("div", { class: "stack" }, h("h1", {}, problemTitle(shown)), problemPanel(shown, { ...options, titled: false }));
}
