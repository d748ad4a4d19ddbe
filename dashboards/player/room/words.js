// The texts of a room's pages: dashboards/words/rooms.toml, which the server puts into the page.

import { find } from "#player/dom.js";

/** @typedef {Record<string, string>} Plain sentences by name */
/** @typedef {{one: string, other: string}} Forms of a sentence with a number in it */

const RULES = new Intl.PluralRules(document.documentElement.lang || "en");
/** @type {Record<string, Record<string, string | Forms>>} */
const every = JSON.parse(find(document, "#room-words", HTMLElement).textContent ?? "{}");

/**
 * A sentence.
 * @param {"lecturer" | "student" | "both"} whom
 * @param {string} name
 * @param {Record<string, string | number>} [values] in place of their names; `num` chooses the form
 */
export function say(whom, name, values = {}) {
  const found = every[whom]?.[name];
  if (found === undefined) {
    throw new Error(`rooms.toml has no ${whom}.${name}`);
  }
  const text = typeof found === "string" ? found : form(found, Number(values.num));
  return text.replaceAll(/\{(\w+)\}/g, (whole, key) => String(values[key] ?? whole));
}

/** @param {Forms} forms @param {number} num */
function form(forms, num) {
  return RULES.select(num) === "one" ? forms.one : forms.other;
}
