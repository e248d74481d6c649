// Signing in with a token, and what is shown to whoever may not see the console.

import { h, replace } from "/assets/base/dom.js";
import { t } from "/assets/base/i18n.js";
import * as session from "/assets/base/session.js";
import { button, field, problemPanel, tastes } from "/assets/base/ui.js";

function frame(...children) {
  const brand = h("div", { class: "brand" }, h("img", { src: "/assets/base/favicon.svg", alt: "" }), t("console.title"));
  return h("main", { class: "sign-in" }, h("div", { class: "card" }, h("div", { class: "row apart" }, brand, tastes()), children));
}

export function signInPage(done, error) {
  const fault = h("div", {}, error && problemPanel(error));
  const token = h("input", { type: "password", name: "token", required: true, autocomplete: "off", spellcheck: "false", class: "mono" });
  const enter = button(t("action.signIn"), { kind: "primary", type: "submit" });
  const form = h("form", { class: "stack", on: { submit: async (event) => {
    event.preventDefault();
    enter.disabled = true;
    try {
      await session.signIn(token.value);
      done();
    } catch (problem) {
      replace(fault, problemPanel(problem));
      token.focus();
    } finally {
      enter.disabled = false;
    }
  } } }, field(t("signIn.token"), token, { hint: t("signIn.hint"), name: "token" }), fault, enter);
  return frame(h("h1", {}, t("signIn.title")), form);
}

export function refusedPage(done) {
  const { userId, name } = session.current();
  const leave = button(t("action.signOut"), { click: async () => {
    await session.signOut().catch(() => {});
    done();
  } });
  return frame(h("h1", {}, t("refused.title")), h("p", {}, t("refused.text", { user: name ?? userId })), leave);
}
