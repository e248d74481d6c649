// Light, dark, or as the system has it.

import { recall, remember } from "/assets/base/storage.js";

export const THEMES = ["system", "light", "dark"];

export function theme() {
  const chosen = recall("theme");
  return THEMES.includes(chosen) ? chosen : "system";
}

function apply(name) {
  if (name === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
}

export function setTheme(name) {
  remember("theme", name === "system" ? null : name);
  apply(name);
}

apply(theme());
