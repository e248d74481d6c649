// What stands around every page: the rail with its links, the search box, who is signed in.

import { h, replace } from "/assets/base/dom.js";
import { t } from "/assets/base/i18n.js";
import { navigate } from "/assets/base/router.js";
import * as session from "/assets/base/session.js";
import { badge, button, emptyState, problemPanel, tastes } from "/assets/base/ui.js";

const GROUPS = [
  ["nav.run", [["/events", "nav.events"], ["/claims", "nav.claims"], ["/allocations", "nav.allocations"], ["/outbox", "nav.outbox"]]],
  ["nav.keep", [["/users", "nav.users"], ["/coupons", "nav.coupons"], ["/accounts", "nav.accounts"]]],
  ["nav.watch", [["/audit", "nav.audit"], ["/audit-log", "nav.auditLog"]]],
];

function searchBox() {
  const input = h("input", { type: "search", name: "q", placeholder: t("search.placeholder"), "aria-label": t("search.label"), autocomplete: "off", spellcheck: "false", maxlength: 255 });
  return h("form", { class: "search", role: "search", on: { submit: (event) => {
    event.preventDefault();
    const text = input.value.trim();
    if (text) navigate(`#/search?${new URLSearchParams({ q: text })}`);
  } } }, input);
}

function who(restart) {
  const { userId, name, roles } = session.current();
  const leave = button(t("action.signOut"), { kind: "plain small", click: async () => {
    await session.signOut().catch(() => {});
    restart();
  } });
  return h("div", { class: "who" },
    h("div", {}, h("p", { class: "who-name" }, name ?? userId), h("div", { class: "row" }, roles.map((role) => badge(t(`role.${role}`), "quiet")))),
    tastes(), leave);
}

export function frame(restart) {
  const links = [];
  const nav = h("nav", { class: "nav", id: "nav", "aria-label": t("nav.label") }, GROUPS.map(([title, items]) => h("div", {},
    h("h2", {}, t(title)),
    items.map(([path, name]) => {
      const link = h("a", { href: `#${path}` }, t(name));
      links.push([path, link]);
      return link;
    }))));
  const menu = button(t("nav.menu"), { kind: "plain small menu-button", "aria-expanded": "false", "aria-controls": "nav", click: () => setOpen(!rail.hasAttribute("data-open")) });
  const brand = h("a", { class: "brand", href: "#/events" }, h("img", { src: "/assets/base/favicon.svg", alt: "" }), t("console.title"));
  const rail = h("div", { class: "rail" }, h("header", { class: "rail-head" }, brand, menu), nav, who(restart));
  const content = h("main", { id: "content", tabindex: "-1" });
  const skip = h("a", { class: "skip", href: "#content", on: { click: (event) => {
    event.preventDefault();
    content.focus();
  } } }, t("page.skip"));

  function setOpen(open) {
    rail.toggleAttribute("data-open", open);
    menu.setAttribute("aria-expanded", String(open));
  }

  const element = h("div", {}, skip, h("div", { class: "frame" }, rail, h("div", { class: "content" }, h("div", { class: "topbar" }, searchBox()), content)));
  return {
    element,
    content,
    /** Marks where one is. */
    at(path) {
      setOpen(false);
      const place = path === "/" ? "/events" : path;
      for (const [start, link] of links) {
        if (place === start || place.startsWith(`${start}/`)) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
      }
    },
  };
}

/** A page: its way back, its title, what can be done, and what it shows. */
export function page({ title, text, back, marks, actions }, ...children) {
  return h("div", { class: "page" },
    h("div", { class: "page-head" },
      h("div", {}, back && h("p", { class: "crumbs" }, h("a", { href: back[0] }, `← ${back[1]}`)), h("h1", {}, title), marks && h("div", { class: "row marks" }, marks), text && h("p", {}, text)),
      actions && h("div", { class: "row" }, actions)),
    children);
}

export function missingPage() {
  return page({ title: t("missing.title") }, h("div", { class: "list" }, emptyState(t("missing.text"))));
}

/** A place that is filled once something has been read, and says so when it could not be. */
export function later(read, show) {
  const place = h("div", {});
  read().then((value) => replace(place, show(value))).catch((error) => {
    if (error.name !== "AbortError") replace(place, problemPanel(error));
  });
  return place;
}
