// The form that takes a token, for whichever page somebody signs in to.

import { h, replace } from "/assets/base/dom.js";
import { t } from "/assets/base/i18n.js";
import * as session from "/assets/base/session.js";
import { button, field } from "/assets/base/ui.js";

/**
 * label, hint: of the token's field; kind: of the button; done(): once somebody is signed in
 *   trouble(error): how a page shows what went wrong; error: what already has
 */
export function signInForm({ label, hint, kind = "primary", done, trouble, error }) {
  const fault = h("div", {}, error && trouble(error));
  const token = h("input", { type: "password", name: "token", required: true, autocomplete: "off", spellcheck: "false", class: "mono" });
  const enter = button(t("action.signIn"), { kind, type: "submit" });
  return h("form", { class: "stack", on: { submit: async (event) => {
    event.preventDefault();
    enter.disabled = true;
    try {
      await session.signIn(token.value);
      done();
    } catch (problem) {
      replace(fault, trouble(problem));
      token.focus();
    } finally {
      enter.disabled = false;
    }
  } } }, field(label, token, { hint, name: "token" }), fault, enter);
}
