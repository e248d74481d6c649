// Signing in with a token, where no link did.

import { h, replace } from "/assets/base/dom.js";
import { t } from "/assets/base/i18n.js";
import * as session from "/assets/base/session.js";
import { button, field, tastes } from "/assets/base/ui.js";
import { troublePanel } from "/assets/play/trouble.js";

export function signInPage(done, { error, ended } = {}) {
  const fault = h("div", {}, error && troublePanel(error));
  const token = h("input", { type: "password", name: "token", required: true, autocomplete: "off", spellcheck: "false", class: "mono" });
  const enter = button(t("action.signIn"), { kind: "primary big", type: "submit" });
  const form = h("form", { class: "stack", on: { submit: async (event) => {
    event.preventDefault();
    enter.disabled = true;
    try {
      await session.signIn(token.value);
      done();
    } catch (problem) {
      replace(fault, troublePanel(problem));
      token.focus();
    } finally {
      enter.disabled = false;
    }
  } } }, field(t("play.signIn.token"), token, { hint: t("play.signIn.hint"), name: "token" }), fault, enter);
  return h("main", { class: "welcome", id: "content" },
    h("div", { class: "welcome-card" },
      h("img", { src: "/assets/base/favicon.svg", alt: "", width: 56, height: 56 }),
      h("h1", {}, t("play.signIn.title")),
      h("p", { class: "muted" }, t(ended ? "play.signIn.ended" : "play.signIn.text")),
      form, tastes()));
}
