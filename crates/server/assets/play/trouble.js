// What went wrong, in the words of the page's language. The API's own words are English, and for programmers.

import { ApiError } from "/assets/base/api.js";
import { has, t } from "/assets/base/i18n.js";
import { problemPanel } from "/assets/base/ui.js";

export function troublePanel(error, options) {
  if (!(error instanceof ApiError) || error.code === "UNREACHABLE") return problemPanel(error, options);
  const key = has(`trouble.${error.code}`) ? `trouble.${error.code}` : error.status >= 500 ? "trouble.ours" : "trouble.refused";
  // The code and the trace id stay: whoever is asked for help needs them.
  return problemPanel(Object.assign(Object.create(error), { title: t(key), detail: t(`${key}.text`) }), options);
}
