// Signing in with a token, where no link did.

import { h } from "/assets/base/dom.js";
import { t } from "/assets/base/i18n.js";
import { signInForm } from "/assets/base/sign-in.js";
import { tastes } from "/assets/base/ui.js";
import { troublePanel } from "/assets/play/trouble.js";

export function signInPage(done, { error, ended } = {}) {
  const form = signInForm({ label: t("play.signIn.token"), hint: t("play.signIn.hint"), kind: "primary big", done, trouble: troublePanel, error });
  return h("main", { class: "welcome", id: "content" },
    h("div", { class: "welcome-card" },
      h("img", { src: "/assets/base/favicon.svg", alt: "", width: 56, height: 56 }),
      h("h1", {}, t("play.signIn.title")),
      h("p", { class: "muted" }, t(ended ? "play.signIn.ended" : "play.signIn.text")),
      form, tastes()));
}
