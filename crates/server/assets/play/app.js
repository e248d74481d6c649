// The participants' page.

import { onSignedOut } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { addWords, onLanguage, t } from "/assets/base/i18n.js";
import { createRouter } from "/assets/base/router.js";
import * as session from "/assets/base/session.js";
import "/assets/base/theme.js";
import { button, emptyState, loading, tastes } from "/assets/base/ui.js";
import { onConnection } from "/assets/play/calls.js";
import { nowAndThen, setClock } from "/assets/play/clock.js";
import { couponPage, couponsPage } from "/assets/play/coupons.js";
import { eventPage } from "/assets/play/event.js";
import { historyPage } from "/assets/play/history.js";
import { homePage } from "/assets/play/home.js";
import { picture } from "/assets/play/pictures.js";
import { pointsPage } from "/assets/play/points.js";
import { signInPage } from "/assets/play/sign-in.js";
import { troublePage } from "/assets/play/trouble.js";
import en from "/assets/play/words.en.js";
import ko from "/assets/play/words.ko.js";

addWords({ ko, en });
const app = document.getElementById("app");
const CLOCK_INTERVAL = 240_000;
const TABS = [["events", "#/"], ["history", "#/history"], ["coupons", "#/coupons"], ["points", "#/points"]];

let router = null;
let content = null;
let ended = false;

function tabOf(path) {
  return ["history", "coupons", "points"].find((name) => path.startsWith(`/${name}`)) ?? "events";
}

function frame() {
  const { userId, name } = session.current();
  const tab = ([key, hash]) => h("a", { href: hash, class: "tab", data: { tab: key } }, picture(key, 22), h("span", {}, t(`tab.${key}`)));
  const leave = button(t("action.signOut"), { kind: "quiet small", click: async () => {
    await session.signOut().catch(() => {});
    start();
  } });
  content = h("main", { id: "content", class: "content", tabindex: "-1" });
  const skip = h("a", { class: "skip", href: "#content", on: { click: (event) => {
    event.preventDefault();
    content.focus();
  } } }, t("page.skip"));
  return [
    skip,
    h("header", { class: "top" },
      h("a", { class: "brand", href: "#/" }, h("img", { src: "/assets/base/favicon.svg", alt: "", width: 28, height: 28 }), h("span", {}, "Guerdon")),
      h("nav", { class: "tabs", "aria-label": t("tab.label") }, TABS.map(tab))),
    content,
    h("footer", { class: "foot" }, h("span", { class: "who" }, t("play.signedIn", { user: name ?? userId })), leave, tastes()),
  ];
}

async function show({ page, parameters, path, query, signal }) {
  for (const link of app.querySelectorAll(".tab")) {
    if (link.dataset.tab === tabOf(path)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const moved = content.childElementCount > 0;
  replace(content, loading());
  let element;
  try {
    element = await page({ parameters, query, signal });
  } catch (error) {
    if (error.name === "AbortError" || signal.aborted) return;
    element = troublePage(error, { retry: () => router.go() });
  }
  if (signal.aborted || !session.current()) return;
  replace(content, element);
  const title = content.querySelector("h1");
  document.title = title ? `${title.textContent} · Guerdon` : "Guerdon";
  if (moved) {
    scrollTo(0, 0);
    content.focus({ preventScroll: true });
  }
}

const missing = () => h("div", { class: "stack" }, h("h1", {}, t("play.missing")), emptyState(t("play.missing.text"), null, h("a", { class: "button", href: "#/" }, t("tab.events"))));

function start(error) {
  router?.stop();
  if (!session.current()) {
    replace(app, signInPage(start, { error, ended }));
    document.title = `${t("play.signIn.title")} · Guerdon`;
    return;
  }
  ended = false;
  replace(app, frame());
  router ??= createRouter({
    routes: [["/", homePage], ["/events/:id", eventPage], ["/history", historyPage], ["/coupons", couponsPage], ["/coupons/:id", couponPage], ["/points", pointsPage]],
    missing,
    show: (found) => (session.current() ? show(found) : undefined),
  });
  setClock().catch(() => {});
  router.go();
}

onSignedOut(() => {
  if (!session.current()) return;
  session.forget();
  ended = true;
  start();
});
onLanguage(() => start());
onConnection((reachable) => {
  const place = document.getElementById("connection");
  document.body.classList.toggle("unreachable", !reachable);
  place.textContent = reachable ? "" : t("connection.lost");
  if (reachable) setClock().catch(() => {});
});
nowAndThen(() => (session.current() ? setClock().catch(() => {}) : undefined), CLOCK_INTERVAL, new AbortController().signal);

try {
  await session.begin();
  start();
} catch (error) {
  start(error);
}
