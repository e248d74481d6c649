// Signing in with a token, and what is shown to whoever may not see the console.

import { h } from "/assets/base/dom.js";
import { t } from "/assets/base/i18n.js";
import * as session from "/assets/base/session.js";
import { signInForm } from "/assets/base/sign-in.js";
import { button, problemPanel, tastes } from "/assets/base/ui.js";

function frame(...children) {
  const brand = h("div", { class: "brand" }, h("img", { src: "/assets/base/favicon.svg", alt: "" }), t("console.title"));
  return h("main", { class: "sign-in" }, h("div", { class: "card" }, h("div", { class: "row apart" }, brand, tastes()), children));
}

export function signInPage(done, error) {
  const form = signInForm({ label: t("signIn.token"), hint: t("signIn.hint"), done, trouble: problemPanel, error });
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
