// Words in two languages. Every text on a page comes from here; a test compares the keys of the dictionaries.

import { recall, remember } from "/assets/base/storage.js";
import en from "/assets/base/words.en.js";
import ko from "/assets/base/words.ko.js";

export const LANGUAGES = ["ko", "en"];
const words = { ko: { ...ko }, en: { ...en } };
const listeners = new Set();
let current = choose();

function choose() {
  const chosen = recall("language");
  if (LANGUAGES.includes(chosen)) return chosen;
  const wished = (navigator.languages ?? [navigator.language]).map((tag) => tag.slice(0, 2).toLowerCase());
  return wished.find((language) => LANGUAGES.includes(language)) ?? "en";
}

/** Adds a page's own words: { ko: {…}, en: {…} }. */
export function addWords(dictionaries) {
  for (const language of LANGUAGES) Object.assign(words[language], dictionaries[language]);
  document.documentElement.lang = current;
}

export function language() {
  return current;
}

export function setLanguage(next) {
  if (!LANGUAGES.includes(next) || next === current) return;
  current = next;
  remember("language", next);
  document.documentElement.lang = next;
  for (const listener of listeners) listener(next);
}

export function onLanguage(listener) {
  listeners.add(listener);
}

export function has(key) {
  return key in words[current];
}

/**
 * The text of a key, with `{name}` replaced. Where `count` is given, `key.one` is taken for what the language counts as one.
 */
export function t(key, values = {}) {
  let found = key;
  if (typeof values.count === "number" && new Intl.PluralRules(current).select(values.count) === "one") {
    if (`${key}.one` in words[current]) found = `${key}.one`;
  }
  const text = words[current][found];
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => {
    const value = values[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? new Intl.NumberFormat(current).format(value) : String(value);
  });
}

/** A name that the API uses, such as a status, in words; itself where there are none. */
export function named(group, value) {
  if (value === null || value === undefined) return "–";
  const key = `${group}.${value}`;
  return has(key) ? t(key) : String(value);
}
