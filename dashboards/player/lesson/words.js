// The page's own words: the server puts them into the page, from `dashboards/words/lessons.toml`.

import { find } from "#player/dom.js";

/** @typedef {Readonly<Record<string, string>>} Words */

/** @returns {Words} */
export function readWords() {
  return JSON.parse(find(document, "#words", HTMLScriptElement).textContent ?? "{}");
}

/**
 * A sentence with values in place of `{name}`.
 * @param {string} text
 * @param {Readonly<Record<string, string | number>>} values
 */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));
}
